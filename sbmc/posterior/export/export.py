"""Writes a posterior or a distilled network as one graph, and tries the file before it is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import sbmc
from sbmc.checks import BadInput, require
from sbmc.log import logger
from sbmc.model.data import Inputs, as_inputs, check_inputs, count, leaves, rows, tree_map
from sbmc.posterior.distillation.heads import ClassHeads
from sbmc.posterior.export.abstention import AbstentionRule, abstention_rule
from sbmc.posterior.export.formats import Format, Interface, format_of, trace
from sbmc.posterior.export.graph import (
    UNROLLED,
    WAYS,
    DistilledAnswers,
    EnsembleAnswers,
    Graph,
)
from sbmc.posterior.export.mixtures import ClassMixture, NumberMixture, require_normal
from sbmc.posterior.input_batches import weighted_particles
from sbmc.prediction.predictive import checked_level
from sbmc.storage.files import atomic_write
from sbmc.target.probe import made_up_rows

if TYPE_CHECKING:
    from sbmc.posterior.distillation.distilled import Distilled
    from sbmc.posterior.posterior import Posterior

# Beyond, a graph with a part for each particle takes minutes to write and to open.
MOST_UNROLLED = 200
# Relative to the largest value: far above the rounding of float32, far below what an error gives.
TOLERANCE = 1e-4
ROWS = 3

MEANINGS = {
    "probabilities": "probability of each class in the mixture, (batch, classes)",
    "mean": "mean of the mixture, in the unit of the targets, (batch, outputs)",
    "lower": "lower end of the central interval of predictions, (batch, outputs)",
    "upper": "upper end of the central interval of predictions, (batch, outputs)",
    "total": "total uncertainty",
    "aleatoric": "the part that more data would leave",
    "epistemic": "the part that more data would remove",
    "score": "probability that the answer is wrong or the input out of domain, (batch,)",
    "abstain": "whether to abstain, (batch,)",
}


@dataclass(frozen=True)
class Exported:
    """A file that was written.

    Attributes:
        path: of the file.
        format: `"ONNX"` or `"torch.export"`.
        inputs: names, in their order.
        outputs: names, in their order.
        unrolled: whether each particle has its own part of the graph; otherwise an operation is
            one for all particles.
        difference: between the file's answers and those of `predict` on a few rows, at most,
            relative to the largest value of an output.
        bytes: of the file.
    """

    path: Path
    format: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    unrolled: bool
    difference: float
    bytes: int

    def __str__(self) -> str:
        way = "; a part of the graph for each network" if self.unrolled else ""
        return (
            f"{self.path} ({self.format}, {self.bytes:,} bytes): {', '.join(self.inputs)} to "
            f"{', '.join(self.outputs)}{way}; differs from predict by {self.difference:.1e}"
        )


def export_posterior(
    posterior: Posterior,
    path: str | Path,
    *,
    inputs: Any = None,
    interval: float | None = 0.9,
    abstain: Any = None,
) -> Exported:
    """Write a posterior; see `Posterior.export`."""
    final, form = format_of(path)
    classes = posterior.likelihood.classification
    level = _level(interval, classes)
    confidence = posterior.fitted_confidence
    rule = abstention_rule(abstain, confidence, classes=classes, interval=level is not None)
    scored: Any = confidence if rule is not None and rule.quantity == "score" else None
    few = _few_rows(inputs, posterior.input_description, posterior.dtype)
    posterior.predict(few)  # which refuses rows that the network does not take, in words
    theta, weights, chosen = weighted_particles(posterior)
    theta = (theta if chosen is None else theta[chosen]).to("cpu", posterior.dtype)
    form.prepare(theta.nbytes)
    # Standardised features of a confidence magnify the rounding of float32.
    weights = weights.cpu().to(torch.float64 if scored is not None else posterior.dtype)
    mixture: nn.Module
    if classes:
        mixture = ClassMixture(posterior.likelihood, weights, with_features=scored is not None)
    else:
        outputs = posterior.outputs(theta[:1].to(posterior.positions.device), few).cpu()
        if level is not None:
            require_normal(posterior.likelihood, outputs, "interval", "intervals")
        if scored is not None:
            require_normal(posterior.likelihood, outputs, "abstain", "scores of a confidence")
        width = None if scored is None else scored.width
        mixture = NumberMixture(posterior.likelihood, weights, interval=level, width=width)
    score = scored.classifier.as_module() if scored is not None and classes else None

    def graph(way: str) -> Graph:
        networks = WAYS[way](posterior.model, posterior.space, theta, few)
        answering = EnsembleAnswers(networks, mixture, score)
        return Graph(answering, _names(few), rule, posterior.dtype)

    def expected(some: Inputs) -> dict[str, Tensor]:
        prediction = posterior.predict(some)
        found = _expected(prediction, level)
        return found if scored is None else {**found, "score": scored.score(prediction)}

    kind = _kind(classes)
    metadata = {
        "what": f"posterior of {len(theta)} networks for {kind}",
        "networks": str(len(theta)),
        "likelihood": json.dumps(posterior.likelihood.describe()),
        "health": str(posterior.health),
    }
    if posterior.recipe is not None and posterior.recipe.data:
        metadata["data"] = json.dumps(posterior.recipe.data)  # columns and classes by name
    metadata |= _common_metadata(classes, level, rule)
    return _write(final, form, graph, few, expected, metadata, len(theta))


def export_distilled(
    distilled: Distilled,
    path: str | Path,
    *,
    inputs: Any = None,
    interval: float | None = 0.9,
    abstain: Any = None,
) -> Exported:
    """Write a distilled network; see `Distilled.export`."""
    final, form = format_of(path)
    classes = isinstance(distilled.network.heads, ClassHeads)
    level = _level(interval, classes)
    rule = abstention_rule(abstain, None, classes=classes, interval=level is not None)
    described = {"inputs": distilled.settings.get("inputs")}
    few = _few_rows(inputs, described, distilled.dtype)
    distilled.predict(few)  # which refuses rows that the network does not take, in words
    form.prepare(sum(weight.nbytes for weight in distilled.network.parameters()))

    def graph(way: str) -> Graph:
        answering = DistilledAnswers(distilled.network, classes=classes, interval=level)
        return Graph(answering, _names(few), rule, distilled.dtype)

    def expected(some: Inputs) -> dict[str, Tensor]:
        return _expected(distilled.predict(some), level)

    kind = _kind(classes)
    metadata = {
        "what": f"one network for {kind}, distilled from {distilled.settings['particles']}",
        "networks": "1",
        "fidelity": str(distilled.fidelity),
        "health": str(distilled.settings.get("health", "not checked")),
    }
    metadata |= _common_metadata(classes, level, rule)
    return _write(final, form, graph, few, expected, metadata, 1)


def _write(
    final: Path,
    form: Format,
    make: Callable[[str], Graph],
    few: Inputs,
    expected: Callable[[Inputs], dict[str, Tensor]],
    metadata: Mapping[str, str],
    particles: int,
) -> Exported:
    """Trace, convert and try: first with operations for all particles, then one by one."""
    reason = ""
    for way in WAYS:
        if way == UNROLLED and particles > MOST_UNROLLED:
            break
        try:
            graph = make(way)
            with torch.no_grad():
                outputs = tuple(graph.answers(*leaves(few)))
            interface = Interface(_input_names(few, outputs), outputs)
            described = {
                **metadata,
                "outputs_meaning": json.dumps({n: MEANINGS[n] for n in outputs}),
            }
            content = form.encode(trace(graph, leaves(few)), interface, described)
            difference = _largest_difference(form, content, few, interface, expected)
        # A user's network may do what a trace or a runtime does not know, in any way.
        except Exception as error:
            said = str(error).strip().partition(chr(10))[0] or type(error).__name__
            reason = f"a trace of the network ended with {said!r}"
            logger.info("the graph cannot be made by the way %r: %s", way, error)
            continue
        if difference > TOLERANCE:
            reason = f"its answers differ from those of predict by {difference:.1e}"
            continue
        with atomic_write(final) as temporary:
            temporary.write_bytes(content)
        names = interface.inputs, interface.outputs
        return Exported(final, form.name, *names, way == UNROLLED, difference, len(content))
    if particles > MOST_UNROLLED:
        raise BadInput(
            f"`posterior` must have at most {MOST_UNROLLED} particles where the network cannot be "
            f"traced for all of them at once ({reason}), but got {particles}. Take fewer "
            f"(posterior.thin({MOST_UNROLLED})) or one network (posterior.distil())."
        )
    raise BadInput(
        f"`path` must be in a format that can hold the network, but got {form.name}, and {reason}. "
        "posterior.distil() makes a network of plain layers, which both formats can hold."
    )


def _largest_difference(
    form: Format,
    content: bytes,
    few: Inputs,
    interface: Interface,
    expected: Callable[[Inputs], dict[str, Tensor]],
) -> float:
    """Between what a file answers and what it should, relative to the largest value of an output.

    One example and several are tried, so that a number of examples that was taken for fixed shows.
    """
    largest = 0.0
    for some in (few, rows(few, 0, 1), rows(few, 1, count(few))):
        answers = form.run(content, [each.contiguous() for each in leaves(some)])
        named = dict(zip(interface.outputs, answers, strict=True))
        for name, wanted in expected(some).items():
            shapes = tuple(named[name].shape), tuple(wanted.shape)
            require(shapes[0] == shapes[1], name, f"of shape {shapes[1]}", shapes[0])
            gap = (named[name].double() - wanted.cpu().double()).abs().max()
            size = wanted.abs().max().clamp(min=1.0 if name == "probabilities" else 1e-300)
            # Parts of an uncertainty are differences: their rounding is that of the total.
            if name in ("aleatoric", "epistemic"):
                size = named["total"].double().abs().max().clamp(min=1e-6)
            largest = max(largest, float((gap / size).nan_to_num(float("inf"))))
    return largest


def _expected(prediction: Any, level: float | None) -> dict[str, Tensor]:
    names = ("total", "aleatoric", "epistemic")
    found = {name: getattr(prediction, name) for name in names}
    if hasattr(prediction, "probs"):
        return {"probabilities": prediction.probs, **found}
    if level is not None:
        found |= prediction.interval(level)._asdict()
    return {"mean": prediction.mean, **found}


def _few_rows(inputs: Any, description: Mapping[str, Any] | None, dtype: torch.dtype) -> Inputs:
    """A few examples on the CPU, given or made up."""
    like = torch.zeros((), dtype=dtype)
    described = description and description.get("inputs")
    if inputs is None:
        if not described:
            raise BadInput(
                "`inputs` must be given where the shape of inputs is not known, as for a posterior "
                "that has not predicted yet, but got None. Give a few rows: export(path, "
                "inputs=x[:2])."
            )
        try:
            return made_up_rows(described, like)
        except ValueError as error:
            raise BadInput(
                f"`inputs` must be given where rows cannot be made up, but got None ({error}). "
                "Give a few rows: export(path, inputs=x[:2])."
            ) from error
    given = as_inputs(inputs)
    check_inputs(given, "inputs")

    def ready(tensor: Tensor) -> Tensor:
        some = tensor[:ROWS] if len(tensor) > 1 else torch.cat([tensor, tensor])
        return some.to("cpu", dtype if some.is_floating_point() else some.dtype).contiguous()

    return tree_map(ready, given)


def _level(interval: Any, classes: bool) -> float | None:
    """The level of the interval, which is checked for classes too, though they have none."""
    level = None if interval is None else checked_level(interval, "interval")
    return None if classes else level


def _names(few: Inputs) -> list[str] | None:
    return list(few) if isinstance(few, dict) else None


def _input_names(few: Inputs, outputs: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the inputs in the file, none of which is that of an output."""
    if isinstance(few, dict):
        return tuple(f"{name}_input" if name in outputs else name for name in few)
    several = len(leaves(few)) > 1
    return tuple(f"input_{i + 1}" if several else "inputs" for i, _ in enumerate(leaves(few)))


def _kind(classes: bool) -> str:
    return "classes" if classes else "numbers"


def _common_metadata(
    classes: bool, level: float | None, rule: AbstentionRule | None
) -> dict[str, str]:
    units = (
        "total, aleatoric and epistemic are entropies in nats"
        if classes
        else "mean and interval are in the unit of the targets, total, aleatoric and epistemic are "
        "variances in its square"
    )
    found = {"made_by": f"sbmc {sbmc.__version__}", "units": units}
    if level is not None:
        found["interval"] = f"{level:g}"
    if rule is not None:
        found |= {"abstain_quantity": rule.quantity, "abstain_threshold": repr(rule.threshold)}
        found["abstain_where"] = rule.meaning
    return found
