"""The entropy split, the regression mixture, and batches that add up to the whole."""

import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import entropy as scipy_entropy

from sbmc.checks import BadInput
from sbmc.prediction.combining import classification_prediction, regression_prediction
from sbmc.prediction.prediction import FEATURES, Prediction, concatenate

INF, NAN = math.inf, math.nan


def random_log_probs(particles=7, examples=23, classes=5, seed=0, dtype=torch.float64):
    rng = torch.Generator().manual_seed(seed)
    outputs = 3 * torch.randn(particles, examples, classes, generator=rng, dtype=dtype)
    return outputs.log_softmax(dim=-1)


def random_weights(particles=7, seed=1):
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(particles, generator=rng, dtype=torch.float64).softmax(dim=0)


def equal_weights(particles):
    return torch.full((particles,), 1 / particles, dtype=torch.float64)


# Exact cases.


def test_uniform_particles_have_aleatoric_entropy_only():
    log_probs = torch.full((3, 2, 8), 1 / 8, dtype=torch.float64).log()
    prediction = classification_prediction(log_probs, equal_weights(3))
    log8 = torch.full((2,), math.log(8), dtype=torch.float64)
    torch.testing.assert_close(prediction.total, log8)
    torch.testing.assert_close(prediction.aleatoric, log8)
    assert prediction.epistemic.max() < 1e-15


def test_certain_particles_that_agree_have_no_entropy():
    log_probs = torch.tensor([[[0.0, -INF, -INF]]]).expand(10, 4, 3)
    prediction = classification_prediction(log_probs, equal_weights(10))
    assert prediction.total.tolist() == [0.0] * 4
    assert prediction.aleatoric.tolist() == [0.0] * 4
    assert prediction.epistemic.tolist() == [0.0] * 4
    assert prediction.labels.tolist() == [0] * 4


def test_certain_particles_that_disagree_are_epistemic_only():
    log_probs = torch.tensor([[[0.0, -INF]], [[-INF, 0.0]]])
    prediction = classification_prediction(log_probs, equal_weights(2))
    assert prediction.epistemic.item() == pytest.approx(math.log(2), abs=1e-15)
    assert prediction.aleatoric.item() == 0.0
    assert prediction.probs.tolist() == [[0.5, 0.5]]


def test_weights_count():
    log_probs = torch.tensor([[[0.0, -INF]], [[-INF, 0.0]]])
    prediction = classification_prediction(log_probs, torch.tensor([0.25, 0.75]))
    assert prediction.probs.tolist() == [[0.25, 0.75]]
    expected = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    assert prediction.epistemic.item() == pytest.approx(expected, abs=1e-15)
    assert prediction.labels.item() == 1


# Formula, against an independent library.


def test_split_against_scipy():
    log_probs, weights = random_log_probs(), random_weights()
    prediction = classification_prediction(log_probs, weights)
    each = log_probs.exp().numpy()
    mixture = (weights.numpy()[:, None, None] * each).sum(axis=0)
    total = scipy_entropy(mixture, axis=-1)
    aleatoric = weights.numpy() @ scipy_entropy(each, axis=-1)
    torch.testing.assert_close(prediction.probs, torch.from_numpy(mixture))
    torch.testing.assert_close(prediction.total, torch.from_numpy(total))
    torch.testing.assert_close(prediction.aleatoric, torch.from_numpy(aleatoric))
    torch.testing.assert_close(prediction.epistemic, torch.from_numpy(total - aleatoric))
    # The case must not be a trivial one.
    assert prediction.epistemic.min() > 0.1


