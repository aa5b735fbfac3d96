"""A posterior over the linear head on embeddings: trained, sampled, measured, saved."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

import sbmc
from sbmc.checks import Phrase, is_number, require, require_count, require_flag, require_path
from sbmc.embedding.embedded import Embedded
from sbmc.model.data import Examples
from sbmc.prediction.metrics import classification_metrics, ood_metrics
from sbmc.prediction.prediction import Prediction
from sbmc.randomness import generator
from sbmc.storage.files import write_json
from sbmc.storage.provenance import hardware_summary, software_versions
from sbmc.tuning import tune
from sbmc.tuning.folds import make_folds

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior
    from sbmc.samplers.contract import Sampler

POSTERIOR, RECORD = "posterior.sbmc", "head.json"


@dataclass(frozen=True)
class HeadRun:
    """The result of `run_head`.

    Attributes:
        posterior: the posterior over the head.
        model: the trained head that it is anchored at.
        metrics: on the held-out examples, for `"map"` and `"posterior"`; entropies on other groups
            have names that begin with `entropy.` and hold `.ood.`.
        record: all results as plain values, with settings, cost and the origin of the data.
    """

    posterior: Posterior
    model: nn.Module
    metrics: Mapping[str, Mapping[str, float]]
    record: Mapping[str, Any]

    def save(self, out: Path) -> Path:
        """Write posterior and record.

        Args:
            out: a folder; they go to a folder in it that the settings name.

        Returns:
            That folder.

        Raises:
            BadInput: `out` is a file.
        """
        seed = self.record["settings"]["seed"]
        parent = require_path("out", out)
        require(not parent.is_file(), "out", "a folder, or the path of a new one", str(out))
        folder = parent / "head" / str(self.record["hash"]) / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        self.posterior.save(folder / POSTERIOR)
        write_json(folder / RECORD, self.record)
        return folder


def run_head(
    embedded: Embedded,
    *,
    v: float = 1.0,
    s: float = 0.1,
    sampler: Sampler | None = None,
    particles: int = 10,
    islands: int = 1,
    held_out: int = 5,
    seed: int = 0,
    choose: bool = False,
    ood: Mapping[str, Embedded] | None = None,
    max_epochs: int = 1000,
    progress: bool | None = None,
) -> HeadRun:
    """Train a linear head on embeddings, sample around it, and measure it on held-out examples.

    One example in `held_out` is used only for measuring; a tenth of the others is used for early
    stopping. The sampler conditions on all examples that are not held out.

    Args:
        embedded: with labels.
        v: prior variance.
        s: scale of the prior around the trained head.
        sampler: `HMC(epochs=160)` if not given.
        particles: N.
        islands: P.
        held_out: one example in so many is held out; classes in proportion.
        seed: of the split, of training and of sampling.
        choose: choose v and s by cross-validation on the examples that are not held out; see
            `sbmc.tune`.
        ood: embeddings of other data, by name: their entropies are measured too.
        max_epochs: of training, at most.
        progress: None shows a bar on a terminal; True always shows something; False nothing.

    Returns:
        The run.

    Raises:
        BadInput: there are no labels, or other embeddings have another width.
    """
    rule = "an Embedded, such as load_embedded(...) returns"
    require(isinstance(embedded, Embedded), "embedded", rule, embedded)
    require_flag("choose", choose)
    for name, number in zip(
        ("particles", "islands", "max_epochs"), (particles, islands, max_epochs), strict=True
    ):
        require_count(name, number)
    require_count("held_out", held_out, 2)
    others = ood is None or isinstance(ood, Mapping)
    others = others and all(isinstance(group, Embedded) for group in (ood or {}).values())
    require(others, "ood", "a dict of Embedded by their names, or None", ood)
    labels = embedded.labels
    if labels is None:
        require(False, "file", "one with labels", Phrase("none"))
    assert labels is not None
    classes = len(embedded.class_names)
    require(classes >= 2, "file", "one of two classes or more", Phrase(f"{classes}"))
    for name, value, rule, good in (
        ("v", v, "positive and finite", lambda x: 0 < x < math.inf),
        ("s", s, "in [0, 1]", lambda x: 0 <= x <= 1),
    ):
        require(is_number(value) and good(value), name, rule, value)
    generator(seed)
    width = embedded.inputs.shape[1]
    for name, group in (ood or {}).items():
        rule = f"of the same width, {width}, as the others ({name})"
        require(group.inputs.shape[1] == width, "ood", rule, group.inputs.shape[1])
    fold = make_folds(labels, held_out, seed)[0]
    examples = Examples(embedded.inputs, labels)
    algorithm = sbmc.HMC(epochs=160) if sampler is None else sampler
    network = nn.Linear(width, classes)
    tuning = None
    if choose:
        tuning = tune(
            network,
            examples.select(fold.seen),
            sampler=algorithm,
            particles=particles,
            seed=seed,
            max_epochs=max_epochs,
            progress=progress,
        )
        v, s = tuning.v, tuning.sampled_s
    model = sbmc.train_map(
        network,
        examples.select(fold.train),
        examples.select(fold.validation),
        prior_variance=v,
        seed=seed,
        max_epochs=max_epochs,
        # The head is made here, so that the seed decides its first weights, not torch's global
        # state.
        initial="prior",
        progress=progress,
    )
    posterior = sbmc.fit(
        model,
        examples.select(fold.seen),
        s=s,
        prior_variance=v,
        sampler=algorithm,
        particles=particles,
        islands=islands,
        seed=seed,
        progress=progress,
    )
    alone = sbmc.fit(model, examples.select(fold.seen), s=0, prior_variance=v, progress=False)
    held = examples.select(fold.held_out)
    metrics = {
        "map": _measure(alone, held, ood or {}),
        "posterior": _measure(posterior, held, ood or {}),
    }
    # Plain numbers, since a record is JSON.
    settings = {
        **{"v": float(v), "s": float(s), "held_out": int(held_out), "seed": int(seed)},
        **{"max_epochs": int(max_epochs), "particles": int(particles), "islands": int(islands)},
        "chosen": choose,
        **{name: posterior.settings.get(name) for name in ("sampler", "sampler_settings")},
    }
    record = {
        "kind": "head",
        "schema_version": 1,
        "hash": _hash(settings, embedded),
        "settings": settings,
        "data": {
            "checksum": embedded.checksum,
            "about": dict(embedded.about),
            "class_names": list(embedded.class_names),
            "examples": {name: len(rows) for name, rows in fold._asdict().items()},
            "ood": {name: group.checksum for name, group in (ood or {}).items()},
        },
        "metrics": metrics,
        "cost": posterior.cost.as_dict(),
        "tuning": None if tuning is None else tuning.as_dict(),
        "versions": software_versions(),
        "hardware": hardware_summary(),
    }
    return HeadRun(posterior, model, metrics, record)


def _measure(posterior: Posterior, held: Any, ood: Mapping[str, Embedded]) -> dict[str, float]:
    inputs, labels = held
    metrics = classification_metrics(_predict(posterior, inputs), labels)
    if ood:
        groups = {name: _predict(posterior, group.inputs) for name, group in ood.items()}
        metrics |= ood_metrics(groups)
    return metrics


def _predict(posterior: Posterior, inputs: Any) -> Prediction:
    prediction = posterior.predict(inputs)
    assert isinstance(prediction, Prediction)
    return prediction


def _hash(settings: Mapping[str, Any], embedded: Embedded) -> str:
    used = {name: value for name, value in settings.items() if name != "seed"}
    text = json.dumps([used, embedded.checksum], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
