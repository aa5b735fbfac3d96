"""CRPS, coverage, PIT, AURC and multi-label metrics: of predictions and of arrays alike."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torchmetrics.functional.classification import (
    multilabel_auroc,
    multilabel_average_precision,
    multilabel_exact_match,
    multilabel_f1_score,
    multilabel_hamming_distance,
)

from sbmc.checks import BadInput
from sbmc.likelihoods import Categorical, Gaussian, MultiLabel, Poisson
from sbmc.prediction import metrics
from sbmc.prediction.mixture import mixed_prediction
from sbmc.prediction.samples import KeptOutputs, Samples

RNG = torch.Generator().manual_seed(8)
WEIGHTS = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
EXAMPLES = 2_000


def prediction_of(likelihood, *shape, factor=1.0):
    outputs = factor * torch.randn(3, EXAMPLES, *shape, generator=RNG, dtype=torch.float64)
    found = mixed_prediction(likelihood, [(outputs, WEIGHTS)])
    return replace(found, particles=Samples(KeptOutputs(outputs), WEIGHTS, likelihood))


NUMBERS = prediction_of(Gaussian(noise_variance=0.5), 1)
COUNTS = prediction_of(Poisson(), 1)
CLASSES = prediction_of(Categorical(), 4, factor=2.0)
LABELS = prediction_of(MultiLabel(), 5, factor=2.0)


def truth(prediction, seed=0):
    """Targets that the prediction is right about: a draw for each example on its own."""
    draws = prediction.sample(500, seed=seed)
    rows = torch.arange(len(prediction))
    return draws[rows % len(draws), rows]


# A prediction and its numbers as arrays give the same.


def test_a_prediction_may_stand_for_its_arrays():
    labels, targets = truth(CLASSES), truth(NUMBERS)
    for metric in (metrics.accuracy, metrics.nll, metrics.brier, metrics.ece):
        assert metric(CLASSES, labels) == metric(CLASSES.probs, labels)
    assert metrics.rmse(NUMBERS, targets) == metrics.rmse(NUMBERS.mean, targets)
    assert metrics.rmse(NUMBERS, targets.squeeze(1)) == metrics.rmse(NUMBERS, targets)
    pair = NUMBERS.interval(0.8)
    assert metrics.interval_coverage(NUMBERS, targets, 0.8) == metrics.interval_coverage(
        (pair.lower.numpy(), pair.upper.numpy()), targets
    )
    assert metrics.interval_width(NUMBERS, 0.8) == metrics.interval_width(tuple(pair))
    assert metrics.crps(CLASSES, labels) == pytest.approx(metrics.brier(CLASSES, labels) / 2)
    # 1,000 draws for each of 2,000 examples.
    by_draws = metrics.crps(NUMBERS.sample(1_000, seed=2), targets)
    assert metrics.crps(NUMBERS, targets) == pytest.approx(by_draws, rel=0.02)


def test_nll_of_numbers_is_that_of_the_mixture():
    targets = truth(NUMBERS)
    assert metrics.nll(NUMBERS, targets) == -NUMBERS.log_prob(targets).mean().item()
    moments = metrics.gaussian_nll(NUMBERS.mean, NUMBERS.variance, targets)
    assert metrics.nll(NUMBERS, targets) < moments - 0.01


def test_several_labels_count_alike():
    labels = truth(LABELS)
    assert metrics.accuracy(LABELS, labels) == (LABELS.labels == labels).double().mean().item()


def test_draws_against_scoringrules():
    scoringrules = pytest.importorskip("scoringrules")
    draws, targets = NUMBERS.sample(30), truth(NUMBERS, seed=1)
    theirs = scoringrules.crps_ensemble(
        targets.squeeze(1).numpy(), draws.squeeze(2).T.numpy(), estimator="fair"
    )
    assert metrics.crps(draws, targets) == pytest.approx(theirs.mean(), rel=1e-9)


# Calibration.


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_cover_what_they_promise(level):
    # Four standard errors, 4 sqrt(l (1 − l) / n): a false alarm in 1 of 16,000.
    error = 4 * (level * (1 - level) / EXAMPLES) ** 0.5
    covered = metrics.interval_coverage(NUMBERS, truth(NUMBERS), level)
    assert covered == pytest.approx(level, abs=error)
    # A planted bug, the credible interval in its place, covers far less.
    credible = NUMBERS.interval(level, kind="credible")
    assert metrics.interval_coverage(credible, truth(NUMBERS)) < level - 2 * error


@pytest.mark.parametrize("prediction", [NUMBERS, COUNTS], ids=["numbers", "counts"])
def test_pit_is_uniform(prediction):
    values = metrics.pit(prediction, truth(prediction)).flatten()
    # Level 1e-4 of the Kolmogorov-Smirnov test is its false-alarm rate.
    assert kstest(values, "uniform").pvalue > 1e-4
    draws = prediction.sample(19, seed=5)
    assert kstest(metrics.pit(draws, truth(prediction)).flatten(), "uniform").pvalue > 1e-4


def test_pit_of_counts_without_randomisation_would_be_seen():
    planted = COUNTS.cdf(truth(COUNTS)).flatten()
    assert kstest(planted, "uniform").pvalue < 1e-12


def test_pit_of_a_wrong_width_would_be_seen():
    values = metrics.pit(NUMBERS, 2 * truth(NUMBERS)).flatten()
    assert kstest(values, "uniform").pvalue < 1e-12
    assert ((values < 0.05) | (values > 0.95)).double().mean() > 0.2


def test_all_metrics_of_numbers():
    targets = truth(NUMBERS)
    found = metrics.regression_metrics(NUMBERS, targets, level=0.8)
    assert found["nll"] == metrics.nll(NUMBERS, targets)
    assert found["crps"] == metrics.crps(NUMBERS, targets)
    assert found["coverage"] == metrics.interval_coverage(NUMBERS, targets, 0.8)
    assert found["width"] == metrics.interval_width(NUMBERS, 0.8)
    assert set(found) == {"rmse", "nll.moments", "nll", "crps", "coverage", "width"}


# Selective prediction.


def test_aurc_against_a_loop():
    rng = np.random.default_rng(0)
    score, loss = rng.random(40), rng.gamma(1.0, size=40)
    order = np.argsort(score)
    risks = [loss[order][: k + 1].mean() for k in range(40)]
    assert metrics.aurc(score, loss) == pytest.approx(np.mean(risks))
    assert metrics.aurc(np.zeros(40), loss) == pytest.approx(loss.mean())


def test_aurc_of_predictions():
    labels = truth(CLASSES)
    wrong = (CLASSES.labels != labels).numpy()
    by_hand = metrics.aurc((1 - CLASSES.probs.max(-1).values).numpy(), wrong)
    assert metrics.aurc(CLASSES, labels) == by_hand
    assert by_hand < wrong.mean() - 0.02
    noisy = prediction_of(Gaussian(noise="network"), 2)
    targets = truth(noisy)
    errors = (noisy.mean - targets).square().flatten().numpy()
    assert metrics.aurc(noisy, targets) == metrics.aurc(noisy.variance.flatten(), errors)
    assert metrics.aurc(noisy, targets) < errors.mean() - 0.02


# Several labels.


def test_multilabel_metrics_against_torchmetrics():
    labels = truth(LABELS)
    probs = LABELS.probs[..., 1]
    found = metrics.multilabel_metrics(LABELS, labels)
    assert found == metrics.multilabel_metrics(probs, labels.numpy())
    options = {"preds": probs, "target": labels, "num_labels": 5}
    expected = {
        "label_accuracy": 1 - multilabel_hamming_distance(**options),
        "subset_accuracy": multilabel_exact_match(**options),
        "f1.micro": multilabel_f1_score(**options, average="micro"),
        "f1.macro": multilabel_f1_score(**options, average="macro"),
        "average_precision": multilabel_average_precision(**options),
        "auroc": multilabel_auroc(**options),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(float(value), abs=1e-6), name
    each = torch.nn.functional.binary_cross_entropy(probs, labels.double())
    assert found["nll"] == pytest.approx(each.item())
    assert found["brier"] == pytest.approx((probs - labels).square().mean().item())
    assert 0 <= found["ece"] < 0.05


def test_labels_that_never_change_have_no_ranking():
    found = metrics.multilabel_metrics([[0.7], [0.2]], [[1], [1]])
    assert "auroc" not in found
    assert found["label_accuracy"] == 0.5


# Bad input.


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda: metrics.crps([[1.0]], [1.0]), "two or more draws"),
        (lambda: metrics.crps([[1.0, 2.0]] * 3, [1.0]), r"of shape \(draws, 1,\)"),
        (lambda: metrics.interval_coverage(1.0, [1.0]), r"a prediction, or \(lower, upper\)"),
        (
            lambda: metrics.interval_width(([1.0], [0.0])),
            "`prediction\\[1\\]` must be at least",
        ),
        (lambda: metrics.interval_coverage(([0.0], [1.0]), [[1.0]]), "`targets` must be of shape"),
        (lambda: metrics.aurc([0.1], [0.1, 0.2]), "`targets` must be of the shape"),
        (lambda: metrics.aurc([np.nan], [0.1]), "`prediction` must be finite"),
        (lambda: metrics.multilabel_metrics([[1.5]], [[1]]), "`probs` must be from 0 to 1"),
        (lambda: metrics.multilabel_metrics([[0.5]], [[2]]), "`labels` must be zeros and ones"),
        (lambda: metrics.multilabel_metrics(CLASSES, [[2]]), r"\(examples, labels, 2\)"),
    ],
)
def test_bad_input_is_refused(question, message):
    with pytest.raises(BadInput, match=message):
        question()