def test_entropies_are_never_negative():
    # Identical particles with weights that are not exact in binary: rounding has either sign.
    weights = torch.rand(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights /= weights.sum()
    log_probs = random_log_probs(1, 5000, 10).expand(30, -1, -1)
    prediction = classification_prediction(log_probs, weights)
    unclamped = prediction.total - prediction.aleatoric
    assert (unclamped < 0).any(), "the case does not provoke negative rounding"
    assert (prediction.epistemic >= 0).all()
    assert prediction.epistemic.max() < 1e-13


def test_float32_weights_and_outputs_are_combined_in_float64():
    log_probs = torch.zeros(10, 1, 1)  # one class: the probability is 1
    prediction = classification_prediction(log_probs, torch.full((10,), 0.1))
    assert prediction.probs.dtype == prediction.total.dtype == torch.float64
    # Ten times float32's 0.1 is 1.0000000149, which would show in the eighth place.
    assert prediction.probs.item() == pytest.approx(1.0, abs=1e-15)
    assert prediction.total.item() >= 0


# Particles that failed.


def test_zero_weight_hides_nan():
    log_probs, weights = random_log_probs(), random_weights()
    broken = torch.cat([log_probs[:3], torch.full((1, 23, 5), NAN), log_probs[3:]])
    padded = torch.cat([weights[:3], torch.zeros(1), weights[3:]])
    whole = classification_prediction(log_probs, weights)
    rescued = classification_prediction(broken, padded)
    for name in ("probs", "total", "aleatoric", "epistemic"):
        torch.testing.assert_close(getattr(rescued, name), getattr(whole, name), rtol=0, atol=0)


def test_nan_with_weight_is_refused_by_particle():
    log_probs, weights = random_log_probs(), random_weights()
    weights[0] = 0.0
    weights /= weights.sum()
    log_probs[2, 4, 1] = NAN
    log_probs[5, 0, 0] = NAN
    with pytest.raises(BadInput) as refused:
        classification_prediction(log_probs, weights)
    assert str(refused.value) == (
        "`log_probs` must be free of NaN for every particle of positive weight, "
        "but got NaN for particles [2, 5]."
    )


# Bad input.


def test_raw_outputs_are_refused():
    with pytest.raises(BadInput, match=r"`log_probs` must be normalised .* sum 2\."):
        classification_prediction(torch.zeros(3, 4, 2), equal_weights(3))


def test_infinite_outputs_are_refused():
    with pytest.raises(BadInput, match="`log_probs` must be normalised"):
        classification_prediction(torch.tensor([[[INF, -INF]]]), equal_weights(1))


def test_bfloat16_log_probabilities_are_close_enough():
    log_probs = random_log_probs(dtype=torch.float32).bfloat16()
    assert len(classification_prediction(log_probs, random_weights())) == 23


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.4], "`weights` must be of sum 1, but got 0.9."),
        ([1.5, -0.5], "`weights` must be non-negative, but got [1.5, -0.5]."),
        ([NAN, 1.0], "`weights` must be non-negative, but got [nan, 1.0]."),
        ([1.0], "`weights` must be of shape (particles,), here (2,), but got (1,)."),
        ([[0.5], [0.5]], "`weights` must be of shape (particles,), here (2,), but got (2, 1)."),
    ],
)
def test_bad_weights_are_refused(weights, message):
    weights = torch.tensor(weights, dtype=torch.float64)
    with pytest.raises(BadInput) as refused:
        classification_prediction(random_log_probs(particles=2), weights)
    assert str(refused.value) == message


def test_bad_shape_is_refused():
    message = r"`log_probs` must be of shape \(particles, examples, classes\), but got \(4, 2\)\."
    with pytest.raises(BadInput, match=message):
        classification_prediction(torch.zeros(4, 2), equal_weights(4))


# Batches.


@pytest.mark.parametrize("size", [1, 5, 23, 100])
def test_batches_add_up_to_the_whole(size):
    log_probs, weights = random_log_probs(), random_weights()
    whole = classification_prediction(log_probs, weights)
    joined = concatenate(
        classification_prediction(part, weights) for part in log_probs.split(size, dim=1)
    )
    assert isinstance(joined, Prediction)
    for name in ("probs", "total", "aleatoric", "epistemic"):
        torch.testing.assert_close(getattr(joined, name), getattr(whole, name), rtol=0, atol=1e-14)


def test_concatenate_keeps_the_order():
    first = classification_prediction(random_log_probs(seed=3), random_weights())
    second = classification_prediction(random_log_probs(examples=2, seed=4), random_weights())
    joined = concatenate([first, second])
    assert torch.equal(joined.probs[:23], first.probs)
    assert torch.equal(joined.total[23:], second.total)


