"""One table of all likelihoods against scipy and torch, and what all of them have in common."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import sbmc
from sbmc.checks import BadInput
from sbmc.likelihoods import (
    Bernoulli,
    Categorical,
    DenseCategorical,
    FromDistribution,
    Gaussian,
    Likelihood,
    MultiLabel,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from sbmc.likelihoods.choice import from_description
from sbmc.likelihoods.noise import LARGEST_LOG, softened

PARTICLES, ROWS = 4, 6


class Case(NamedTuple):
    """A likelihood with outputs, targets, and an independent log density of a row."""

    likelihood: Likelihood
    output_shape: tuple[int, ...]
    targets: Tensor
    reference: Any  # (outputs of one row, target of one row) -> float


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def labels(classes: int, *shape: int) -> Tensor:
    return torch.randint(classes, shape, generator=torch.Generator().manual_seed(3))


def gaussian_network(row, target):
    return stats.norm.logpdf(target, row[:2], np.exp(0.5 * row[2:])).sum()


def gaussian_shared(row, target):
    return stats.norm.logpdf(target, row[:2], math.exp(0.5 * row[2])).sum()


def student_network(row, target):
    return stats.t.logpdf(target, 5.0, row[:2], np.exp(0.5 * row[2:])).sum()


def bernoulli(row, target):
    return stats.bernoulli.logpmf(target, 1 / (1 + np.exp(-row))).sum()


def poisson(row, target):
    return stats.poisson.logpmf(target, np.exp(row)).sum()


def negative_binomial(row, target):
    size = np.exp(-row[2:])
    return stats.nbinom.logpmf(target, size, size / (size + np.exp(row[:2]))).sum()


def negative_binomial_known(row, target):
    return stats.nbinom.logpmf(target, 2.0, 2.0 / (2.0 + np.exp(row))).sum()


def dense_first(row, target):
    logs = row - np.log(np.exp(row).sum(0))
    return sum(logs[target[i, j], i, j] for i in range(2) for j in range(3))


def dense_last_ignoring(row, target):
    logs = row - np.log(np.exp(row).sum(-1, keepdims=True))
    return sum(logs[i, label] for i, label in enumerate(target) if label != -100)


IGNORING = labels(4, ROWS, 3).where(labels(2, ROWS, 3) == 0, -100)
IGNORING[0, 0] = 1

CASES = {
    "categorical": Case(
        Categorical(), (3,), labels(3, ROWS), lambda r, t: (r - np.log(np.exp(r).sum()))[t]
    ),
    "bernoulli": Case(Bernoulli(), (1,), labels(2, ROWS).double(), bernoulli),
    "multi-label": Case(MultiLabel(), (3,), labels(2, ROWS, 3).double(), bernoulli),
    "segmentation": Case(DenseCategorical(), (4, 2, 3), labels(4, ROWS, 2, 3), dense_first),
    "tagging": Case(
        DenseCategorical(dims=1, axis=-1, ignore_index=-100), (3, 4), IGNORING, dense_last_ignoring
    ),
    "gaussian": Case(
        Gaussian(noise_variance=0.3),
        (2,),
        numbers(ROWS, 2),
        lambda r, t: stats.norm.logpdf(t, r, math.sqrt(0.3)).sum(),
    ),
    "gaussian learned": Case(Gaussian(), (4,), numbers(ROWS, 2), gaussian_network),
    "gaussian shared": Case(Gaussian(noise="shared"), (3,), numbers(ROWS, 2), gaussian_shared),
    "gaussian network": Case(Gaussian(noise="network"), (4,), numbers(ROWS, 2), gaussian_network),
    "student-t": Case(
        StudentT(df=5.0, scale=0.7),
        (2,),
        numbers(ROWS, 2),
        lambda r, t: stats.t.logpdf(t, 5.0, r, 0.7).sum(),
    ),
    "student-t learned": Case(StudentT(df=5.0), (4,), numbers(ROWS, 2), student_network),
    "poisson": Case(Poisson(), (2,), labels(7, ROWS, 2).double(), poisson),
    "negative binomial": Case(
        NegativeBinomial(dispersion=0.5), (2,), labels(7, ROWS, 2).double(), negative_binomial_known
    ),
    "negative binomial learned": Case(
        NegativeBinomial(), (4,), labels(7, ROWS, 2).double(), negative_binomial
    ),
    "of a distribution": Case(
        Likelihood.of(lambda o: torch.distributions.Laplace(o[:, :1], o[:, 1:].exp())),
        (2,),
        numbers(ROWS, 1),
        lambda r, t: stats.laplace.logpdf(t, r[:1], np.exp(r[1:])).sum(),
    ),
}


@pytest.fixture(params=list(CASES))
def case(request) -> Case:
    return CASES[request.param]


def outputs_of(case: Case) -> Tensor:
    return numbers(PARTICLES, ROWS, *case.output_shape, seed=2)


def expected(case: Case, outputs: Tensor, targets: Tensor) -> Tensor:
    rows = zip(outputs.numpy(), targets.numpy(), strict=True)
    return torch.tensor([float(case.reference(row, target)) for row, target in rows])


def test_the_log_density_is_that_of_scipy(case):
    outputs = outputs_of(case)
    values = case.likelihood.log_prob(outputs, case.targets)
    assert values.shape == (PARTICLES, ROWS)
    theirs = torch.stack([expected(case, each, case.targets) for each in outputs])
    torch.testing.assert_close(values.float(), theirs.float(), rtol=1e-6, atol=1e-6)


def test_stacked_targets_go_with_their_particles(case):
    outputs = outputs_of(case)
    stacked = torch.stack([case.targets.roll(shift, 0) for shift in range(PARTICLES)])
    values = case.likelihood.log_prob(outputs, stacked, stacked=True)
    each = [case.likelihood.log_prob(o[None], t)[0] for o, t in zip(outputs, stacked, strict=True)]
    torch.testing.assert_close(values, torch.stack(each))


def test_the_predictive_distribution_is_of_the_same_density(case):
    outputs = outputs_of(case)
    distribution = case.likelihood.distribution(outputs)
    assert distribution.batch_shape == (PARTICLES, ROWS)
    assert distribution.event_shape == case.targets.shape[1:]
    if getattr(case.likelihood, "ignore_index", None) is None:
        torch.testing.assert_close(
            distribution.log_prob(case.targets), case.likelihood.log_prob(outputs, case.targets)
        )
    one = case.likelihood.distribution(outputs[0])
    assert one.batch_shape == (ROWS,)
    torch.testing.assert_close(one.log_prob(one.sample()).shape, torch.Size([ROWS]))


def test_predictions_have_the_moments_or_the_probabilities_of_the_distribution(case):
    outputs, likelihood = outputs_of(case), case.likelihood
    distribution = likelihood.distribution(outputs)
    if not likelihood.classification:
        mean, variance = likelihood.moments(outputs)
        torch.testing.assert_close(mean.double(), distribution.mean.double())
        variance = torch.as_tensor(variance, dtype=torch.float64).expand(mean.shape)
        torch.testing.assert_close(variance, distribution.variance.double())
        return
    probs = likelihood.logits(outputs).softmax(-1)
    base = getattr(distribution, "base_dist", distribution)
    theirs = (
        base.probs
        if probs.shape == base.probs.shape
        else torch.stack([1 - base.probs, base.probs], -1)
    )
    torch.testing.assert_close(probs, theirs)


def test_gradients_are_those_of_finite_differences(case):
    outputs = outputs_of(case)[:1, :2].requires_grad_()
    targets = case.targets[:2]
    assert torch.autograd.gradcheck(lambda o: case.likelihood.log_prob(o, targets), (outputs,))


def test_targets_that_were_checked_stay_as_they_are(case):
    checked = case.likelihood.check(case.targets, outputs_of(case)[0, :2])
    again = case.likelihood.check(checked, outputs_of(case)[0, :2])
    torch.testing.assert_close(checked, case.targets)
    torch.testing.assert_close(again, checked)


def test_a_description_makes_the_same_likelihood_again(case):
    likelihood = case.likelihood
    function = getattr(likelihood, "function", print)
    assert from_description(likelihood.describe(), function) == likelihood


EXTREMES = [-1e6, -200.0, -50.0, 50.0, 200.0, 1e6]


@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("likelihood", "columns"),
    [
        (Gaussian(noise="network"), 2),
        (StudentT(noise="network"), 2),
        (NegativeBinomial(noise="network"), 2),
        (Poisson(), 1),
        (Bernoulli(), 1),
    ],
)
def test_values_and_gradients_are_finite_from_any_start(likelihood, columns, value, dtype):
    outputs = torch.full((1, 2, columns), value, dtype=dtype)
    if columns == 2:
        outputs[..., 0] = 1.0
    outputs.requires_grad_()
    targets = torch.tensor([[0.0], [1.0]], dtype=dtype)
    targets = targets.squeeze(1) if isinstance(likelihood, Bernoulli) else targets
    values = likelihood.log_prob(outputs, targets)
    (slope,) = torch.autograd.grad(values.sum(), outputs)
    assert torch.isfinite(values).all()
    assert torch.isfinite(slope).all()


def test_a_log_that_starts_too_far_away_still_has_a_slope():
    far = torch.tensor([-1e4, 1e4], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(softened(far).sum(), far)
    assert bool((slope > 0).all())
    near = torch.linspace(-LARGEST_LOG, LARGEST_LOG, 41, dtype=torch.float64)
    assert torch.equal(softened(near), near)
    assert torch.autograd.gradcheck(softened, (20 + numbers(8).requires_grad_(),))


class TestFitAndPredict:
    """A fit and a prediction of every kind of likelihood, by every part in between."""

    X = numbers(40, 2, seed=5).float()

    def fitted(self, net, targets, **options):
        return sbmc.fit(
            net,
            (self.X, targets),
            s=0.1,
            sampler=sbmc.HMC(steps=10),
            particles=3,
            progress=False,
            **options,
        )

    @pytest.mark.parametrize(
        ("outputs", "targets", "likelihood", "shape"),
        [
            (3, labels(3, 40), None, (40, 3)),
            (1, labels(2, 40), None, (40, 2)),
            (1, labels(2, 40).bool(), None, (40, 2)),
            (3, labels(2, 40, 3), None, (40, 3, 2)),
            (1, numbers(40).float(), None, (40, 1)),
            (2, numbers(40, 2).float(), None, (40, 2)),
            (2, numbers(40, 2).float(), Gaussian(noise="shared"), (40, 2)),
            (2, numbers(40).float(), "gaussian-network", (40, 1)),
            (1, numbers(40).float(), "student-t", (40, 1)),
            (1, labels(5, 40), "poisson", (40, 1)),
            (1, labels(5, 40), "negative-binomial", (40, 1)),
            (
                2,
                numbers(40, 1).float(),
                Likelihood.of(lambda o: torch.distributions.Gumbel(o[:, :1], o[:, 1:].exp())),
                (40, 1),
            ),
        ],
    )
    @pytest.mark.filterwarnings("ignore:The posterior is not ok")
    def test_each(self, outputs, targets, likelihood, shape, tmp_path):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, outputs))
        posterior = self.fitted(net, targets, likelihood=likelihood)
        prediction = posterior.predict(self.X)
        first = prediction.probs if hasattr(prediction, "probs") else prediction.mean
        assert first.shape == shape
        assert float(prediction.aleatoric.min()) > 0
        posterior.save(tmp_path / "posterior")
        function = getattr(posterior.likelihood, "function", None)
        again = sbmc.load(tmp_path / "posterior", net, likelihood=function).predict(self.X)
        second = again.probs if hasattr(again, "probs") else again.mean
        assert torch.equal(first, second)

    @pytest.mark.filterwarnings("ignore:The posterior is not ok")
    def test_positions_of_a_picture(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1))
        pictures, target = numbers(8, 1, 5, 6).float(), labels(3, 8, 5, 6)
        posterior = sbmc.fit(
            net, (pictures, target), s=0.1, sampler=sbmc.HMC(steps=6), particles=2, progress=False
        )
        assert posterior.likelihood == DenseCategorical(dims=2, axis=1)
        prediction = posterior.predict(pictures)
        assert prediction.probs.shape == (8, 5, 6, 3)
        assert prediction.labels.shape == prediction.epistemic.shape == (8, 5, 6)

    def test_what_was_inferred_is_said(self, caplog):
        net = nn.Linear(2, 1)
        with caplog.at_level("INFO", logger="sbmc"):
            posterior = sbmc.fit(net, (self.X, numbers(40).float()), s=0)
        words = "since targets are numbers in the shape of the outputs"
        assert words in caplog.text
        assert words in posterior.settings["likelihood_reason"]


@pytest.mark.parametrize(
    ("targets", "outputs", "words"),
    [
        (
            torch.zeros(4),
            (2, 2),
            'sbmc.Gaussian(noise="network") for a mean and a log variance, or',
        ),
        (torch.zeros(4), (2, 2), '"categorical" for two classes, with integer targets'),
        (torch.tensor([0, 1, 2, 3]), (2, 1), '"poisson" or "negative-binomial" for counts'),
        (torch.zeros(4, 3).long(), (2, 3, 3), "axis=1) has classes before the positions, axis=-1"),
        (torch.zeros(4, 2, 3), (2, 5, 2, 3), "They fit no likelihood by themselves"),
        (torch.zeros(4, 3), (2, 4), '"categorical" takes integer targets of shape (examples,)'),
    ],
)
def test_what_cannot_be_inferred_is_refused_with_its_readings(targets, outputs, words):
    with pytest.raises(BadInput) as error:
        sbmc.likelihoods.infer_likelihood(targets, torch.zeros(outputs))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("likelihood", "targets", "outputs", "words"),
    [
        (Bernoulli(), torch.tensor([0.0, 0.5]), (2, 1), "labels 0 or 1, but got 0.5"),
        (Bernoulli(), torch.tensor([0, 1]), (2, 2), "outputs (examples, 1), one logit"),
        (MultiLabel(), torch.ones(2, 3), (2, 2), "of shape (examples, 2) like the model's"),
        (Poisson(), torch.tensor([0.5, 1.0]), (2, 1), "counts 0, 1, 2, ..., but got 0.5"),
        (Gaussian(noise="network"), torch.zeros(2), (2, 3), "an even number of outputs"),
        (DenseCategorical(), torch.zeros(2, 3, 3).long(), (2, 4), "and 2 axes of positions"),
        (DenseCategorical(), torch.full((2, 1, 1), 9), (2, 4, 1, 1), "below the model's 4 outpu"),
        (
            DenseCategorical(ignore_index=9),
            torch.full((2, 1, 1), 9),
            (2, 4, 1, 1),
            "labels that count, but got ignored ones alone",
        ),
        (FromDistribution(lambda o: o), torch.zeros(2), (2, 1), "returns a torch Distribution"),
        (
            FromDistribution(lambda o: torch.distributions.Categorical(logits=o)),
            torch.zeros(2),
            (2, 3),
            '"classes" or "labels" for a Categorical',
        ),
        (
            FromDistribution(lambda o: torch.distributions.Normal(o.mean(), 1.0)),
            torch.zeros(2),
            (2, 3),
            "has the rows as the first axis of its batch shape",
        ),
    ],
)
def test_targets_and_outputs_that_do_not_fit_are_refused(likelihood, targets, outputs, words):
    with pytest.raises(BadInput) as error:
        likelihood.check(targets, torch.zeros(outputs))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Gaussian(noise="lerned"), "`noise` must be one of learned, shared, network"),
        (lambda: Gaussian(noise_variance=1.0, noise="learned"), "`noise` must be left out where"),
        (lambda: StudentT(df=2.0), "`df` must be above 2"),
        (lambda: DenseCategorical(axis=2), "`axis` must be 1 or -1"),
        (lambda: Likelihood.of(lambda o: o, kind="numbers"), "`kind` must be one of classes"),
    ],
)
def test_settings_that_break_their_rules(make, words):
    with pytest.raises(BadInput) as error:
        make()
    assert words in str(error.value)


def exact_information(likelihood, outputs, targets, measure):
    """E[∇ log p ∇ log p ᵀ] of one row by a sum over targets, with the weights of a grid."""
    many = outputs.expand(1, len(targets), -1).clone().requires_grad_()
    logs = likelihood.log_prob(many, targets)
    (scores,) = torch.autograd.grad(logs.sum(), many)
    chances = logs[0].exp().detach() * measure
    assert abs(float(chances.sum()) - 1) < 1e-4
    return torch.einsum("n,ni,nj->ij", chances, scores[0], scores[0])


NUMBERS_GRID = torch.linspace(-400, 400, 800_001, dtype=torch.float64).unsqueeze(1)


@pytest.mark.parametrize(
    ("likelihood", "outputs", "targets", "measure"),
    [
        (Categorical(), [0.3, -1.0, 0.5], torch.arange(3), 1.0),
        (Bernoulli(), [0.7], torch.tensor([0.0, 1.0], dtype=torch.float64), 1.0),
        (Poisson(), [0.4], torch.arange(60, dtype=torch.float64).unsqueeze(1), 1.0),
        (Gaussian(noise_variance=0.6), [0.2], NUMBERS_GRID, 0.001),
        (Gaussian(noise="network"), [0.2, -0.7], NUMBERS_GRID, 0.001),
        (StudentT(df=5.0, noise="network"), [0.2, -0.7], NUMBERS_GRID, 0.001),
    ],
)
def test_the_information_is_the_expectation_over_targets(likelihood, outputs, targets, measure):
    row = torch.tensor([outputs], dtype=torch.float64, requires_grad=True)
    values, weights = likelihood.fisher(row)
    total = torch.zeros(len(outputs), len(outputs), dtype=torch.float64)
    for value, weight in zip(values[0], weights[0], strict=True):
        (slope,) = torch.autograd.grad(value, row, retain_graph=True)
        total += weight * slope[0, :, None] * slope[0]
    expected = exact_information(likelihood, row.detach()[0], targets, measure)
    torch.testing.assert_close(total, expected, rtol=1e-3, atol=1e-5)


def test_noise_that_outputs_share_has_the_information_of_all():
    row = torch.zeros(1, 4, dtype=torch.float64)
    assert Gaussian(noise="shared").fisher(row).weights.tolist() == [[1, 1, 1, 1.5]]
