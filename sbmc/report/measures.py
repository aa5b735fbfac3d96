"""How good the answers of a posterior are, on rows whose targets are known."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.prediction.base import as_targets
from sbmc.prediction.metrics import aurc, classification_metrics, regression_metrics
from sbmc.prediction.prediction import Prediction, RegressionPrediction
from sbmc.report.answers import Abstention, require_one_label


class Measure(NamedTuple):
    """A measure of answers.

    Attributes:
        label: what it is called.
        meaning: in a few words, with the direction that is better.
        percent: whether it is a share.
    """

    label: str
    meaning: str
    percent: bool = False


CLASSES = {
    "accuracy": Measure("accuracy", "labels that are right; higher is better", True),
    "nll": Measure("NLL", "mean of −log p(label), in nats; lower is better"),
    "brier": Measure("Brier", "squared error of the probabilities; lower is better"),
    "ece": Measure("ECE", "distance of probabilities from frequencies; lower is better", True),
    "aurc": Measure("AURC", "errors among the surest rows, on average; lower is better"),
}
NUMBERS = {
    "rmse": Measure("RMSE", "root of the mean squared error; lower is better"),
    "nll": Measure("NLL", "mean of −log density, in nats; lower is better"),
    "crps": Measure("CRPS", "distance of distribution and target; lower is better"),
    "coverage": Measure("coverage", "targets inside their intervals; should be the level", True),
    "width": Measure("width", "of the intervals, on average"),
    "aurc": Measure("AURC", "squared error among the surest rows, on average; lower is better"),
}
ANSWERED = {
    "answered": Measure("answered", "rows that it does not abstain from", True),
    "accuracy.answered": Measure("accuracy where answered", "higher is better", True),
    "rmse.answered": Measure("RMSE where answered", "lower is better"),
}


def measures_of(prediction: Prediction | RegressionPrediction) -> dict[str, Measure]:
    """The measures that apply to a prediction, by name."""
    return (CLASSES if isinstance(prediction, Prediction) else NUMBERS) | ANSWERED


def measure(
    prediction: Prediction | RegressionPrediction,
    targets: Tensor,
    doubt: Abstention,
    level: float = 0.9,
) -> dict[str, float]:
    """Measure the answers of a posterior.

    Args:
        prediction: of the rows.
        targets: of the rows, labels or numbers.
        doubt: which rows are not answered.
        level: of the intervals of numbers.

    Returns:
        For classes `accuracy`, `nll`, `brier`, `ece`, `aurc` and mean entropies; for numbers
        `rmse`, `nll`, `crps`, `coverage`, `width` and `aurc`. With abstentions also the share that
        is `answered`, and `accuracy.answered` or `rmse.answered` if there is such a row.

    Raises:
        BadInput: targets that do not fit the prediction.
    """
    answered = None if doubt.abstain is None else ~doubt.abstain
    if isinstance(prediction, Prediction):
        require_one_label(prediction)
        rule = "labels: whole numbers, as the posterior predicts classes"
        shown = Phrase(f"numbers of dtype {targets.dtype}")
        require(not targets.is_floating_point(), "targets", rule, shown)
        metrics = classification_metrics(prediction, targets)
        loss, name = (prediction.labels != targets).double(), "accuracy"
    else:
        numbers = targets.double()
        metrics = regression_metrics(prediction, numbers, level)
        error = (prediction.mean - as_targets(numbers, prediction.mean)).square()
        loss, name = error.reshape(len(error), -1).mean(1), "rmse"
        targets = numbers
    metrics["aurc"] = aurc(prediction, targets)
    if answered is not None:
        metrics["answered"] = float(answered.double().mean())
        if answered.any():
            mean = float(loss[answered].mean())
            metrics[f"{name}.answered"] = 1 - mean if name == "accuracy" else mean**0.5
    return metrics


def show(name: str, value: float, measures: dict[str, Measure]) -> str:
    """A measure as text, shares in percent.

    Examples:
        >>> show("accuracy", 0.9375, CLASSES), show("nll", 0.12345, CLASSES)
        ('93.8 %', '0.1235')
    """
    known: Any = measures.get(name)
    return f"{100 * value:.1f} %" if known and known.percent else f"{value:.4g}"
