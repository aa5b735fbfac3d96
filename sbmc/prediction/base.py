"""What can be asked of every prediction, whether its targets are classes, numbers or counts.

    mean        E[y]: of numbers their mean, of classes the probabilities
    variance    Var[y], in the shape of the mean
    quantile    of the targets, or over particles of what they expect
    interval    two of these quantiles
    sample      draws of the targets
    log_prob    log density of targets under the mixture
    crps        continuous ranked probability score
    split       total, aleatoric and epistemic uncertainty, in one of three units

Questions about the mixture need what every particle predicts. A prediction has not kept that; it
asks its `particles`, which compute it again for some examples at a time, as described in
`sbmc.prediction.samples`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require, require_choice
from sbmc.prediction.entropies import Split
from sbmc.prediction.plots import plot_prediction
from sbmc.prediction.predictive import checked_level
from sbmc.prediction.samples import Samples, row_index
from sbmc.prediction.table import to_data_frame
from sbmc.storage.arrays import as_tensor

KINDS = ("prediction", "credible")
SPLITS = ("entropy", "variance", "zero-one")


class Interval(NamedTuple):
    """Two ends for each example, in the shape of the prediction's mean."""

    lower: Tensor
    upper: Tensor

    @property
    def width(self) -> Tensor:
        """The distance between the ends."""
        return self.upper - self.lower

    def covers(self, targets: Any) -> Tensor:
        """Whether each target is inside; the ends are.

        Args:
            targets: in the shape of the ends, or `(examples,)` where there is one output.

        Returns:
            Booleans in the shape of the ends.
        """
        values = as_targets(targets, self.lower)
        return (values >= self.lower) & (values <= self.upper)


