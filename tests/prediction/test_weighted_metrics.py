"""Weights in metrics: a weight of 2 is that example twice; and plain arrays beside predictions."""

import numpy as np
import pytest
import sklearn.metrics as references
import torch

from sbmc.checks import BadInput
from sbmc.confidence import detection
from sbmc.likelihoods import Categorical, Gaussian, MultiLabel
from sbmc.prediction import metrics
from sbmc.prediction.mixture import mixed_prediction
from sbmc.prediction.samples import KeptOutputs, Samples

RNG = np.random.default_rng(0)
ROWS = 60
COUNTS = RNG.integers(0, 4, ROWS)
REPEATED = np.repeat(np.arange(ROWS), COUNTS)
LABELS = RNG.integers(0, 3, ROWS)
TARGETS = RNG.standard_normal((ROWS, 2))
ON = RNG.integers(0, 2, (ROWS, 4))
# Rounded, so that scores have ties.
SCORE = RNG.standard_normal(ROWS).round(1)
LOSS = RNG.random(ROWS)
LOWER = RNG.standard_normal((ROWS, 2)) - 1
MEAN, VARIANCE = RNG.standard_normal((ROWS, 2)), RNG.random((ROWS, 2)) + 0.1
DRAWS = RNG.standard_normal((7, ROWS, 2))


def predicted(likelihood, columns):
    weights = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    outputs = torch.from_numpy(RNG.standard_normal((3, ROWS, columns)))
    prediction = mixed_prediction(likelihood, [(outputs, weights)])
    object.__setattr__(prediction, "particles", Samples(KeptOutputs(outputs), weights, likelihood))
    return prediction


CLASSES = predicted(Categorical(), 3)
NUMBERS = predicted(Gaussian(noise="network"), 4)
SEVERAL = predicted(MultiLabel(), 4)
PROBS = CLASSES.probs.numpy()

# A metric as a function of some rows and of the weights of these.
METRICS = {
    "accuracy": lambda r, **w: metrics.accuracy(PROBS[r], LABELS[r], **w),
    "accuracy, prediction": lambda r, **w: metrics.accuracy(CLASSES[r], LABELS[r], **w),
    "accuracy, labels": lambda r, **w: metrics.accuracy(SEVERAL[r], ON[r], **w),
    "nll": lambda r, **w: metrics.nll(PROBS[r], LABELS[r], **w),
    "nll, labels": lambda r, **w: metrics.nll(SEVERAL[r], ON[r], **w),
    "nll, numbers": lambda r, **w: metrics.nll(NUMBERS[r], TARGETS[r], **w),
    "brier": lambda r, **w: metrics.brier(PROBS[r], LABELS[r], **w),
    "ece": lambda r, **w: metrics.ece(PROBS[r], LABELS[r], bins=5, **w),
    "ece, labels": lambda r, **w: metrics.ece(SEVERAL[r], ON[r], **w),
    "classification": lambda r, **w: metrics.classification_metrics(CLASSES[r], LABELS[r], **w),
    "classification, plain": lambda r, **w: metrics.classification_metrics(
        PROBS[r], LABELS[r], **w
    ),
    "classification, labels": lambda r, **w: metrics.classification_metrics(SEVERAL[r], ON[r], **w),
    "rmse": lambda r, **w: metrics.rmse(MEAN[r], TARGETS[r], **w),
    "rmse, prediction": lambda r, **w: metrics.rmse(NUMBERS[r], TARGETS[r], **w),
    "gaussian nll": lambda r, **w: metrics.gaussian_nll(MEAN[r], VARIANCE[r], TARGETS[r], **w),
    "crps": lambda r, **w: metrics.crps(NUMBERS[r], TARGETS[r], **w),
    "crps, draws": lambda r, **w: metrics.crps(DRAWS[:, r], TARGETS[r], **w),
    "crps, classes": lambda r, **w: metrics.crps(CLASSES[r], LABELS[r], **w),
    "coverage": lambda r, **w: metrics.interval_coverage((LOWER[r], LOWER[r] + 2), TARGETS[r], **w),
    "width": lambda r, **w: metrics.interval_width((LOWER[r], LOWER[r] + VARIANCE[r]), **w),
    "width, prediction": lambda r, **w: metrics.interval_width(NUMBERS[r], **w),
    "regression": lambda r, **w: metrics.regression_metrics(NUMBERS[r], TARGETS[r], **w),
    "regression, plain": lambda r, **w: metrics.regression_metrics(
        (MEAN[r], VARIANCE[r]), TARGETS[r], **w
    ),
    "multi-label": lambda r, **w: metrics.multilabel_metrics(SEVERAL[r], ON[r], **w),
    "aurc": lambda r, **w: metrics.aurc(SCORE[r], LOSS[r], **w),
    "aurc, classes": lambda r, **w: metrics.aurc(CLASSES[r], LABELS[r], **w),
    "aurc, labels": lambda r, **w: metrics.aurc(SEVERAL[r], ON[r], **w),
    "aurc, numbers": lambda r, **w: metrics.aurc(NUMBERS[r], TARGETS[r], **w),
}


def as_dict(value):
    return value if isinstance(value, dict) else {"value": value}


