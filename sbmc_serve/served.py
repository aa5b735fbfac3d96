"""A posterior as the server knows it: its name, what its inputs look like, how it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require
from sbmc.cli.opening import TABLE
from sbmc.datasets.files import TableEncoding
from sbmc.posterior.living.reference import Reference, reference_to_save
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.recipe import LAYERS
from sbmc.prediction.kinds import EitherPrediction
from sbmc.prediction.prediction import Prediction
from sbmc.report.answers import abstention, require_one_label
from sbmc.target.probe import made_up_rows
from sbmc_serve.rows import read_cells, read_numbers

CLASSES, NUMBERS = "classes", "numbers"
IMAGE, ROW_OF_TABLE, ARRAY = "image", "table", "array"
# Without a reference, columns go so many standard deviations to each side of their mean.
REACH = 2.0


@dataclass(frozen=True, eq=False)
class Served:
    """A posterior that is served.

    Attributes:
        name: by which requests choose it.
        posterior: that predicts.
        abstain_above: the threshold of abstention; None for the posterior's own.
        about: a sentence for readers; or None.
    """

    name: str
    posterior: Posterior[EitherPrediction]
    abstain_above: float | None = None
    about: str | None = None

    def __post_init__(self) -> None:
        """Refuse, before anything is served, a posterior that cannot be."""
        found = self.posterior.input_description or {}
        described = found.get("inputs")
        rule = "one that says what its inputs look like"
        require(described is not None, "posterior", rule, Phrase(f"{self.name!r}, which does not"))
        assert described is not None
        rule = "one whose network takes one tensor; serve a network that takes it apart itself"
        form = described.get("form")
        require(form == "tensor", "posterior", rule, Phrase(f"{self.name!r} with a {form}"))

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Shape, dtype and range of a row."""
        description = self.posterior.input_description
        assert description is not None
        return description["inputs"]["leaves"][0]

    @property
    def shape(self) -> list[int]:
        """The shape of a row."""
        return [int(size) for size in self.inputs["shape"]]

    @property
    def kind(self) -> str:
        """Whether classes or numbers are predicted."""
        return CLASSES if self.posterior.likelihood.classification else NUMBERS

    @cached_property
    def dtype(self) -> torch.dtype:
        """Of the inputs."""
        kind = getattr(torch, str(self.inputs["dtype"]).removeprefix("torch."))
        return self.posterior.dtype if kind.is_floating_point else kind

    @cached_property
    def encoding(self) -> TableEncoding | None:
        """Of the table that the posterior was fitted to; None if it was no table.

        Raises:
            BadInput: the file's description of the table is damaged.
        """
        recipe = self.posterior.recipe
        if recipe is None or recipe.data.get("kind") != TABLE:
            return None
        try:
            return TableEncoding.from_dict(recipe.data)
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(
                "`posterior` must be one that says how its table is read, but got "
                f"{self.name!r}, where that is damaged. Fit it again."
            ) from error

    @cached_property
    def reference(self) -> Reference | None:
        """Quantiles of the training inputs; None if they are not known."""
        return reference_to_save(self.posterior)

    @cached_property
    def classes(self) -> list[str] | None:
        """The names of the classes, their numbers if they have none; None for numbers."""
        if self.kind == NUMBERS:
            return None
        recipe = self.posterior.recipe
        stored: Any = None if recipe is None else recipe.data.get("classes")
        count = self.outputs
        return [str(i) for i in range(count)] if stored is None else [str(name) for name in stored]

    @cached_property
    def outputs(self) -> int:
        """How many classes or numbers are predicted for a row."""
        return int(self.example.mean.reshape(1, -1).shape[1])

    @cached_property
    def example(self) -> EitherPrediction:
        """A prediction for a row that is made up from the range of the training inputs."""
        rows = made_up_rows(
            {"form": "tensor", "leaves": [self.inputs]}, torch.zeros(1, dtype=self.posterior.dtype)
        )
        assert isinstance(rows, Tensor)
        prediction = self.posterior.predict(rows[:1])
        if isinstance(prediction, Prediction):
            require_one_label(prediction)
        return prediction

    @cached_property
    def abstention(self) -> dict[str, Any] | None:
        """What decides about abstention, as plain values; None if nothing does."""
        doubt = abstention(self.posterior, self.example, self.abstain_above)
        if doubt.abstain is None:
            return None
        fitted = self.posterior.fitted_confidence
        quantity = "error" if self.kind == CLASSES else "deviation"
        return {
            "by": "threshold" if fitted is None else "confidence",
            "quantity": quantity if fitted is None else "score",
            "threshold": doubt.threshold,
            "words": f"It abstains where {doubt.rule}.",
        }

    def read(self, rows: Sequence[Any]) -> Tensor:
        """Rows of a request as inputs.

        Raises:
            Refused: they break a rule.
        """
        if self.encoding is not None:
            return read_cells(rows, self.encoding, self.dtype)
        return read_numbers(rows, self.shape, self.dtype)

    def info(self) -> dict[str, Any]:
        """What `/info` says about it."""
        health = self.posterior.health
        s = self.posterior.settings.get("s")
        return {
            "name": self.name,
            "s": s if isinstance(s, int | float) else None,
            "kind": self.kind,
            "classes": self.classes,
            "target": None if self.encoding is None else self.encoding.target,
            "outputs": self.outputs,
            "particles": int((self.posterior.weights > 0).sum()),
            "health": {
                "word": health.word,
                "ok": health.ok,
                "reasons": list(health.reasons),
                "remedies": list(health.remedies),
            },
            "inputs": {
                "kind": self._input_kind(),
                "shape": self.shape,
                "low": self.inputs["range"][0],
                "high": self.inputs["range"][1],
                "columns": self._columns(),
            },
            "level": 0.9,
            "abstains": self.abstention and self.abstention["by"],
            "abstention": self.abstention,
            "about": self.about,
        }

    def _input_kind(self) -> str:
        if self.encoding is not None:
            return ROW_OF_TABLE
        shape = self.shape
        return IMAGE if len(shape) == 3 and shape[0] in (1, 3) else ARRAY

    def _columns(self) -> list[dict[str, Any]] | None:
        if self.encoding is None:
            return None
        columns, start = [], 0
        for column in self.encoding.columns:
            about: dict[str, Any] = {"name": column.name}
            if column.levels:
                about |= {"kind": "category", "low": None, "high": None, "middle": None}
                about["levels"] = list(column.levels)
            else:
                low, middle, high = self._range(start)
                about |= {"kind": "number", "low": low, "high": high, "middle": middle}
                about["levels"] = []
            columns.append(about)
            start += column.width
        return columns

    def _range(self, index: int) -> tuple[float, float, float]:
        """Lowest, middle and highest value of a column of the training table, as far as known."""
        if self.reference is not None and len(self.reference.inputs) == self.shape[0]:
            kept = self.reference.inputs[index]
            return kept.values[0], kept.median, kept.values[-1]
        recipe = self.posterior.recipe
        if recipe is not None and recipe.kind == LAYERS:
            mean, deviation = (float(recipe.network[name][index]) for name in ("shift", "scale"))
            return mean - REACH * deviation, mean, mean + REACH * deviation
        low, high = (float(end) for end in self.inputs["range"])
        return low, (low + high) / 2, high
