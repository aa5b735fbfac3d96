"""Metrics for a card, on rows whose targets are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sbmc.checks import Phrase, require
from sbmc.likelihoods import MultiLabel
from sbmc.model.data import as_examples
from sbmc.posterior.distillation.distilled import Distilled
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.metrics import multilabel_metrics
from sbmc.prediction.prediction import Prediction
from sbmc.report.answers import Abstention, abstention
from sbmc.report.measures import Measure, measure, measures_of

# The measures of several labels for each row.
LABELS = {
    "label_accuracy": Measure("label accuracy", "labels that are right; higher is better", True),
    "subset_accuracy": Measure("subset accuracy", "rows all of whose labels are right", True),
    "f1.micro": Measure("F1, micro", "of all labels together; higher is better"),
    "f1.macro": Measure("F1, macro", "mean over labels; higher is better"),
    "nll": Measure("NLL", "mean of −log p of a label, in nats; lower is better"),
    "brier": Measure("Brier", "squared error of the probabilities; lower is better"),
    "ece": Measure("ECE", "distance of probabilities from frequencies; lower is better", True),
}


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes:
        values: by the names of the metrics.
        measures: what they are called and mean, in the order of a table.
        rows: how many rows.
        name: of the data, as the user calls them.
        abstain: when a row counts as not answered, in words; empty if none is.
    """

    values: dict[str, float]
    measures: dict[str, Measure]
    rows: int
    name: str
    abstain: str = ""


def measure_on(
    subject: Posterior | Distilled, data: Any, name: str, level: float = 0.9
) -> Measured:
    """Measure predictions on rows whose targets are known.

    Args:
        subject: that predicts.
        data: `(inputs, targets)`, as `fit` takes them.
        name: of the data.
        level: of the intervals of numbers.

    Returns:
        The metrics; those that are not finite are left out.

    Raises:
        BadInput: the data do not fit, or there are labels for parts of a row.
    """
    examples = as_examples(data, "evaluate")
    prediction: Any = subject.predict(examples.inputs)
    targets = examples.targets
    if isinstance(subject, Posterior) and isinstance(subject.likelihood, MultiLabel):
        found, measures, rule = multilabel_metrics(prediction, targets), LABELS, ""
    else:
        doubt = Abstention(prediction.total, None, "")
        if isinstance(prediction, Prediction):
            shape = tuple(prediction.probs.shape[1:])
            one = len(shape) == 1 and not targets.is_floating_point()
            words = "labels, one for each row, for a posterior of classes"
            got = Phrase(f"targets of dtype {targets.dtype}, for probabilities of shape {shape}")
            require(one, "evaluate", words, got)
        if isinstance(subject, Posterior):
            doubt = abstention(subject, prediction)
        found = measure(prediction, targets, doubt, level)
        measures = measures_of(prediction)
        rule = "" if doubt.abstain is None else doubt.rule
    values = {key: found[key] for key in measures if math.isfinite(found.get(key, math.nan))}
    return Measured(values, measures, len(examples), name, rule)
