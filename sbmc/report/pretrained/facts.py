"""What a folder says of a posterior or a distilled network: plain values, no value of the data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import DataLoader

from sbmc.islands.health import Health
from sbmc.likelihoods import MultiLabel
from sbmc.likelihoods.choice import OF_FUNCTIONS
from sbmc.posterior.distillation.distilled import Distilled
from sbmc.posterior.distillation.heads import ClassHeads
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.recipe import EXPORTED, LAYERS, REFERENCE
from sbmc.posterior.streaming import weighted_particles
from sbmc.report.pretrained.limits import limits_of_distilled, limits_of_posterior

CLASSES, NUMBERS, LABELS = "classes", "numbers", "labels"
# How a folder has its network: in its file, or not at all.
GIVEN = "given"
# The files of weights, by what they hold.
FILES = {"Posterior": "posterior.safetensors", "Distilled": "distilled.safetensors"}


@dataclass(frozen=True)
class Facts:
    """What is known of a posterior or a distilled network without its data.

    Attributes:
        kind: what it predicts: `"classes"`, `"numbers"`, or `"labels"` (several for each row).
        network: how the network is made; its `kind` is that of a recipe, or `"given"`.
        settings: further plain values for `config.json`.
        sizes: names and texts for a table.
        inputs: shapes and dtypes of a row, without ranges; None if they are not known.
        recipe: how data were read, without levels of columns; empty if it is not known.
        rows: of the training data; None if they are not known.
        cost: names and texts for a table.
        health: whether sampling reached its target.
        limits: sentences.
        needs_likelihood: whether a function of the user's own is needed to load it.
        losses: of a distilled network, names and texts of what was lost.
    """

    kind: str
    network: dict[str, Any]
    settings: dict[str, Any]
    sizes: list[tuple[str, str]]
    inputs: dict[str, Any] | None
    recipe: dict[str, Any]
    rows: int | None
    cost: list[tuple[str, str]]
    health: Health | None
    limits: list[str]
    needs_likelihood: bool = False
    losses: list[tuple[str, str]] = field(default_factory=list)

    @property
    def needs_model(self) -> bool:
        """Whether the network is code that only the user has."""
        return self.network["kind"] in (GIVEN, REFERENCE)


def facts_of(subject: Posterior | Distilled) -> Facts:
    """What is known of a posterior or of a distilled network.

    Args:
        subject: which of them.

    Returns:
        The facts.
    """
    return _of_posterior(subject) if isinstance(subject, Posterior) else _of_distilled(subject)


def _of_posterior(posterior: Posterior) -> Facts:
    likelihood, settings = posterior.likelihood, posterior.settings
    described_likelihood = likelihood.describe()
    # The units of rescaled targets are values of the data.
    row_likelihood = described_likelihood.get("base", described_likelihood)
    islands, particles, dim = posterior.positions.shape
    weights = weighted_particles(posterior).weights
    kind = CLASSES if likelihood.classification else NUMBERS
    if isinstance(likelihood, MultiLabel):
        kind = LABELS
    sampler, s = settings.get("sampler"), settings.get("s")
    sizes = [
        ("islands × particles", f"{islands} × {particles}"),
        ("networks of positive weight", f"{len(weights):,}"),
        ("sampled parameters", f"{dim:,}"),
        ("likelihood", str(row_likelihood["name"])),
    ]
    sizes += [("sampler", str(sampler))] if sampler is not None else []
    sizes += [("s", str(s))] if s is not None else []
    described = posterior.input_description or {}
    recipe = {} if posterior.recipe is None else posterior.recipe.data
    return Facts(
        kind=kind,
        network=_network(posterior),
        settings={
            "likelihood": row_likelihood,
            "islands": islands,
            "particles": particles,
            "parameters": dim,
            "dtype": str(posterior.dtype),
            "stored_dtype": str(posterior.positions.dtype),
            "s": s,
            "sampler": sampler,
            "weighting": posterior.weighting,
            "health": posterior.health.as_dict(),
            "cost": posterior.cost.as_dict(),
        },
        sizes=sizes,
        inputs=_shapes(described.get("inputs")),
        recipe=_without_values(recipe),
        rows=recipe.get("rows", _rows(posterior.training_data)),
        cost=_cost(posterior),
        health=posterior.health,
        limits=limits_of_posterior(posterior, len(weights)),
        needs_likelihood=described_likelihood["name"] in OF_FUNCTIONS,
    )


def _of_distilled(distilled: Distilled) -> Facts:
    settings, student = distilled.settings, distilled.network.student
    classes = isinstance(distilled.network.heads, ClassHeads)
    weights = sum(weight.numel() for weight in distilled.network.parameters())
    built = distilled.architecture
    network: dict[str, Any] = {"kind": GIVEN, "class": type(student).__name__}
    if built is not None:
        network = {"kind": LAYERS, "architecture": built.as_dict()}
    fidelity = distilled.fidelity
    return Facts(
        kind=CLASSES if classes else NUMBERS,
        network=network,
        settings={
            "parameters": weights,
            "dtype": str(distilled.dtype),
            "teacher": {name: settings.get(name) for name in ("particles", "health")},
            "fidelity": None if fidelity is None else fidelity.as_dict(),
        },
        sizes=[
            ("weights", f"{weights:,}"),
            ("network", str(built or type(student).__name__)),
            ("distilled from", f"{settings.get('particles')} networks"),
        ],
        inputs=_shapes(settings.get("inputs")),
        recipe={},
        rows=settings.get("rows"),
        cost=[("steps of the distillation", f"{settings.get('steps'):,}")],
        health=None,
        limits=limits_of_distilled(distilled),
        losses=[] if fidelity is None else fidelity.lines(),
    )


def _network(posterior: Posterior) -> dict[str, Any]:
    recipe = posterior.recipe
    if recipe is None:
        return {"kind": GIVEN, "class": type(posterior.model).__name__}
    if recipe.kind == LAYERS:
        # Not the scaling of the columns, which is a value of the data.
        parts = ("kind", "hidden_layers", "outputs", "activation")
        return {name: recipe.network[name] for name in parts if name in recipe.network}
    if recipe.kind == EXPORTED:
        return {"kind": EXPORTED}
    # Folders of the author's machine are nobody's business.
    reference = re.split(r"[/\\]", str(recipe.network.get("reference")))[-1]
    return {**recipe.network, "reference": reference}


def _shapes(described: Any) -> dict[str, Any] | None:
    """Shapes and dtypes of a description, whose values may be those of a crafted file."""
    try:
        leaves: list[dict[str, Any]] = [
            {"shape": [int(side) for side in each["shape"]], "dtype": str(each["dtype"])}
            for each in described["leaves"]
        ]
        names = described["names"] and [str(name) for name in described["names"]]
        form = str(described["form"])
    except (KeyError, TypeError, ValueError):
        return None
    known = all(re.fullmatch(r"torch\.[a-z0-9_]+", each["dtype"]) for each in leaves)
    return {"form": form, "names": names, "leaves": leaves} if leaves and known else None


def _without_values(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """How data were read: names of columns and classes, and how many levels, but none of them."""
    plain = {name: value for name, value in recipe.items() if name in _NAMES_OF_DATA}
    columns = recipe.get("columns")
    if isinstance(columns, list | tuple):
        plain["columns"] = [
            {"name": each["name"], "levels": len(each["levels"])} for each in columns
        ]
    return plain


_NAMES_OF_DATA = ("kind", "target", "classes", "height", "width", "channels")


def _rows(data: Any) -> int | None:
    if isinstance(data, tuple | list) and len(data) == 2:
        data = data[1]
    elif isinstance(data, DataLoader):
        data = data.dataset
    try:
        return len(data)
    except TypeError:  # no data, or a table without a length
        return None


def _cost(posterior: Posterior) -> list[tuple[str, str]]:
    cost = posterior.cost
    rows = [
        ("gradient evaluations of all rows, for each particle", f"{cost.epochs:,.6g}"),
        ("the same, of all particles and their training together", f"{cost.total_epochs:,.6g}"),
    ]
    if cost.wall_seconds is not None:
        rows.append(("seconds", f"{cost.wall_seconds:,.3g}"))
    return rows
