"""What a posterior was fitted to, in some thousand numbers: the reference that shows drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sbmc.checks import BadInput, Phrase, is_number, require
from sbmc.log import logger
from sbmc.model.data import (
    Inputs,
    as_examples,
    as_inputs,
    check_inputs,
    count,
    leaves,
    pick,
    tree_map,
)
from sbmc.posterior.input_batches import held_inputs
from sbmc.posterior.living.drift import Drift, Shift
from sbmc.posterior.living.input_features import feature_names, input_features
from sbmc.posterior.living.quantiles import Quantiles
from sbmc.storage.arrays import as_tensor

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior

# Rows that a reference is made of, at most.
MOST_ROWS = 1_000
LEVEL = 0.05
# Uncertainties that a reference may have, in the order in which they are listed.
SERIES = ("total", "aleatoric", "epistemic", "score", "abstained")


@dataclass(frozen=True)
class Reference:
    """Quantiles of inputs, and of what a posterior predicts for them.

    Attributes:
        rows: how many rows it rests on, at most 1,000.
        held_out: whether they are other rows than those of training.
        names: of the features of the inputs; see `sbmc.posterior.living.input_features`.
        inputs: the quantiles of each feature.
        uncertainties: the quantiles of `total`, `aleatoric` and `epistemic`; if the posterior has a
            confidence, also of its `score` and of `abstained`, which is 0 or 1.
        origin: digest of the posterior that predicted.
        shapes: of a row of each input; empty in files of before, which did not have them.
    """

    rows: int
    held_out: bool
    names: tuple[str, ...]
    inputs: tuple[Quantiles, ...]
    uncertainties: Mapping[str, Quantiles]
    origin: str
    shapes: tuple[tuple[int, ...], ...] = ()

    def __repr__(self) -> str:
        rows, features = f"rows={self.rows}, held_out={self.held_out}", len(self.names)
        return f"Reference({rows}, features={features}, uncertainties={list(self.uncertainties)})"

    def features(self, inputs: Any) -> np.ndarray:
        """The numbers by which rows of inputs are compared, `(rows, features)` float64.

        For at most 32 numbers a row they are these numbers. A program that watches inputs over time
        keeps them instead of the inputs, and gives them to `compare`.

        Args:
            inputs: as for `Posterior.predict`, but no data set and no loader.

        Returns:
            The numbers.

        Raises:
            BadInput: inputs are empty, not finite, or of another shape than those of the reference.
        """
        everything = as_inputs(inputs)
        check_inputs(everything, "inputs")
        shapes = _shapes(everything)
        if self.shapes and shapes != self.shapes:
            # Pictures of any size have as many features, so that these alone would not tell.
            rule = f"rows of shape {_in_words(self.shapes)}, as those of the reference"
            require(False, "inputs", rule, Phrase(f"rows of shape {_in_words(shapes)}"))
        names = feature_names(everything)
        rule = f"rows with {len(self.names)} features, as those of the reference"
        same = len(names) == len(self.names)
        require(same, "inputs", rule, Phrase(f"rows with {len(names)}"))
        return input_features(everything)

    def compare(
        self,
        *,
        inputs: Any = None,
        total: Any = None,
        aleatoric: Any = None,
        epistemic: Any = None,
        score: Any = None,
        abstained: Any = None,
        level: float = LEVEL,
    ) -> Drift:
        """Compare rows, which may have been collected over time, with the reference.

        Args:
            inputs: what `features` gave for them, `(rows, features)`; None does not compare it.
            total: of each row, `(rows,)`, as all that follow; None does not compare it.
            aleatoric: likewise.
            epistemic: likewise.
            score: of a confidence, likewise.
            abstained: whether there was no answer, likewise.
            level: the largest probability of a false alarm, in (0, 1).

        Returns:
            What has moved.

        Raises:
            BadInput: nothing is given, values are not finite, the reference does not have a
                quantity that is given, or the level is not in (0, 1).

        Examples:
            >>> kept = Quantiles.of(np.linspace(0, 1, 200))
            >>> reference = Reference(200, True, ("column 0",), (kept,), {"epistemic": kept}, "")
            >>> drift = reference.compare(epistemic=np.linspace(1, 2, 50))
            >>> drift.drifted, drift.uncertainties[0].distance
            (True, 0.98)
        """
        require(is_number(level) and 0 < level < 1, "level", "in (0, 1)", level)
        given = dict(zip(SERIES, (total, aleatoric, epistemic, score, abstained), strict=True))
        series = {
            name: _column(name, values) for name, values in given.items() if values is not None
        }
        for name in series:
            rule = "left out, since the reference was made without it; posterior.make_reference(x)"
            require(name in self.uncertainties, name, f"{rule} makes a new one", Phrase("values"))
        shifts: list[Shift] = []
        sizes = {len(values) for values in series.values()}
        if inputs is not None:
            table = _numbers("inputs", inputs)
            rule = f"(rows, {len(self.names)}), as `features` gives it, and finite"
            good = table.ndim == 2 and table.shape[1] == len(self.names) and len(table) > 0
            got = Phrase(f"shape {table.shape}")
            require(good and bool(np.isfinite(table).all()), "inputs", rule, got)
            columns = zip(self.names, self.inputs, table.T, strict=True)
            shifts = [_shift(*column) for column in columns]
            sizes.add(len(table))
        require(bool(sizes), "epistemic", "given, or `inputs` or `total`", Phrase("nothing"))
        return Drift(
            rows=max(sizes),
            reference_rows=self.rows,
            held_out=self.held_out,
            level=float(level),
            inputs=tuple(shifts),
            uncertainties=tuple(
                _shift(name, self.uncertainties[name], values) for name, values in series.items()
            ),
        )

    def of_inputs_alone(self) -> Reference:
        """The reference without uncertainties, for another posterior of the same inputs."""
        return replace(self, uncertainties={})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "rows": self.rows,
            "held_out": self.held_out,
            "names": list(self.names),
            "inputs": [each.to_dict() for each in self.inputs],
            "uncertainties": {name: each.to_dict() for name, each in self.uncertainties.items()},
            "origin": self.origin,
            "shapes": [list(shape) for shape in self.shapes],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Reference:
        """What `to_dict` gave.

        Raises:
            BadInput: it is something else.
        """
        try:
            names = tuple(str(name) for name in content["names"])
            inputs = tuple(Quantiles.from_dict(each) for each in content["inputs"])
            uncertainties = {
                name: Quantiles.from_dict(content["uncertainties"][name])
                for name in SERIES
                if name in content["uncertainties"]
            }
            good = len(names) == len(inputs) and int(content["rows"]) > 0
            require(good, "content", "a name for each feature", list(names))
            sizes = int(content["rows"]), bool(content["held_out"])
            shapes = tuple(tuple(map(int, shape)) for shape in content.get("shapes", ()))
            return cls(*sizes, names, inputs, uncertainties, str(content["origin"]), shapes)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(
                "`content` must be what `Reference.to_dict` gave, but got something else "
                f"({type(error).__name__}: {error})."
            ) from None


def make_reference(
    posterior: Posterior,
    inputs: Any,
    *,
    held_out: bool,
    names: Sequence[str] | None = None,
    progress: bool | None = None,
) -> Reference:
    """Make the reference of a posterior from some rows; see `Posterior.make_reference`."""
    everything = as_inputs(held_inputs(posterior, inputs))
    check_inputs(everything, "x")
    chosen = torch.tensor(pick(range(count(everything)), MOST_ROWS))
    some = tree_map(lambda t: t[chosen.to(t.device)], everything)
    values = input_features(some)
    series = uncertainties_of(posterior, some, progress)
    return Reference(
        len(values),
        held_out,
        feature_names(some, names),
        tuple(Quantiles.of(column) for column in values.T),
        {name: Quantiles.of(column) for name, column in series.items()},
        posterior.origin,
        _shapes(some),
    )


def current_reference(posterior: Posterior) -> Reference | None:
    """The reference of a posterior as it is now; see `Posterior.reference`."""
    stored = posterior._reference
    if stored is not None and stored.origin == posterior.origin and _complete(stored, posterior):
        return stored
    if posterior.training_data is None:
        other = stored is not None and stored.origin != posterior.origin
        return stored.of_inputs_alone() if stored is not None and other else stored
    examples = as_examples(posterior.training_data, most=MOST_ROWS)
    names = None if stored is None else stored.names
    made = make_reference(posterior, examples.inputs, held_out=False, names=names)
    posterior._reference = made
    return made


def _complete(reference: Reference, posterior: Posterior) -> bool:
    """Whether a reference has scores, if a confidence was fitted since it was made of training."""
    scored = "score" in reference.uncertainties or posterior.fitted_confidence is None
    return scored or reference.held_out


def reference_to_save(posterior: Posterior) -> Reference | None:
    """The reference for a file; None if it is not known, or if its rows cannot be predicted."""
    try:
        return current_reference(posterior)
    # A user's data set or network may raise any error; particles must be saved all the same.
    except Exception as error:
        logger.info("the file has no reference for drift: %s: %s", type(error).__name__, error)
        return None


def carried_over(posterior: Posterior, origin: str) -> Reference | None:
    """The reference of a posterior, for another with the same particles but for rounding.

    Args:
        posterior: that has the reference.
        origin: digest of the other one, which has no confidence.

    Returns:
        The reference without scores, or None.
    """
    reference = reference_to_save(posterior)
    if reference is None:
        return None
    kept = {name: each for name, each in reference.uncertainties.items() if name in SERIES[:3]}
    return replace(reference, uncertainties=kept, origin=origin)


def uncertainties_of(
    posterior: Posterior, inputs: Any, progress: bool | None = False
) -> dict[str, np.ndarray]:
    """What is watched of a posterior's predictions, each `(rows,)` float64."""
    prediction = posterior.predict(inputs, progress=progress)
    series = {name: _by_row(getattr(prediction, name)) for name in SERIES[:3]}
    confidence = posterior.fitted_confidence
    if confidence is not None:
        score = confidence.score(prediction)
        series["score"] = _by_row(score)
        series["abstained"] = _by_row(confidence.abstain(prediction))
    return {name: values for name, values in series.items() if np.isfinite(values).all()}


