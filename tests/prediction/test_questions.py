"""What can be asked of predictions: exact answers for particles that are known."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from sbmc.checks import BadInput
from sbmc.likelihoods import Categorical, Gaussian
from sbmc.prediction.combining import classification_prediction
from sbmc.prediction.mixture import mixed_prediction
from sbmc.prediction.prediction import Prediction, concatenate
from sbmc.prediction.samples import KeptOutputs, Samples, row_index

RNG = torch.Generator().manual_seed(0)
WEIGHTS = torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64)
MEANS = torch.randn(4, 6, 2, generator=RNG)
LOGITS = 2 * torch.randn(4, 6, 3, generator=RNG)
TARGETS = torch.randn(6, 2, generator=RNG)
LABELS = torch.tensor([0, 2, 1, 1, 0, 2])
NOISE = 0.25


def prediction_of(outputs, likelihood, weights=WEIGHTS):
    found = mixed_prediction(likelihood, [(outputs, weights)])
    particles = Samples(KeptOutputs(outputs), weights, likelihood)
    return replace(found, particles=particles)


@pytest.fixture
def numbers():
    return prediction_of(MEANS, Gaussian(noise_variance=NOISE))


@pytest.fixture
def classes():
    return prediction_of(LOGITS, Categorical())


# Names mean the same for classes and numbers.


def test_mean_and_variance_are_those_of_the_targets(numbers, classes):
    draws = numbers.sample(40_000)
    labels = torch.nn.functional.one_hot(classes.sample(40_000), 3).double()
    for prediction, drawn in ((numbers, draws), (classes, labels)):
        assert prediction.mean.shape == prediction.variance.shape == drawn.shape[1:]
        spread = prediction.variance.sqrt()
        # Five standard errors; the fourth moments are below three squared variances here.
        assert ((drawn.mean(0) - prediction.mean).abs() < 5 * spread / 200).all()
        error = 5 * prediction.variance * math.sqrt(3) / 200 + 1e-3
        assert ((drawn.var(0) - prediction.variance).abs() < error).all()


@pytest.mark.parametrize("name", ["numbers", "classes"])
def test_the_same_questions_have_answers_of_the_same_shape(name, request):
    prediction = request.getfixturevalue(name)
    targets = TARGETS if name == "numbers" else LABELS
    assert len(prediction) == 6
    assert prediction.log_prob(targets).shape == (6,)
    assert prediction.crps(targets).shape[0] == 6
    assert prediction.interval(0.5, kind="credible").lower.shape == prediction.mean.shape
    assert prediction.sample(3).shape[:2] == (3, 6)
    total, aleatoric, epistemic = prediction.split("entropy")
    torch.testing.assert_close(total, aleatoric + epistemic)
    total, aleatoric, epistemic = prediction.split("variance")
    torch.testing.assert_close(total, aleatoric + epistemic)


# Numbers.


def test_quantiles_and_intervals_invert_the_distribution(numbers):
    lower, upper = numbers.interval(0.8)
    torch.testing.assert_close(numbers.cdf(lower), torch.full((6, 2), 0.1).double())
    torch.testing.assert_close(numbers.cdf(upper), torch.full((6, 2), 0.9).double())
    several = numbers.quantile([0.1, 0.9])
    torch.testing.assert_close(several, torch.stack([lower, upper]))
    assert torch.equal(numbers.quantile(0.1), several[0])


def test_credible_intervals_have_no_noise_in_them(numbers):
    inside, whole = numbers.interval(0.95, kind="credible"), numbers.interval(0.95)
    assert (inside.width < whole.width).all()
    alone = prediction_of(MEANS[:1], Gaussian(noise_variance=NOISE), torch.ones(1))
    assert (alone.interval(0.9, kind="credible").width == 0).all()


def test_interval_covers(numbers):
    interval = numbers.interval(0.5)
    assert interval.covers(interval.lower).all()
    assert not interval.covers(interval.upper + 1e-9).any()
    one = prediction_of(MEANS[..., :1], Gaussian(noise_variance=NOISE))
    assert one.interval(0.999).covers(one.mean.squeeze(-1)).all()


def test_log_density_of_all_outputs_together(numbers):
    densities = stats.norm.pdf(TARGETS.numpy(), MEANS.numpy(), math.sqrt(NOISE)).prod(-1)
    expected = np.log(WEIGHTS.numpy() @ densities)
    np.testing.assert_allclose(numbers.log_prob(TARGETS), expected, rtol=1e-6)
    # A planted bug: the mean of log densities, which Jensen puts below.
    planted = WEIGHTS.numpy() @ np.log(densities)
    assert (numbers.log_prob(TARGETS).numpy() > planted + 1e-3).all()


def test_draws_of_one_particle_hold_for_all_examples():
    far_apart = torch.tensor([-100.0, 100.0]).view(2, 1, 1).expand(2, 50, 1)
    half = torch.tensor([0.5, 0.5])
    prediction = prediction_of(far_apart, Gaussian(noise_variance=1.0), half)
    signs = prediction.sample(20).sign().squeeze(-1)
    assert (signs == signs[:, :1]).all()
    assert 0 < (signs[:, 0] > 0).sum() < 20
    assert torch.equal(prediction.sample(20), prediction.sample(20))
    assert not torch.equal(prediction.sample(20), prediction.sample(20, seed=1))


def test_zero_one_loss_is_refused_for_numbers(numbers):
    with pytest.raises(BadInput, match="use 'variance' or 'entropy'"):
        numbers.split("zero-one")
    with pytest.raises(BadInput, match=r"`by` must be one of entropy.*Did you mean 'variance'"):
        numbers.split("varianse")


# Classes.


def test_splits_of_classes_against_their_definitions(classes):
    each = LOGITS.double().softmax(-1)
    mixed = torch.einsum("i,ink->nk", WEIGHTS, each)
    losses = {
        "entropy": lambda p: -(p * p.log()).sum(-1),
        "variance": lambda p: 1 - p.square().sum(-1),
        "zero-one": lambda p: 1 - p.max(-1).values,
    }
    for by, loss in losses.items():
        total, aleatoric, epistemic = classes.split(by)
        torch.testing.assert_close(total, loss(mixed), rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(aleatoric, WEIGHTS @ loss(each), rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(epistemic, total - aleatoric)
        assert (epistemic >= 0).all()
    # The variance split is that of labels as unit vectors, by the law of total variance.
    between = torch.einsum("i,ink->n", WEIGHTS, (each - mixed).square())
    torch.testing.assert_close(classes.split("variance").epistemic, between, rtol=1e-6, atol=1e-9)


def test_all_at_once_and_in_parts_have_the_same_splits(classes):
    whole = classification_prediction(LOGITS.double().log_softmax(-1), WEIGHTS)
    for by in ("entropy", "variance", "zero-one"):
        for ours, theirs in zip(classes.split(by), whole.split(by), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


def test_weights_need_not_sum_to_one(classes):
    tripled = mixed_prediction(Categorical(), [(LOGITS, 3 * WEIGHTS)])
    for by in ("entropy", "variance", "zero-one"):
        for ours, theirs in zip(tripled.split(by), classes.split(by), strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("by", ["entropy", "variance", "zero-one"])
def test_a_point_estimate_has_no_epistemic_part(by):
    alone = prediction_of(LOGITS[:1], Categorical(), torch.ones(1))
    assert (alone.split(by).epistemic == 0).all()


def test_log_probability_and_score_of_labels(classes):
    chosen = classes.probs[range(6), LABELS]
    torch.testing.assert_close(classes.log_prob(LABELS), chosen.log())
    truth = torch.nn.functional.one_hot(LABELS, 3)
    brier = (classes.probs - truth).square().sum(-1)
    torch.testing.assert_close(classes.crps(LABELS), brier / 2)
    assert not torch.allclose(classes.crps(LABELS, ordered=True), brier / 2)


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2, 0, 1, 3], [0.5] * 6, [-1] * 6])
def test_labels_that_do_not_fit_are_refused(classes, labels):
    with pytest.raises(BadInput, match="`targets` must be"):
        classes.log_prob(labels)


def test_classes_have_no_order(classes):
    with pytest.raises(BadInput, match="`kind` must be 'credible' for classes"):
        classes.interval(0.9)
    lower, upper = classes.interval(0.9, kind="credible")
    each = LOGITS.double().softmax(-1)
    torch.testing.assert_close(lower, each.min(0).values)
    torch.testing.assert_close(upper, each.max(0).values)


def test_probabilities_alone_answer_what_they_can(classes):
    zero = torch.zeros(6)
    bare = Prediction(classes.probs, zero, zero, zero)
    assert torch.equal(bare.log_prob(LABELS), classes.log_prob(LABELS))
    for question in (lambda: bare.sample(1), lambda: bare.interval(kind="credible")):
        with pytest.raises(BadInput, match="one that knows its particles"):
            question()
    with pytest.raises(BadInput, match="made from particles to be split"):
        bare.split("variance")


# Indexing and joining.


@pytest.mark.parametrize(
    "index", [2, -1, slice(1, 5, 2), [3, 0, 3], torch.tensor([4, 1]), np.arange(6) % 2 == 0]
)
def test_some_examples_are_asked_as_they_are_among_all(numbers, classes, index):
    rows = torch.arange(6)[index if not isinstance(index, int) else [index]]
    part = numbers[index]
    assert len(part) == len(rows)
    assert torch.equal(part.mean, numbers.mean[rows])
    assert torch.equal(part.epistemic, numbers.epistemic[rows])
    torch.testing.assert_close(part.quantile(0.3), numbers.quantile(0.3)[rows])
    torch.testing.assert_close(part.log_prob(TARGETS[rows]), numbers.log_prob(TARGETS)[rows])
    assert torch.equal(classes[index].labels, classes.labels[rows])
    assert torch.equal(classes[index].features(), classes.features()[rows])
    # Parts of parts.
    torch.testing.assert_close(part[:1].crps(TARGETS[rows[:1]]), numbers.crps(TARGETS)[rows[:1]])


def test_going_through_a_prediction_ends(numbers):
    assert [len(each) for each in numbers] == [1] * 6
    with pytest.raises(IndexError, match="row 6 of a prediction of 6 examples"):
        numbers[6]
    with pytest.raises(BadInput, match="`index` must be a row, a slice"):
        row_index(torch.zeros(2, 2, dtype=torch.long), 6)


def test_joined_predictions_have_particles_if_they_are_kept(numbers):
    joined = concatenate([numbers[:2], numbers[2:]])
    torch.testing.assert_close(joined.quantile(0.7), numbers.quantile(0.7))


def test_rows_in_parts_give_the_same_answers(numbers, monkeypatch):
    whole = numbers.quantile(0.2), numbers.crps(TARGETS), numbers.split("entropy").total
    monkeypatch.setattr("sbmc.prediction.samples.VALUES_AT_ONCE", 2 * 4 * 2)
    assert [len(part[0]) for part in numbers.particles] == [2, 2, 2]
    parts = numbers.quantile(0.2), numbers.crps(TARGETS), numbers.split("entropy").total
    for ours, theirs in zip(parts, whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


# Bad input.


@pytest.mark.parametrize("q", [0, 1, 1.5, "0.5"])
def test_levels_that_are_none_are_refused(numbers, q):
    with pytest.raises(BadInput, match=r"`(q|level)` must be between 0 and 1"):
        numbers.quantile(q) if q != 1.5 else numbers.interval(q)


def test_other_words_and_shapes_are_refused(numbers):
    with pytest.raises(BadInput, match="`kind` must be one of prediction, credible"):
        numbers.interval(0.9, kind="bayes")
    with pytest.raises(BadInput, match=r"`targets` must be of shape \(6, 2\), but got \(6,\)"):
        numbers.crps(TARGETS[:, 0])
    with pytest.raises(BadInput, match="`n` must be a positive integer"):
        numbers.sample(0)


# Tables and figures.


def test_tables(numbers, classes):
    table = numbers.to_pandas(level=0.5)
    assert list(table.columns[:2]) == ["mean_0", "mean_1"]
    np.testing.assert_array_equal(table["upper_1"], numbers.interval(0.5).upper[:, 1])
    one = prediction_of(MEANS[..., :1], Gaussian(noise_variance=NOISE)).to_pandas()
    assert list(one.columns) == ["mean", "total", "aleatoric", "epistemic", "lower", "upper"]
    of_classes = classes.to_pandas()
    assert list(of_classes.columns) == [
        *("p_0", "p_1", "p_2"),
        *("label", "total", "aleatoric", "epistemic"),
    ]
    assert of_classes["label"].tolist() == classes.labels.tolist()
    assert of_classes.index.name == "example"


def test_a_band_over_one_input():
    figure = pytest.importorskip("matplotlib.figure")
    one = prediction_of(MEANS[..., :1], Gaussian(noise_variance=NOISE))
    x = torch.tensor([3.0, 1.0, 2.0, 6.0, 5.0, 4.0])
    axes = one.plot(x, TARGETS[:, 0], level=0.5, ax=figure.Figure().subplots())
    line, dots = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), x.sort().values)
    np.testing.assert_array_equal(line.get_ydata(), one.mean[x.argsort(), 0])
    np.testing.assert_array_equal(dots.get_ydata(), TARGETS[:, 0])
    ends = axes.collections[0].get_paths()[0].get_extents()
    assert ends.y0 == pytest.approx(one.interval(0.5).lower.min().item())
    assert ends.y1 == pytest.approx(one.interval(0.5).upper.max().item())
    with pytest.raises(BadInput, match=r"`x` must be the values of one input, of shape \(6,\)"):
        one.plot(ax=axes)


def test_bars_of_classes(classes):
    figure = pytest.importorskip("matplotlib.figure")
    axes = classes[:2].plot(targets=LABELS[:2], ax=figure.Figure().subplots())
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    np.testing.assert_allclose(np.transpose(heights), classes.probs[:2])
    marked = axes.lines[0].get_xdata()
    assert marked.tolist() == pytest.approx([0 - 0.8 / 3, 1 + 0.8 / 3])
    many = prediction_of(LOGITS.repeat(1, 5, 1), Categorical())
    with pytest.raises(BadInput, match="choose some by indexing"):
        many.plot(ax=axes)