@pytest.mark.parametrize("name", METRICS)
def test_a_weight_of_two_is_that_example_twice(name):
    metric, every = METRICS[name], np.arange(ROWS)
    weighted = as_dict(metric(every, weights=COUNTS))
    assert weighted == pytest.approx(as_dict(metric(REPEATED)), rel=1e-10)
    # Equal weights of any size give the mean over rows; only the area counts the examples.
    plain = as_dict(metric(every))
    assert weighted != pytest.approx(plain, rel=1e-4)
    assert as_dict(metric(every, weights=np.ones(ROWS))) == pytest.approx(plain, rel=1e-10)
    if not name.startswith("aurc"):
        assert as_dict(metric(every, weights=np.full(ROWS, 0.3))) == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    ("weights", "words"),
    [(np.ones(ROWS - 1), "one for each of the 60 rows"), (-COUNTS, "finite and not negative")],
)
def test_weights_that_are_refused(name, weights, words):
    with pytest.raises(BadInput, match=f"`weights` must be .*{words}"):
        METRICS[name](np.arange(ROWS), weights=weights)


WEIGHTS = RNG.random(ROWS)


def test_accuracy_nll_and_rmse_against_scikit_learn():
    predicted_labels = PROBS.argmax(1)
    ours = metrics.classification_metrics(PROBS, LABELS, weights=WEIGHTS)
    expected = references.accuracy_score(LABELS, predicted_labels, sample_weight=WEIGHTS)
    assert ours["accuracy"] == pytest.approx(expected, rel=1e-10)
    expected = references.log_loss(LABELS, PROBS, sample_weight=WEIGHTS)
    assert ours["nll"] == pytest.approx(expected, rel=1e-10)
    expected = references.root_mean_squared_error(TARGETS[:, 0], MEAN[:, 0], sample_weight=WEIGHTS)
    assert metrics.rmse(MEAN[:, 0], TARGETS[:, 0], weights=WEIGHTS) == pytest.approx(expected)


def test_labels_and_detection_against_scikit_learn():
    on = SEVERAL.probs[..., 1].numpy()
    ours = metrics.multilabel_metrics(on, ON, weights=WEIGHTS)
    columns = [
        references.roc_auc_score(ON[:, k], on[:, k], sample_weight=WEIGHTS) for k in range(4)
    ]
    assert ours["auroc"] == pytest.approx(np.mean(columns))
    assert ours["subset_accuracy"] == pytest.approx(
        references.accuracy_score(ON, on >= 0.5, sample_weight=WEIGHTS)
    )
    found = detection(SCORE[:40], SCORE[40:], weights=(WEIGHTS[:40], WEIGHTS[40:]))
    truth = np.arange(ROWS) >= 40
    assert found.auroc == pytest.approx(
        references.roc_auc_score(truth, SCORE, sample_weight=WEIGHTS)
    )


def test_detection_of_repeated_scores():
    repeated = [np.repeat(SCORE[part], COUNTS[part]) for part in (slice(40), slice(40, None))]
    weighted = detection(SCORE[:40], SCORE[40:], weights=(COUNTS[:40], COUNTS[40:]))
    assert weighted == pytest.approx(detection(*repeated))
    with pytest.raises(BadInput, match="`weights` must be"):
        detection(SCORE[:40], SCORE[40:], weights=(COUNTS[:40], COUNTS[:40]))


def test_entropies_of_groups():
    groups = {"near": CLASSES[:20], "far": CLASSES[20:]}
    weights = {"near": COUNTS[:20], "far": COUNTS[20:]}
    repeated = {"near": CLASSES[REPEATED[REPEATED < 20]], "far": CLASSES[REPEATED[REPEATED >= 20]]}
    weighted = metrics.ood_metrics(groups, weights=weights)
    assert weighted == pytest.approx(metrics.ood_metrics(repeated), rel=1e-10)
    plain = {name: group.probs.numpy() for name, group in groups.items()}
    totals = {name: value for name, value in weighted.items() if ".total." in name}
    assert metrics.ood_metrics(plain, weights=weights) == pytest.approx(totals, rel=1e-10)
    with pytest.raises(BadInput, match="`weights` must be of the groups"):
        metrics.ood_metrics(groups, weights={"near": COUNTS[:20]})


def test_the_curve_of_weights_is_that_of_repeated_inputs():
    ours = metrics.risk_curve(SCORE, LOSS, COUNTS.astype(float))
    repeated = metrics.risk_curve(SCORE[REPEATED], LOSS[REPEATED])
    for one, other in zip(ours, repeated, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_weights_between_integers_lie_between():
    areas = [metrics.aurc(SCORE, LOSS, weights=np.full(ROWS, w)) for w in (1.0, 1.5, 2.0)]
    assert areas == sorted(areas) or areas == sorted(areas, reverse=True)


def test_a_prediction_has_its_own_variance():
    ours = metrics.gaussian_nll(NUMBERS, targets=TARGETS)
    assert ours == metrics.gaussian_nll(NUMBERS.mean, NUMBERS.variance, TARGETS)
    with pytest.raises(BadInput, match="`variance` must be left out for a prediction"):
        metrics.gaussian_nll(NUMBERS, NUMBERS.variance, TARGETS)


def test_plain_arrays_in_place_of_a_prediction():
    whole = metrics.classification_metrics(CLASSES, LABELS)
    plain = metrics.classification_metrics(PROBS.tolist(), LABELS.tolist())
    known = {name: value for name, value in whole.items() if "ic." not in name}
    assert plain == pytest.approx(known, rel=1e-12)  # all but aleatoric and epistemic entropies
    moments = metrics.regression_metrics((NUMBERS.mean, NUMBERS.variance), TARGETS)
    both = metrics.regression_metrics(NUMBERS, TARGETS)
    assert moments == {name: both[name] for name in ("rmse", "nll.moments")}
    with pytest.raises(BadInput, match=r"a prediction, or \(mean, variance\)"):
        metrics.regression_metrics(MEAN, TARGETS)


def test_tensors_that_need_gradients_are_scores_too():
    score = torch.from_numpy(SCORE).requires_grad_()
    assert metrics.aurc(score, LOSS) == metrics.aurc(SCORE, LOSS)
