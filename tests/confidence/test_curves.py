"""Curves for figures: thinned, and still the same curves."""

import numpy as np
import pytest
import torch
from sklearn.calibration import calibration_curve
from sklearn.metrics import auc, confusion_matrix, roc_auc_score

from sbmc.confidence.curves import (
    accuracy_points,
    confusion_counts,
    entropy_groups,
    reliability_bins,
    risk_points,
    roc_points,
)
from sbmc.confidence.decisions import risk_coverage
from sbmc.prediction.combining import classification_prediction


def scored(examples=3000, seed=0):
    rng = np.random.default_rng(seed)
    wrong = rng.random(examples) < 0.5
    return rng.beta(1 + wrong, 2 - wrong), wrong


def test_roc_keeps_its_area_and_its_ends():
    score, wrong = scored()
    curve = roc_points(score, wrong)
    x, y = curve["false_positive_rate"], curve["true_positive_rate"]
    assert len(x) == len(y) == 200
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) >= 0).all()
    assert auc(x, y) == pytest.approx(roc_auc_score(wrong, score), abs=1e-3)


def test_a_perfect_score_keeps_its_corner():
    curve = roc_points(np.array([0.1, 0.2, 0.8, 0.9]), np.array([0, 0, 1, 1]))
    area = auc(curve["false_positive_rate"], curve["true_positive_rate"])
    assert area == pytest.approx(1.0, abs=1e-4)


def test_risk_curve_ends_at_the_overall_error():
    score, wrong = scored()
    curve = risk_points(score, wrong)
    assert len(curve["risk"]) == 200
    assert curve["risk"][-1] == pytest.approx(wrong.mean())
    assert np.trapezoid(curve["risk"], curve["coverage"]) == pytest.approx(
        risk_coverage(score, wrong).area, abs=3e-3
    )


def test_accuracy_over_thresholds():
    score, wrong = scored()
    curve = accuracy_points(score, wrong)
    middle = np.flatnonzero(curve["thresholds"] == 0.5)[0]
    assert curve["accuracy"][middle] == ((score >= 0.5) == wrong).mean()


def test_confusion_against_scikit_learn():
    score, wrong = scored()
    assert np.array_equal(
        confusion_counts(score, wrong, 0.3), confusion_matrix(wrong, score >= 0.3)
    )


def test_reliability_against_scikit_learn():
    score, wrong = scored()
    bins = reliability_bins(score, wrong, bins=10)
    frequency, probability = calibration_curve(wrong, score, n_bins=10)
    filled = bins["count"] > 0
    np.testing.assert_allclose(bins["frequency"][filled], frequency)
    np.testing.assert_allclose(bins["probability"][filled], probability)
    assert bins["count"].sum() == len(score)


def test_an_empty_bin_has_no_frequency():
    bins = reliability_bins([0.9, 1.0], [True, False], bins=2)
    assert bins["count"].tolist() == [0, 2]
    assert np.isnan(bins["frequency"][0])
    assert bins["frequency"][1] == 0.5


def test_entropies_by_group_and_class():
    rng = torch.Generator().manual_seed(0)
    log_probs = torch.randn(3, 40, 4, generator=rng, dtype=torch.float64).log_softmax(-1)
    weights = torch.full((3,), 1 / 3)
    inside = classification_prediction(log_probs[:, :30], weights)
    outside = classification_prediction(log_probs[:, 30:], weights)
    labels = np.arange(30) % 4
    found = entropy_groups(inside, labels, {"far": outside})
    assert found["groups"].tolist() == ["correct", "incorrect", "far"]
    right = inside.labels.numpy() == labels
    for kind in ("total", "aleatoric", "epistemic"):
        own = getattr(inside, kind).numpy()
        expected = [own[right].mean(), own[~right].mean(), getattr(outside, kind).mean()]
        np.testing.assert_allclose(found[f"groups.{kind}"], expected)
        np.testing.assert_allclose(found[f"classes.{kind}"][2], own[labels == 2].mean())
    perfect = entropy_groups(inside, inside.labels.numpy(), {})
    assert np.isnan(perfect["groups.total"][1])
