"""What a posterior answers for each row: label or number, how sure it is, whether to abstain."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from sbmc.checks import Phrase, is_number, require
from sbmc.datasets.files.rows import Rows, class_name
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.prediction import Prediction, RegressionPrediction
from sbmc.storage.files import atomic_write

# A label is answered unless it is wrong with more than this probability, as the posterior has it.
DOUBTFUL_PROBABILITY = 0.25
_TEXT: dict[str, Any] = {"encoding": "utf-8", "newline": ""}
PARTS = ("total", "aleatoric", "epistemic")


@dataclass(frozen=True)
class Abstention:
    """Which rows had better not be answered.

    Attributes:
        score: `(rows,)`, higher for what is less sure.
        abstain: `(rows,)` booleans; None if there is no rule.
        rule: in words.
        threshold: of the score; None if there is none, or if it has a guarantee of its own.
    """

    score: Tensor
    abstain: Tensor | None
    rule: str
    threshold: float | None = None


@dataclass(frozen=True)
class Answers:
    """A table of answers.

    Attributes:
        columns: by name, each with a cell for every row.
        abstention: which of them had better not be given.
    """

    columns: Mapping[str, Sequence[object]]
    abstention: Abstention

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def write(self, path: Path) -> None:
        """Write a file `.csv` or `.tsv`, whole or not at all."""
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        columns = [[_cell(value) for value in column] for column in self.columns.values()]
        with atomic_write(path) as temporary, open(temporary, "x", **_TEXT) as file:
            writer = csv.writer(file, delimiter=separator, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(zip(*columns, strict=True))


def answer(
    posterior: Posterior,
    rows: Rows,
    *,
    level: float = 0.9,
    abstain_above: float | None = None,
    probabilities: bool = False,
    progress: bool | None = False,
) -> Answers:
    """Answer for each row.

    Args:
        posterior: that predicts.
        rows: what is asked.
        level: of the intervals of numbers.
        abstain_above: see `abstention`.
        probabilities: whether to add the probability of each class.
        progress: None for automatic, True for always.

    Returns:
        The table. Columns of classes: `row` or `file`, `label`, `probability`, the entropies
        `total`, `aleatoric` and `epistemic` in nats, `abstain`. Columns of numbers: `mean`, the
        ends `lower` and `upper` of an interval, and the parts of the variance. With several outputs
        each column has the number of its output behind it.

    Raises:
        BadInput: the posterior has several labels for a row, or an argument breaks its rule.
    """
    prediction = posterior.predict(rows.inputs, progress=progress)
    columns: dict[str, Sequence[object]] = {rows.named_by: list(rows.names)}
    if isinstance(prediction, Prediction):
        require_one_label(prediction)
        names = classes_of(rows, posterior)
        columns["label"] = [class_name(names, label) for label in prediction.labels]
        columns["probability"] = prediction.max_probability.tolist()
    else:
        columns |= _by_output("mean", prediction.mean)
        if prediction.particles is not None and prediction.particles.has_distribution:
            lower, upper = prediction.interval(level)
            columns |= _by_output("lower", lower) | _by_output("upper", upper)
    for part in PARTS:
        columns |= _by_output(part, getattr(prediction, part))
    doubt = abstention(posterior, prediction, abstain_above)
    if doubt.abstain is not None:
        columns["abstain"] = ["yes" if each else "no" for each in doubt.abstain]
    if probabilities and isinstance(prediction, Prediction):
        for label in range(prediction.probs.shape[1]):
            columns[f"p_{class_name(names, label)}"] = prediction.probs[:, label].tolist()
    return Answers(columns, doubt)


def abstention(
    posterior: Posterior,
    prediction: Prediction | RegressionPrediction,
    above: float | None = None,
) -> Abstention:
    """Which rows had better not be answered.

    The rule is, in this order:

    1. a score that was fitted with `posterior.confidence(...)` and saved with the posterior, at its
       own threshold or, if it is given, at `above`;
    2. for classes, the probability that the label is wrong, 1 − max p, above `above`, by default
       0.25;
    3. for numbers, the predictive standard deviation above `above`, by default the one that only
       1 % of the training rows exceed, which `sbmc fit` stores.

    Args:
        posterior: that predicted.
        prediction: of the rows.
        above: the threshold.

    Returns:
        Scores and decisions. Numbers without any threshold have no decisions.

    Raises:
        BadInput: the threshold is no positive number.
    """
    good = above is None or (is_number(above) and above >= 0)
    require(good, "abstain_above", "a number of at least 0", above)
    above = None if above is None else float(above)
    fitted = posterior.fitted_confidence
    if fitted is not None:
        score = fitted.score(prediction)
        if above is not None:
            return Abstention(score, score > above, f"its fitted score is above {above:g}", above)
        threshold = fitted.threshold if fitted.guaranteed is None else None
        return Abstention(score, fitted.abstain(prediction), "its fitted score says so", threshold)
    if isinstance(prediction, Prediction):
        require_one_label(prediction)
        score = 1 - prediction.max_probability
        above = DOUBTFUL_PROBABILITY if above is None else above
        rule = f"the label is wrong with probability > {above:g}"
        return Abstention(score, score > above, rule, above)
    score = prediction.variance.sqrt().reshape(len(prediction), -1).amax(1)
    if above is None and posterior.recipe is not None:
        stored: Any = posterior.recipe.data.get("abstain_above")
        above = float(stored) if is_number(stored) else None
    if above is None:
        return Abstention(score, None, "no threshold is known; give --abstain-above")
    return Abstention(score, score > above, f"the standard deviation is above {above:.4g}", above)


def classes_of(rows: Rows, posterior: Posterior) -> Sequence[str] | None:
    """The names of the classes: those of the data, or those that the posterior's file has."""
    if rows.classes is not None:
        return rows.classes
    stored: Any = None if posterior.recipe is None else posterior.recipe.data.get("classes")
    return None if stored is None else [str(name) for name in stored]


def require_one_label(prediction: Prediction) -> None:
    """Refuse predictions of several labels for each row, which a table of answers cannot hold."""
    shape = tuple(prediction.probs.shape[1:])
    rule = "one with a single label or numbers for each row; use `posterior.predict` in Python"
    require(len(shape) == 1, "file", rule, Phrase(f"probabilities of shape {shape} for each"))


def _by_output(name: str, values: Tensor) -> dict[str, Sequence[object]]:
    flat = values.detach().cpu().reshape(len(values), -1)
    if flat.shape[1] == 1:
        return {name: flat[:, 0].tolist()}
    return {f"{name}_{index}": flat[:, index].tolist() for index in range(flat.shape[1])}


def _cell(value: object) -> object:
    return f"{value:.9g}" if isinstance(value, float) else value
