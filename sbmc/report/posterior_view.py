"""What a page about a posterior shows: its predictions for some rows, and how good they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from sbmc.datasets.files.rows import Rows, class_name
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.base import as_targets
from sbmc.prediction.prediction import Prediction, RegressionPrediction
from sbmc.report.answers import Abstention, abstention, classes_of
from sbmc.report.measures import measure


@dataclass(frozen=True)
class PosteriorView:
    """A posterior, seen through some rows.

    Attributes:
        posterior: whose page it is.
        name: of its file.
        rows: what it was asked.
        prediction: its answers.
        doubt: which of them had better not be given.
        metrics: how good they are; empty if targets are not known.
        level: of intervals.
    """

    posterior: Posterior
    name: str
    rows: Rows
    prediction: Prediction | RegressionPrediction
    doubt: Abstention
    metrics: dict[str, float]
    level: float

    @property
    def classes(self) -> Sequence[str] | None:
        """The names of the classes, if they have any."""
        return classes_of(self.rows, self.posterior)

    @property
    def targets(self) -> Tensor | None:
        """Targets in the shape of the answers; None if they are not known."""
        targets = self.rows.targets
        if targets is None or isinstance(self.prediction, Prediction):
            return targets
        return as_targets(targets.double(), self.prediction.mean)

    @property
    def epistemic(self) -> Tensor:
        """What particles disagree about, `(rows,)`: entropy of classes, variance of numbers."""
        return self.prediction.epistemic.reshape(len(self.rows), -1).sum(1)

    @property
    def right(self) -> Tensor | None:
        """Which labels are right, `(rows,)`; of numbers, which targets are in their intervals."""
        targets = self.targets
        if targets is None:
            return None
        if isinstance(self.prediction, Prediction):
            return self.prediction.labels == targets
        inside = self.prediction.interval(self.level).covers(targets)
        return inside.reshape(len(self.rows), -1).all(1)

    def label(self, number: int) -> str:
        """The name of a class."""
        return class_name(self.classes, number)


def view_posterior(
    posterior: Posterior,
    rows: Rows,
    *,
    name: str = "posterior",
    level: float = 0.9,
    abstain_above: float | None = None,
    progress: bool | None = False,
) -> PosteriorView:
    """Predict some rows, and measure the answers if targets are known.

    Args:
        posterior: whose page is made.
        rows: to look at.
        name: of the posterior, for the page.
        level: of intervals.
        abstain_above: as for `sbmc.report.answers.abstention`.
        progress: None for automatic, True for always.

    Returns:
        The view.

    Raises:
        BadInput: rows or targets do not fit the posterior.
    """
    prediction = posterior.predict(rows.inputs, progress=progress)
    doubt = abstention(posterior, prediction, abstain_above)
    metrics = {}
    if rows.targets is not None:
        metrics = measure(prediction, rows.targets, doubt, level)
    return PosteriorView(posterior, name, rows, prediction, doubt, metrics, level)
