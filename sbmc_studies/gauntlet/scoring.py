"""What is measured of a method on one pair: on test rows, and on rows out of domain."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sbmc.confidence import risk_coverage
from sbmc.prediction.metrics import classification_metrics, ece
from sbmc.prediction.prediction import Prediction

# Bins of fewer rows would be noise.
FEWEST_FOR_ECE = 500


def score(
    inside: Prediction, labels: Tensor, outside: Mapping[str, Prediction]
) -> dict[str, float | None]:
    """All columns of the gauntlet's table for one method, pair and seed.

    Args:
        inside: the prediction for the test rows.
        labels: theirs.
        outside: predictions for the groups out of domain.

    Returns:
        `accuracy`, `nll`, `brier`; `ece` with at least 500 test rows; `ood_ep` and `ood_tot`, the
        area under the ROC curve for telling rows out of domain by epistemic and by total entropy;
        `error_ep` and `error_tot`, the same for telling wrong answers; `aurc`, the area under risk
        against coverage. None where a figure does not exist.
    """
    known = classification_metrics(inside, labels)
    wrong = inside.labels != labels
    columns: dict[str, float | None] = {name: known[name] for name in ("accuracy", "nll", "brier")}
    columns["ece"] = ece(inside.probs, labels) if len(labels) >= FEWEST_FOR_ECE else None
    for name, field in (("ep", "epistemic"), ("tot", "total")):
        here = getattr(inside, field)
        there = torch.cat([getattr(group, field) for group in outside.values()])
        columns[f"ood_{name}"] = _auroc(there, here)
        columns[f"error_{name}"] = _auroc(here[wrong], here[~wrong])
    columns["aurc"] = risk_coverage(1 - inside.max_probability.numpy(), wrong.numpy()).area
    return columns


def _auroc(positive: Tensor, negative: Tensor) -> float | None:
    """The chance that a positive value is above a negative one; ties count half."""
    from sklearn.metrics import roc_auc_score

    if len(positive) == 0 or len(negative) == 0:
        return None
    truth = torch.cat([torch.ones(len(positive)), torch.zeros(len(negative))])
    return float(roc_auc_score(truth.numpy(), torch.cat([positive, negative]).numpy()))
