"""What was lost: a student beside its teacher, on rows that were held out of the distillation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbmc.posterior.distillation.heads import Parts
from sbmc.prediction.base import BasePrediction


@dataclass(frozen=True)
class Fidelity:
    """How near a student is to its teacher.

    Attributes:
        rows: how many rows were held out.
        divergence: mean KL divergence of the student's prediction from the teacher's, in nats; of
            numbers, between normal distributions of their means and total variances.
        agreement: of classes, the share of rows with the same label; None for numbers.
        epistemic_correlation: rank correlation of both epistemic parts; None if one is constant.
        perturbed_correlation: the same on perturbations of those rows; None if there are none.
        teacher_nll: mean negative log density of the targets; None without targets.
        student_nll: the same of the student.
    """

    rows: int
    divergence: float
    agreement: float | None
    epistemic_correlation: float | None
    perturbed_correlation: float | None = None
    teacher_nll: float | None = None
    student_nll: float | None = None

    def __str__(self) -> str:
        return "; ".join(f"{name} {text}" for name, text in self.lines())

    def lines(self) -> list[tuple[str, str]]:
        """What each figure is called, and the figure, as text."""
        figures = [
            (f"KL from the teacher on {self.rows} held-out rows", self.divergence, ".4f"),
            ("same label", self.agreement, ".1%"),
            ("rank correlation of epistemic", self.epistemic_correlation, ".3f"),
            ("and on perturbed rows", self.perturbed_correlation, ".3f"),
            ("NLL of the teacher", self.teacher_nll, ".4f"),
            ("NLL of the student", self.student_nll, ".4f"),
        ]
        return [(name, format(value, form)) for name, value, form in figures if value is not None]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Fidelity:
        """The figures that `as_dict` described; others are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in content.items() if name in known})


def measure_fidelity(
    teacher: BasePrediction,
    student: BasePrediction,
    targets: Any = None,
    perturbed: tuple[BasePrediction, BasePrediction] | None = None,
) -> Fidelity:
    """Compare two predictions for the same rows.

    Args:
        teacher: of the posterior.
        student: of the distilled network.
        targets: of the rows, if they are known.
        perturbed: both predictions for perturbations of the rows.

    Returns:
        The figures.
    """
    ours, theirs = parts_of(student), parts_of(teacher)
    classes = hasattr(teacher, "probs")
    nll: list[float | None] = [None, None]
    if targets is not None:
        nll = [-float(each.log_prob(targets).mean()) for each in (teacher, student)]
    off_data = None
    if perturbed is not None:
        off_data = rank_correlation(*(parts_of(each).epistemic for each in perturbed))
    divergence = _class_divergence if classes else _number_divergence
    same = theirs.mean.argmax(-1) == ours.mean.argmax(-1)
    return Fidelity(
        rows=len(teacher),
        divergence=float(divergence(theirs, ours)),
        agreement=float(same.double().mean()) if classes else None,
        epistemic_correlation=rank_correlation(theirs.epistemic, ours.epistemic),
        perturbed_correlation=off_data,
        teacher_nll=nll[0],
        student_nll=nll[1],
    )


def parts_of(prediction: Any) -> Parts:
    """The prediction of a posterior in the form in which a student gives it."""
    total, aleatoric, epistemic = prediction.total, prediction.aleatoric, prediction.epistemic
    return Parts(prediction.mean, total, aleatoric, epistemic)


def rank_correlation(first: Tensor, second: Tensor) -> float | None:
    """Spearman's rank correlation, equal values sharing the mean of their ranks.

    Args:
        first: numbers.
        second: as many.

    Returns:
        From −1 to 1; None if all numbers of one are equal.

    Examples:
        >>> round(rank_correlation(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 4.0, 9.0])), 9)
        1.0
    """
    ranks = [_ranks(values.detach().cpu().double().flatten()) for values in (first, second)]
    if any(bool((each == each[0]).all()) for each in ranks):
        return None
    centred = [each - each.mean() for each in ranks]
    norms = float(centred[0].norm() * centred[1].norm())
    return float(centred[0] @ centred[1]) / norms


def _ranks(values: Tensor) -> Tensor:
    _, inverse, counts = np.unique(values.numpy(), return_inverse=True, return_counts=True)
    # Equal values have the ranks from `end - count` to `end - 1`.
    middles = counts.cumsum() - (counts + 1) / 2
    return torch.from_numpy(middles[inverse])


def _class_divergence(teacher: Parts, student: Parts) -> Tensor:
    probs = teacher.mean
    return (torch.xlogy(probs, probs) - torch.xlogy(probs, student.mean)).sum(-1).mean()


def _number_divergence(teacher: Parts, student: Parts) -> Tensor:
    square = (teacher.mean - student.mean).square()
    ratio = teacher.total / student.total
    return (0.5 * (ratio - ratio.log() - 1 + square / student.total)).flatten(1).sum(-1).mean()
