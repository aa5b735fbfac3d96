"""Out-of-domain scores against scikit-learn and torchmetrics."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torchmetrics.functional.classification import (
    binary_auroc,
    binary_average_precision,
    binary_specificity_at_sensitivity,
)

from sbmc.checks import BadInput
from sbmc.confidence.scores import detection, detection_metrics, prediction_scores
from sbmc.prediction.combining import classification_prediction


def scores(seed=0, digits=2):
    rng = np.random.default_rng(seed)
    return rng.beta(2, 4, 300).round(digits), rng.beta(4, 2, 150).round(digits)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("digits", [2, 12])  # with ties, and without
def test_against_two_libraries(seed, digits):
    inside, outside = scores(seed, digits)
    found = detection(inside, outside)
    truth, score = np.repeat([0, 1], [300, 150]), np.concatenate([inside, outside])
    assert found.auroc == roc_auc_score(truth, score)
    assert found.aupr == average_precision_score(truth, score)
    given = torch.from_numpy(score), torch.from_numpy(truth)
    assert found.auroc == pytest.approx(binary_auroc(*given).item(), abs=1e-6)
    assert found.aupr == pytest.approx(binary_average_precision(*given).item(), abs=1e-6)
    specificity, _ = binary_specificity_at_sensitivity(*given, min_sensitivity=0.95)
    assert found.fpr95 == pytest.approx(1 - specificity.item(), abs=1e-6)


def test_false_positive_rate_by_hand():
    inside, outside = scores()
    # The largest threshold that finds 95 % of the outside inputs.
    threshold = max(t for t in outside if (outside >= t).mean() >= 0.95)
    assert detection(inside, outside).fpr95 == (inside >= threshold).mean()


def test_extremes():
    assert detection([0.0, 0.1], [0.9, 1.0]) == (1.0, 1.0, 0.0)
    assert detection([0.9, 1.0], [0.0, 0.1])[::2] == (0.0, 1.0)
    assert detection([0.5] * 4, [0.5] * 4) == (0.5, 0.5, 1.0)


@pytest.mark.parametrize(("inside", "outside"), [([], [0.1]), ([0.1], [])])
def test_one_domain_alone_is_refused(inside, outside):
    name = "inside" if not inside else "outside"
    with pytest.raises(BadInput, match=f"`{name}` must be scores of at least one example"):
        detection(inside, outside)


def test_what_is_not_finite_is_refused():
    with pytest.raises(BadInput, match="`outside` must be finite"):
        detection([0.1], [np.inf])


def test_scores_of_a_prediction_rise_with_doubt():
    logits = torch.tensor([[8.0, 0.0], [0.1, 0.0]], dtype=torch.float64)
    particles = torch.stack([logits, logits.flip(1) * torch.tensor([[-1.0], [1.0]])])
    prediction = classification_prediction(particles.log_softmax(-1), torch.full((2,), 0.5))
    found = prediction_scores(prediction)
    assert list(found) == ["max_probability", "total", "epistemic"]
    assert all(score[1] > score[0] for score in (found["max_probability"], found["total"]))
    assert found["epistemic"].tolist() == prediction.epistemic.tolist()


def test_metrics_are_named_after_their_score():
    inside, outside = scores()
    found = detection_metrics({"total": inside}, {"total": outside})
    assert list(found) == ["ood.total.auroc", "ood.total.aupr", "ood.total.fpr95"]
    assert found["ood.total.fpr95"] == detection(inside, outside).fpr95
    with pytest.raises(
        BadInput, match="`outside` must be of the same scores as `inside`, \\['total'\\], but got"
    ):
        detection_metrics({"total": inside}, {"epistemic": outside})