def test_concatenate_refuses_nothing_and_mixtures():
    with pytest.raises(BadInput, match="`predictions` must be at least one prediction"):
        concatenate([])
    one = classification_prediction(random_log_probs(), random_weights())
    other = regression_prediction(torch.zeros(1, 3), equal_weights(1), 1.0)
    with pytest.raises(BadInput, match="`predictions` must be all of one kind"):
        concatenate([one, other])


def test_no_examples_is_a_prediction_too():
    empty = classification_prediction(torch.zeros(2, 0, 3), equal_weights(2))
    assert len(empty) == 0
    assert empty.probs.shape == (0, 3)


def test_repr_and_len_are_small():
    prediction = classification_prediction(random_log_probs(), random_weights())
    assert len(prediction) == 23
    assert repr(prediction) == "Prediction(examples=23, classes=5)"
    regression = regression_prediction(torch.zeros(2, 4, 3), equal_weights(2), 1.0)
    assert repr(regression) == "RegressionPrediction(examples=4, outputs=3)"
    assert repr(regression_prediction(torch.zeros(2, 4), equal_weights(2), 1.0)) == (
        "RegressionPrediction(examples=4, outputs=1)"
    )


# The seven features.


def features_by_hand(log_probs, weights, of_mixture=False):
    """Particle by particle. The flag plants a bug: margins at the y* of the mixture."""
    each, weights = log_probs.exp().tolist(), weights.tolist()
    rows = []
    for example in zip(*each, strict=True):
        mixture = [
            sum(w * p for w, p in zip(weights, column, strict=True))
            for column in zip(*example, strict=True)
        ]
        top, margins = [], []
        for probs in example:
            best = mixture.index(max(mixture)) if of_mixture else probs.index(max(probs))
            top.append(probs[best])
            margins.append(probs[best] - max(p for y, p in enumerate(probs) if y != best))
        mean = [
            sum(w * v for w, v in zip(weights, values, strict=True)) for values in (top, margins)
        ]
        variance = [
            sum(w * (v - m) ** 2 for w, v in zip(weights, values, strict=True))
            for values, m in zip((top, margins), mean, strict=True)
        ]
        total = -sum(p * math.log(p) for p in mixture)
        aleatoric = sum(
            w * -sum(p * math.log(p) for p in probs)
            for w, probs in zip(weights, example, strict=True)
        )
        rows.append([max(mixture), total, *mean, total - aleatoric, *variance])
    return torch.tensor(rows, dtype=torch.float64)


def test_features_are_those_of_the_paper_in_its_order():
    log_probs, weights = random_log_probs(), random_weights()
    features = classification_prediction(log_probs, weights).features()
    assert features.dtype == torch.float64
    assert features.shape == (23, len(FEATURES)) == (23, 7)
    expected = features_by_hand(log_probs, weights)
    torch.testing.assert_close(features, expected, rtol=0, atol=1e-12)
    assert FEATURES[4:] == ("epistemic", "variance_max_probability", "variance_margin")
    # A planted bug is seen: a margin at the most probable class of the mixture, not the particle's.
    planted = features_by_hand(log_probs, weights, of_mixture=True)
    assert (features - planted).abs().max() > 0.1


def test_particles_that_disagree_are_each_sure_of_their_own_class():
    log_probs = torch.tensor([[[0.0, -INF]], [[-INF, 0.0]]])
    features = classification_prediction(log_probs, equal_weights(2)).features()[0].tolist()
    expected = [0.5, math.log(2), 1.0, 1.0, math.log(2), 0.0, 0.0]
    assert features == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_point_estimate_has_three_features_of_exactly_zero(dtype):
    one = random_log_probs(1, 500, 8, dtype=dtype)
    alone = classification_prediction(one, torch.tensor([1.0])).features()
    assert (alone[:, 4:] == 0.0).all()
    assert torch.equal(alone[:, 0], alone[:, 2])
    # The same with a second particle of no weight, which may be broken.
    both = torch.cat([one, torch.full_like(one, NAN)])
    assert torch.equal(classification_prediction(both, torch.tensor([1.0, 0.0])).features(), alone)


