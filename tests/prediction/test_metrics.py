"""Metrics against scikit-learn and torchmetrics, exact cases, and refused input."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, root_mean_squared_error
from torchmetrics.functional.classification import multiclass_calibration_error

from sbmc.checks import BadInput
from sbmc.prediction import metrics
from sbmc.prediction.combining import classification_prediction, regression_prediction
from sbmc.prediction.prediction import Prediction


@pytest.fixture(params=[2, 3, 8])
def case(request):
    """Probabilities of a classifier that is right more often than not, and labels."""
    rng = np.random.default_rng(request.param)
    outputs = 2 * rng.standard_normal((500, request.param))
    labels = rng.integers(0, request.param, 500)
    outputs[np.arange(500), labels] += 1.5
    return torch.from_numpy(outputs).softmax(dim=-1), torch.from_numpy(labels)


# Against independent references.


def test_accuracy_against_scikit_learn(case):
    probs, labels = case
    expected = accuracy_score(labels, probs.argmax(dim=1))
    assert metrics.accuracy(probs, labels) == pytest.approx(expected, abs=1e-15)
    assert 0.3 < expected < 0.95  # neither all right nor all wrong


def test_nll_against_scikit_learn(case):
    probs, labels = case
    expected = log_loss(labels, probs.numpy(), labels=range(probs.shape[1]))
    assert metrics.nll(probs, labels) == pytest.approx(expected, rel=1e-12)


def test_brier_against_scikit_learn(case):
    probs, labels = case
    if probs.shape[1] == 2:
        expected = 2 * brier_score_loss(labels, probs[:, 1])
    else:
        # Not halved: the sum over classes.
        expected = brier_score_loss(
            labels, probs.numpy(), labels=range(probs.shape[1]), scale_by_half=False
        )
    assert metrics.brier(probs, labels) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_ece_against_torchmetrics(case, bins):
    probs, labels = case
    expected = multiclass_calibration_error(
        probs, labels, num_classes=probs.shape[1], n_bins=bins, norm="l1"
    )
    assert metrics.ece(probs, labels, bins=bins) == pytest.approx(expected.item(), abs=1e-6)


def test_ece_has_fifteen_bins_by_default(case):
    probs, labels = case
    assert metrics.ece(probs, labels) == metrics.ece(probs, labels, bins=15)
    assert metrics.ece(probs, labels) != metrics.ece(probs, labels, bins=10)


def test_rmse_against_scikit_learn():
    rng = np.random.default_rng(0)
    mean, targets = rng.standard_normal((2, 50, 3))
    # scikit-learn averages the roots of several outputs; flattened, the definitions agree.
    expected = root_mean_squared_error(targets.ravel(), mean.ravel())
    assert metrics.rmse(mean, targets) == pytest.approx(expected, rel=1e-12)


def test_gaussian_nll_against_torch_distributions():
    rng = torch.Generator().manual_seed(0)
    mean, targets = torch.randn(2, 40, generator=rng, dtype=torch.float64)
    variance = 0.1 + torch.rand(40, generator=rng, dtype=torch.float64)
    expected = -torch.distributions.Normal(mean, variance.sqrt()).log_prob(targets).mean()
    result = metrics.gaussian_nll(mean, variance, targets)
    assert result == pytest.approx(expected.item(), rel=1e-12)


# Exact cases.


def test_a_perfect_prediction():
    probs, labels = torch.eye(4), torch.arange(4)
    assert metrics.accuracy(probs, labels) == 1.0
    assert metrics.nll(probs, labels) == 0.0
    assert metrics.brier(probs, labels) == 0.0
    assert metrics.ece(probs, labels) == 0.0


def test_a_uniform_prediction():
    probs, labels = torch.full((5, 4), 0.25, dtype=torch.float64), [0, 0, 0, 0, 1]
    assert metrics.nll(probs, labels) == pytest.approx(math.log(4))
    assert metrics.brier(probs, labels) == pytest.approx(0.75)
    # The first of equal classes is predicted, four times out of five rightly.
    assert metrics.ece(probs, labels) == pytest.approx(0.8 - 0.25)


def test_an_impossible_label_costs_a_lot_and_stays_finite():
    probs = torch.tensor([[1.0, 0.0], [0.5, 0.5]], dtype=torch.float64)
    worst = -math.log(torch.finfo(torch.float64).tiny)
    expected = (worst + math.log(2)) / 2
    assert metrics.nll(probs, [1, 1]) == pytest.approx(expected)
    assert 708 < worst < 709


def test_a_bin_has_its_upper_edge():
    # Confidences 0.5 and 0.6 share the bin (0.4, 0.6] of five but not of ten, (0.4, 0.5], (0.5, ...
    probs = torch.tensor([[0.5, 0.5], [0.6, 0.4]], dtype=torch.float64)
    assert metrics.ece(probs, [0, 1], bins=5) == pytest.approx(abs(0.5 + 0.6 - 1) / 2)
    assert metrics.ece(probs, [0, 1], bins=10) == pytest.approx((0.5 + 0.6) / 2)


def test_standard_error_is_the_papers():
    values = [0.91, 0.92, 0.90, 0.93, 0.925]
    expected = np.std(values, ddof=0) / math.sqrt(5)
    assert metrics.standard_error(values) == pytest.approx(expected, rel=1e-12)
    assert metrics.mean_and_error(values) == pytest.approx((np.mean(values), expected))
    assert metrics.standard_error([0.9]) == 0.0


# Flat dictionaries.


def make_prediction(probs, total, epistemic):
    total, epistemic = (torch.tensor(v, dtype=torch.float64) for v in (total, epistemic))
    return Prediction(torch.tensor(probs), total, total - epistemic, epistemic)


def test_classification_metrics_split_by_correctness():
    prediction = make_prediction(
        [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], total=[1.0, 2.0, 6.0], epistemic=[0.5, 1.0, 3.0]
    )
    result = metrics.classification_metrics(prediction, torch.tensor([0, 0, 0]))
    assert result["accuracy"] == pytest.approx(2 / 3)
    assert result["entropy.total.id"] == pytest.approx(3.0)
    assert result["entropy.total.correct"] == pytest.approx(1.5)
    assert result["entropy.total.incorrect"] == pytest.approx(6.0)
    assert result["entropy.epistemic.correct"] == pytest.approx(0.75)
    assert result["entropy.aleatoric.incorrect"] == pytest.approx(3.0)
    expected = {"accuracy", "nll", "brier", "ece"} | {
        f"entropy.{kind}.{chosen}"
        for kind in ("total", "aleatoric", "epistemic")
        for chosen in ("id", "correct", "incorrect")
    }
    assert set(result) == expected
    assert all(type(value) is float for value in result.values())


def test_metrics_of_an_empty_set_are_absent():
    prediction = make_prediction([[0.9, 0.1]], total=[1.0], epistemic=[0.5])
    right = metrics.classification_metrics(prediction, [0])
    wrong = metrics.classification_metrics(prediction, [1])
    assert not [name for name in right if name.endswith(".incorrect")]
    assert not [name for name in wrong if name.endswith(".correct")]
    assert right["entropy.total.correct"] == wrong["entropy.total.incorrect"] == 1.0


def test_ood_metrics_pool_examples_not_groups():
    groups = {
        "8": make_prediction([[0.5, 0.5]], total=[4.0], epistemic=[1.0]),
        "white_noise": make_prediction([[0.5, 0.5]] * 3, total=[1.0] * 3, epistemic=[0.5] * 3),
        "nothing": make_prediction([[0.5, 0.5]][:0], total=[], epistemic=[]),
    }
    result = metrics.ood_metrics(groups)
    assert result["entropy.total.ood.8"] == 4.0
    assert result["entropy.total.ood.all"] == pytest.approx((4 + 3) / 4)
    assert result["entropy.epistemic.ood.white_noise"] == 0.5
    assert result["entropy.aleatoric.ood.all"] == pytest.approx((3 + 1.5) / 4)
    assert len(result) == 3 * 3


def test_regression_metrics():
    means = torch.tensor([[0.0, 1.0], [2.0, 1.0]])
    prediction = regression_prediction(means, torch.tensor([0.5, 0.5]), 0.5)
    result = metrics.regression_metrics(prediction, [1.0, 2.0])
    assert result["rmse"] == pytest.approx(math.sqrt(0.5))
    log_terms = math.log(2 * math.pi * 1.5) + math.log(2 * math.pi * 0.5)
    assert result["nll.moments"] == pytest.approx((log_terms + 0 / 1.5 + 1 / 0.5) / 4)
    assert set(result) == {"rmse", "nll.moments"}  # nothing is known of the mixture


# Bad input.


@pytest.mark.parametrize("metric", [metrics.accuracy, metrics.nll, metrics.brier, metrics.ece])
@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        ([[2.0, -1.0]], [0], "`probs` must be from 0 to 1, but got 2.0."),
        ([[math.nan, 1.0]], [0], "`probs` must be from 0 to 1, but got nan."),
        ([[0.5, 0.25]], [0], "`probs` must be of sum 1 in each row, but got 0.75."),
        ([0.5, 0.5], [0], "`probs` must be of shape (examples, classes), but got (2,)."),
        ([[0.5, 0.5]], [2], "`labels` must be from 0 to 1, but got 2."),
        ([[0.5, 0.5]], [-1], "`labels` must be from 0 to 1, but got -1."),
        ([[0.5, 0.5]], [0.0], "`labels` must be integers, but got torch.float64."),
        ([[0.5, 0.5]], [0, 1], "`labels` must be of shape (examples,), here (1,), but got (2,)."),
    ],
)
def test_bad_probabilities_and_labels_are_refused(metric, probs, labels, message):
    with pytest.raises(BadInput) as refused:
        metric(probs, labels)
    assert str(refused.value) == message


def test_other_bad_input_is_refused():
    with pytest.raises(BadInput, match=r"`bins` must be a positive integer, but got 0\."):
        metrics.ece([[0.5, 0.5]], [0], bins=0)
    with pytest.raises(BadInput, match=r"`values` must be at least one number, but got \[\]\."):
        metrics.standard_error([])
    with pytest.raises(BadInput, match=r"`targets` must be of the shape of the mean, \(2, 1\)"):
        metrics.rmse([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(BadInput, match=r"`variance` must be positive, but got 0\.0\."):
        metrics.gaussian_nll([1.0], [0.0], [1.0])
    group = make_prediction([[0.5, 0.5]], total=[1.0], epistemic=[0.5])
    with pytest.raises(BadInput, match="`predictions` must be groups of which none is called"):
        metrics.ood_metrics({"all": group})
    with pytest.raises(BadInput, match="`predictions` must be at least one group"):
        metrics.ood_metrics({})


def test_metrics_take_what_prediction_gives(case):
    probs, labels = case
    prediction = classification_prediction(probs.log().unsqueeze(0), torch.ones(1))
    result = metrics.classification_metrics(prediction, labels)
    assert result["nll"] == pytest.approx(metrics.nll(probs, labels), rel=1e-12)
    assert result["entropy.epistemic.id"] == 0.0