def _shapes(inputs: Inputs) -> tuple[tuple[int, ...], ...]:
    """The shape of a row of each input."""
    return tuple(tuple(leaf.shape[1:]) for leaf in leaves(inputs))


def _in_words(shapes: tuple[tuple[int, ...], ...]) -> str:
    return " and ".join(map(str, shapes))


def _by_row(values: Any) -> np.ndarray:
    """One number for each row: the mean over outputs, where there are several."""
    flat = torch.as_tensor(values).detach().double().cpu()
    return flat.reshape(len(flat), -1).mean(1).numpy()


def _numbers(name: str, values: Any) -> np.ndarray:
    """Values as float64, whatever holds them."""
    return as_tensor(values, name, numbers=True).detach().double().cpu().numpy()


def _column(name: str, values: Any) -> np.ndarray:
    column = _numbers(name, values)
    good = column.ndim == 1 and len(column) > 0 and bool(np.isfinite(column).all())
    got = Phrase(f"shape {column.shape}" if column.ndim != 1 else "others")
    require(good, name, "finite numbers of shape (rows,)", got)
    return column


def _shift(name: str, before: Quantiles, now: np.ndarray) -> Shift:
    distance, p_value = before.compare(now)
    return Shift(name, distance, p_value, before.median, float(np.median(now)))