def test_one_class_has_all_the_margin():
    features = classification_prediction(torch.zeros(3, 2, 1), equal_weights(3)).features()
    torch.testing.assert_close(features[:, 3], torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("size", [1, 5, 100])
def test_features_of_batches_add_up_to_the_whole(size):
    log_probs, weights = random_log_probs(), random_weights()
    whole = classification_prediction(log_probs, weights).features()
    joined = concatenate(
        classification_prediction(part, weights) for part in log_probs.split(size, dim=1)
    )
    torch.testing.assert_close(joined.features(), whole, rtol=0, atol=1e-14)


def test_a_prediction_without_particles_has_no_features():
    probs, entropy = torch.full((2, 2), 0.5), torch.full((2,), math.log(2))
    bare = Prediction(probs, entropy, entropy, torch.zeros(2))
    message = "made from particles, .* but got one without mean_max_probability, mean_margin, "
    with pytest.raises(BadInput, match=message):
        bare.features()
    made = classification_prediction(probs.double().log().unsqueeze(0), equal_weights(1))
    with pytest.raises(BadInput, match="made from particles"):
        concatenate([bare, made]).features()


def test_predictions_of_two_posteriors_are_not_joined():
    parts = [classification_prediction(random_log_probs(), random_weights()) for _ in range(2)]
    named = [replace(part, origin=name) for part, name in zip(parts, "ab", strict=True)]
    assert concatenate([named[0], named[0]]).origin == "a"
    with pytest.raises(BadInput, match="`predictions` must be all of one posterior"):
        concatenate(named)


# Regression.


def test_regression_against_samples_of_the_mixture():
    means = torch.tensor([[0.0, 10.0], [3.0, 10.0]])
    weights = torch.tensor([0.25, 0.75], dtype=torch.float64)
    noise = torch.tensor([[0.4, 1.0], [0.8, 1.0]])
    prediction = regression_prediction(means, weights, noise)
    rng = torch.Generator().manual_seed(0)
    draws = 200_000
    chosen = torch.multinomial(weights, draws, replacement=True, generator=rng)
    samples = means[chosen] + noise[chosen].sqrt() * torch.randn(draws, 2, generator=rng)
    # Five standard errors of each mean and variance: false alarms below 1 in 100,000.
    spread = samples.var(dim=0)
    fourth = (samples - samples.mean(dim=0)).pow(4).mean(dim=0)
    error_of_mean = (spread / draws).sqrt()
    error_of_variance = ((fourth - spread.square()) / draws).sqrt()
    assert ((samples.mean(dim=0) - prediction.mean).abs() < 5 * error_of_mean).all()
    assert ((spread - prediction.total).abs() < 5 * error_of_variance).all()
    expected = torch.tensor([0.25 * 0.4 + 0.75 * 0.8, 1.0], dtype=torch.float64)
    torch.testing.assert_close(prediction.aleatoric, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(
        prediction.epistemic, torch.tensor([0.25 * 0.75 * 9.0, 0.0], dtype=torch.float64)
    )


def test_regression_variance_survives_large_means():
    means = 1e8 + torch.tensor([[-1e-3], [1e-3]], dtype=torch.float64)
    prediction = regression_prediction(means, equal_weights(2), 0.0)
    assert prediction.epistemic.item() == pytest.approx(1e-6, rel=1e-4)


def test_regression_ignores_particles_without_weight():
    means = torch.tensor([[1.0], [NAN]])
    noise = torch.tensor([[0.5], [-3.0]])
    prediction = regression_prediction(means, torch.tensor([1.0, 0.0]), noise)
    assert (prediction.mean.item(), prediction.total.item()) == (1.0, 0.5)


def test_regression_refuses_bad_input():
    means = torch.zeros(2, 3)
    with pytest.raises(BadInput, match=r"`noise_variance` must be non-negative, but got -1\.0\."):
        regression_prediction(means, equal_weights(2), -1.0)
    with pytest.raises(BadInput, match="`noise_variance` must be a number or of the shape"):
        regression_prediction(means, equal_weights(2), torch.ones(3))
    with pytest.raises(BadInput, match=r"`means` must be .* but got NaN for particles \[1\]"):
        regression_prediction(torch.tensor([[0.0], [NAN]]), equal_weights(2), 1.0)
    with pytest.raises(BadInput, match=r"`means` must be of shape .* but got \(2,\)"):
        regression_prediction(torch.zeros(2), equal_weights(2), 1.0)