class BasePrediction(ABC):
    """A prediction for some examples; see the top of this module.

    Attributes:
        mean: E[y], `(examples, ...)`.
        particles: what every particle predicts, computed again when it is asked for; or None.
        origin: digest of the posterior that predicted; None if that is not known.
    """

    mean: Tensor
    particles: Samples | None
    origin: str | None

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Var[y], in the shape of the mean."""

    @abstractmethod
    def split(self, by: str) -> Split:
        """Total, aleatoric and epistemic uncertainty."""

    @abstractmethod
    def log_prob(self, targets: Any) -> Tensor:
        """Log density of each example's target under the mixture, `(examples,)`."""

    @abstractmethod
    def crps(self, targets: Any) -> Tensor:
        """The continuous ranked probability score of each target, or its counterpart."""

    @abstractmethod
    def sample(self, n: int, *, seed: int = 0) -> Tensor:
        """Draws of the targets, `(n, examples, ...)`."""

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, index: Any) -> Self:
        """The prediction for some of the examples.

        Args:
            index: a row (which gives a prediction for one example), a slice, or rows as a list or
                tensor of integers or booleans.
        """
        rows = row_index(index, len(self))
        chosen: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                chosen[field.name] = value[rows.to(value.device)]
            elif isinstance(value, Samples):
                chosen[field.name] = value[rows]
        return replace(self, **chosen)  # type: ignore[type-var]

    def __getstate__(self) -> dict[str, Any]:
        """What is copied or pickled: particles go along only if their outputs were kept."""
        state = dict(self.__dict__)
        if self.particles is not None and not self.particles.are_kept:
            state["particles"] = None  # a pickle must not have a posterior and all inputs in it
        return state

    def quantile(self, q: float | Sequence[float], *, kind: str = "prediction") -> Tensor:
        """A quantile of each target, or of what particles expect.

        A quantile of the mixture is computed from the mixture's distribution function. It is no
        mean of the particles' quantiles.

        Args:
            q: the level, between 0 and 1; or several.
            kind: `"prediction"`: of the target itself, noise included. `"credible"`: over
                particles, of the mean that each expects (for classes, of their probabilities); its
                spread is epistemic alone.

        Returns:
            In the shape of the mean; for several levels `(levels, *shape of the mean)`.

        Raises:
            BadInput: a level is not between 0 and 1, targets are classes (which have no order) and
                `kind` is `"prediction"`, or the particles are not known.
        """
        several = isinstance(q, (Sequence, Tensor)) and not isinstance(q, str | bytes)
        several = several and not (isinstance(q, Tensor) and q.ndim == 0)
        if isinstance(q, Tensor):
            q = as_tensor(q, "q").tolist()
        rule = "a number between 0 and 1, or several"
        require(not several or len(q) > 0, "q", rule, Phrase("none"))  # type: ignore[arg-type]
        levels = [checked_level(each, "q") for each in (q if several else [q])]  # type: ignore
        require_choice("kind", kind, KINDS)
        if kind == "credible":
            found = self._need_particles().credible_quantiles(levels)
        else:
            self._require_order()
            found = self._need_particles().quantiles(levels)
        return found if several else found[0]

    def interval(self, level: float = 0.9, *, kind: str = "prediction") -> Interval:
        """The central interval between the quantiles (1 − level)/2 and (1 + level)/2.

        Args:
            level: the probability inside, between 0 and 1.
            kind: as for `quantile`: an interval of predictions for the target, or a credible one
                for its mean (for classes, for their probabilities).

        Returns:
            The two ends, each in the shape of the mean.

        Raises:
            BadInput: as for `quantile`.
        """
        level = checked_level(level)
        lower, upper = self.quantile([(1 - level) / 2, (1 + level) / 2], kind=kind)
        return Interval(lower, upper)

    def to_pandas(self, level: float = 0.9) -> Any:
        """A table with a row for each example; needs the extra `pip install 'sbmc[pandas]'`.

        Args:
            level: of the intervals of numbers; they are left out if the particles are not known.

        Returns:
            A `pandas.DataFrame`: `sbmc.prediction.table` says which columns it has.
        """
        return to_data_frame(self, checked_level(level))

    def plot(
        self, x: Any = None, targets: Any = None, *, level: float = 0.9, ax: Any = None
    ) -> Any:
        """Draw the prediction; needs the extra `pip install 'sbmc[plots]'`.

        Numbers over one input are drawn as a line with two bands, the interval of predictions and
        the credible one. Classes are drawn as bars of their probabilities, with credible intervals
        where the particles are known.

        Args:
            x: the values of one input, `(examples,)`; those that were predicted at if not given.
            targets: `(examples,)`, drawn as dots or marked bars.
            level: of the intervals.
            ax: matplotlib's axes to draw into; new ones if not given.

        Returns:
            The axes.
        """
        return plot_prediction(self, x, targets, level, ax)

    @abstractmethod
    def _require_order(self) -> None:
        """Refuse targets without an order."""

    def _need_particles(self) -> Samples:
        if self.particles is None:
            raise BadInput(
                "`prediction` must be one that knows its particles to be asked this, but got one "
                "without them. Predict by `posterior.predict(x)`; for a DataLoader, and before "
                "joining predictions, by `posterior.predict(x, keep='outputs')`."
            )
        return self.particles


def as_targets(targets: Any, like: Tensor) -> Tensor:
    """Targets as float64 in the shape of `like`; one output may come without its axis.

    Raises:
        BadInput: the shape is another.
    """
    given = as_tensor(targets, "targets", numbers=True)
    values = given.to(like.device, torch.float64)
    if values.ndim == like.ndim - 1 and like.shape[-1] == 1:
        values = values.unsqueeze(-1)
    shape = tuple(given.shape)
    require(values.shape == like.shape, "targets", f"of shape {tuple(like.shape)}", shape)
    return values


def refuse_split(by: str, remedy: str) -> BadInput:
    """The error for a split that a prediction cannot make."""
    require_choice("by", by, SPLITS)
    return BadInput(f"`by` must be one that this prediction has, but got {by!r}. {remedy}")
