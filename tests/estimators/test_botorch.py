"""BoTorch sees the same mixture as `predict`, with gradients, and its optimisers can use it."""

import copy
import re

import forked
import numpy as np
import pytest
import torch
from botorch.acquisition import (
    qExpectedImprovement,
    qNoisyExpectedImprovement,
    qSimpleRegret,
    qUpperConfidenceBound,
)
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.warnings import NumericsWarning
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Standardize
from botorch.optim import optimize_acqf
from botorch.sampling.get_sampler import get_sampler
from torch import nn

import sbmc
from sbmc.estimators.botorch import ParticlePosterior, ParticleSampler, SBMCModel

torch.manual_seed(7)
X = 2 * torch.rand(30, 2, dtype=torch.float64) - 1
PAIR = torch.stack([-(X**2).sum(1), X[:, 0] * X[:, 1]], 1)
COUNTS = torch.poisson((1 + X[:, :1]).exp())
POINTS = torch.linspace(-1, 1, 5 * 3 * 2, dtype=torch.float64).sin().view(5, 3, 2)
PARTICLES = 8
BOUNDS = torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.float64)


def posterior_of(outputs, targets, likelihood, *, dtype=torch.float64, hidden=None):
    """A posterior whose particles have unequal weights, one of them zero."""
    layers = hidden or [nn.Linear(2, 6), nn.Tanh()]
    network = nn.Sequential(*layers, nn.Linear(6, outputs)).to(dtype)
    posterior = sbmc.fit(
        network,
        (X.to(dtype), targets.to(dtype)),
        likelihood=likelihood,
        sampler=sbmc.HMC(steps=5),
        particles=PARTICLES,
        s=1.0,
        seed=1,
        progress=False,
    )
    weighted = copy.copy(posterior)
    weights = torch.arange(PARTICLES, dtype=torch.float64).view(1, -1)
    weighted.weights = weights / weights.sum()
    return weighted


def frozen_first():
    layers = [nn.Linear(2, 6), nn.GELU(), nn.LayerNorm(6)]
    layers[0].requires_grad_(False)
    return layers


CASES = {
    "one noise that is learned": lambda: posterior_of(1, PAIR[:, :1], "gaussian"),
    "two outputs with noise from the network": lambda: posterior_of(4, PAIR, "gaussian-network"),
    "heavy tails": lambda: posterior_of(2, PAIR, "student-t"),
    "counts": lambda: posterior_of(1, COUNTS, "poisson"),
    "noise that is known": lambda: posterior_of(2, PAIR, sbmc.Gaussian(noise_variance=0.04)),
    "a frozen part": lambda: posterior_of(1, PAIR[:, :1], "gaussian", hidden=frozen_first()),
    "float32": lambda: posterior_of(1, PAIR[:, :1], "gaussian", dtype=torch.float32),
}


@pytest.fixture(scope="module")
def two_outputs():
    return CASES["two outputs with noise from the network"]()


@pytest.fixture(scope="module")
def one_output():
    return CASES["one noise that is learned"]()


def gaps(model, posterior, points=POINTS):
    """Relative differences between BoTorch's moments and those of `predict`."""
    predicted = posterior.predict(points.flatten(0, -2))
    function, observed = model.posterior(points), model.posterior(points, observation_noise=True)
    pairs = {
        "mean": (function.mean, predicted.mean),
        "variance": (function.variance, predicted.epistemic),
        "mean with noise": (observed.mean, predicted.mean),
        "variance with noise": (observed.variance, predicted.total),
    }
    return {
        name: float((ours.reshape(theirs.shape) - theirs).abs().max() / theirs.abs().max())
        for name, (ours, theirs) in pairs.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_moments_are_those_of_predict(case):
    posterior = CASES[case]()
    model = SBMCModel(posterior)
    tolerance = 1e-4 if case == "float32" else 1e-10
    assert max(gaps(model, posterior).values()) < tolerance
    outputs = posterior.predict(X[:2]).mean.shape[1]
    assert model.num_outputs == outputs
    # The particle of weight zero is left out.
    assert model.posterior(POINTS).values.shape == (5, PARTICLES - 1, 3, outputs)
    assert model(POINTS).dtype == torch.float64


def test_forgotten_weights_would_be_seen(two_outputs):
    model = SBMCModel(two_outputs)
    model._weights = torch.ones_like(model._weights)
    found = gaps(model, two_outputs)
    assert min(found.values()) > 1e-3, found


def test_a_variance_with_bessels_correction_would_be_seen(two_outputs, monkeypatch):
    monkeypatch.delattr(ParticlePosterior, "variance")
    found = gaps(SBMCModel(two_outputs), two_outputs)
    assert found["variance"] > 0.1
    assert found["mean"] < 1e-10


@pytest.mark.parametrize("case", ["two outputs with noise from the network", "a frozen part"])
def test_gradients_are_those_of_finite_differences(case):
    model = SBMCModel(CASES[case]())

    def moments(points):
        observed = model.posterior(points, observation_noise=True)
        return observed.mean, observed.variance, model.posterior(points).values

    points = POINTS[:2].clone().requires_grad_()
    assert torch.autograd.gradcheck(moments, (points,))


def test_batches_of_points_are_the_points_one_by_one(two_outputs):
    model = SBMCModel(two_outputs)
    together = model(POINTS.view(1, 5, 3, 2))
    assert together.shape == (1, 5, PARTICLES - 1, 3, 2)
    for batch in range(5):
        for q in range(3):
            alone = model(POINTS[batch, q].view(1, 2))
            torch.testing.assert_close(together[0, batch, :, q], alone[:, 0])


def test_a_fitted_regressor_is_taken_in_its_own_units():
    table, targets = X.numpy() * 40 + 1000, 500 + 30 * PAIR[:, 0].numpy()
    quick = {"budget": 0.05, "training_options": {"max_epochs": 5}, "random_state": 0}
    regressor = sbmc.SBMCRegressor((6,), **quick).fit(table, targets)
    points = torch.tensor(table[:6]).view(2, 3, 2).requires_grad_()
    found = SBMCModel(regressor).posterior(points, observation_noise=True)
    mean, std = regressor.predict(table[:6], return_std=True)
    np.testing.assert_allclose(found.mean.detach().flatten(), mean, rtol=1e-10)
    np.testing.assert_allclose(found.variance.detach().flatten().sqrt(), std, rtol=1e-8)
    (gradient,) = torch.autograd.grad(found.mean.sum(), points)
    assert bool((gradient != 0).all())


def test_draws_are_particles_as_often_as_their_weights_say(one_output):
    model = SBMCModel(one_output)
    found = model.posterior(POINTS)
    # 28 = 1 + ... + 7: every particle is drawn a whole number of times, so nothing is left to luck.
    sampler = get_sampler(found, torch.Size([28]), seed=3)
    assert isinstance(sampler, ParticleSampler)
    draws = sampler(found)
    torch.testing.assert_close(draws.mean(0), found.mean)
    torch.testing.assert_close(draws.var(0, unbiased=False), found.variance)
    # All t-batches have the same draws, whatever their number, and so has the next call.
    torch.testing.assert_close(sampler(model.posterior(POINTS[3:])), draws[:, 3:])
    # One particle speaks for all points of a draw.
    each = draws[0, 0]
    assert any(torch.equal(each, particle) for particle in found.values[0])


@pytest.mark.parametrize("count", [5, 16, 101])
def test_counts_of_particles_are_those_of_their_weights_rounded(one_output, count):
    found = SBMCModel(one_output).posterior(POINTS[0])
    draws = get_sampler(found, torch.Size([count]), seed=0)(found)[:, 0, 0]
    times = (draws[:, None] == found.values[:, 0, 0]).sum(0)
    wanted = count * found.weights
    assert int(times.sum()) == count
    assert bool((times >= wanted.floor()).all())
    assert bool((times <= wanted.ceil()).all())


def test_draws_of_observations_have_the_noise(two_outputs):
    model = SBMCModel(two_outputs)
    found = model.posterior(POINTS[0], observation_noise=True)
    draws = get_sampler(found, torch.Size([28 * 400]), seed=0)(found)
    torch.manual_seed(0)
    independent = found.rsample(torch.Size([28 * 400]))
    for some in (draws, independent):
        assert some.shape == (28 * 400, 3, 2)
        # 11,200 draws: standard errors of 1 % of the deviation and, by tails that are a little
        # heavier than a Gaussian's, under 2 % of the variance. Limits are at more than 5 of them.
        error = (some.mean(0) - found.mean).abs() / found.variance.sqrt()
        assert float(error.max()) < 0.05
        torch.testing.assert_close(some.var(0), found.variance, rtol=0.1, atol=0)
    # Two points of a draw share the particle and not the noise.
    without = get_sampler(found, torch.Size([28 * 400]), seed=0)(model.posterior(POINTS[0]))
    noise = (draws - without) / (draws - without).std(0)
    assert float((noise[:, 0, 0] * noise[:, 1, 0]).mean().abs()) < 0.05
    assert float((noise[:, 0, 0] * noise[:, 0, 1]).mean().abs()) < 0.05


def test_expected_improvement_is_the_sum_over_particles(one_output):
    model = SBMCModel(one_output)
    best = float(model.posterior(X).mean.max())
    sampler = ParticleSampler(torch.Size([28]), seed=0)
    with pytest.warns(NumericsWarning):
        acquisition = qExpectedImprovement(model, best_f=best, sampler=sampler)
    found = model.posterior(POINTS)
    largest = found.values[..., 0].amax(-1)  # over the q points: (5, particles)
    expected = (found.weights * (largest - best).clamp(min=0)).sum(-1)
    assert float(expected.max()) > 0
    torch.testing.assert_close(acquisition(POINTS), expected)


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.NumericsWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda model: qExpectedImprovement(model, best_f=-0.5),
        lambda model: qLogExpectedImprovement(model, best_f=-0.5),
        lambda model: qUpperConfidenceBound(model, beta=2.0),
        lambda model: qNoisyExpectedImprovement(model, X_baseline=X),
        lambda model: qLogNoisyExpectedImprovement(model, X_baseline=X),
    ],
    ids=["qEI", "qLogEI", "qUCB", "qNEI", "qLogNEI"],
)
def test_optimisers_climb_acquisition_functions(one_output, make):
    acquisition = make(SBMCModel(one_output))
    torch.manual_seed(0)
    found, value = optimize_acqf(acquisition, BOUNDS, q=2, num_restarts=4, raw_samples=32)
    assert found.shape == (2, 2)
    torch.manual_seed(1)
    others = acquisition(2 * torch.rand(200, 2, 2, dtype=torch.float64) - 1)
    assert float(value) >= float(others.max())


def test_the_largest_mean_is_where_a_grid_finds_it(one_output):
    model = SBMCModel(one_output)
    acquisition = qSimpleRegret(model, sampler=ParticleSampler(torch.Size([28]), seed=0))
    torch.manual_seed(0)
    _, value = optimize_acqf(acquisition, BOUNDS, q=1, num_restarts=8, raw_samples=64)
    axis = torch.linspace(-1, 1, 81, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    largest = float(one_output.predict(grid).mean.max())
    assert largest <= float(value) < largest + 0.01


def test_outputs_can_be_chosen(two_outputs):
    model = SBMCModel(two_outputs)
    whole = model.posterior(POINTS)
    second = model.subset_output([1])
    assert (second.num_outputs, model.num_outputs) == (1, 2)
    for found in (second.posterior(POINTS), model.posterior(POINTS, output_indices=[1])):
        torch.testing.assert_close(found.mean, whole.mean[..., 1:])
    swapped = model.posterior(POINTS, output_indices=[1, 0], observation_noise=True)
    torch.testing.assert_close(
        swapped.variance, model.posterior(POINTS, observation_noise=True).variance.flip(-1)
    )


def test_transforms_of_botorch():
    original = 50 + 20 * PAIR
    standardise, normalise = Standardize(m=2), Normalize(d=2, bounds=5 * BOUNDS)
    targets, _ = standardise(original)
    standardise.eval()
    posterior = posterior_of(2, targets, sbmc.Gaussian(noise_variance=0.04))
    model = SBMCModel(posterior, outcome_transform=standardise, input_transform=normalise)
    points = 5 * POINTS
    predicted = posterior.predict(normalise(points).flatten(0, 1))
    mean = original.mean(0) + original.std(0) * predicted.mean.view(5, 3, 2)
    variance = original.var(0) * predicted.total.view(5, 3, 2)
    found = model.posterior(points, observation_noise=True)
    torch.testing.assert_close(found.mean, mean)
    torch.testing.assert_close(found.variance, variance)

    class First(PosteriorTransform):
        scalarize = True

        def evaluate(self, Y, X=None):
            return Y[..., 0]

        def forward(self, posterior, X=None):
            assert X is points
            return ParticlePosterior(posterior.values[..., :1], posterior.weights)

    scalar = model.posterior(points, posterior_transform=First())
    torch.testing.assert_close(scalar.mean, mean[..., :1])


def test_fewer_digits_on_request(one_output):
    points = POINTS.float()
    found = SBMCModel(one_output, dtype=torch.float32).posterior(points)
    assert found.values.dtype == torch.float32
    expected = one_output.predict(POINTS.flatten(0, 1)).mean.view(5, 3, 1).float()
    torch.testing.assert_close(found.mean, expected, rtol=1e-4, atol=1e-5)


def refused(call, *words):
    with pytest.raises(sbmc.BadInput) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_what_cannot_be_optimised_is_refused_in_words(one_output):
    model = SBMCModel(one_output)
    labels = (X[:, 0] > 0).long()
    run = {"sampler": sbmc.HMC(steps=2), "particles": 2, "progress": False}
    classes = sbmc.fit(nn.Linear(2, 2), (X.float(), labels), **run)
    pictures = nn.Sequential(nn.Flatten(), nn.Linear(2, 1))
    images = sbmc.fit(pictures.double(), (X.view(-1, 1, 2), PAIR[:, :1]), **run)
    refused(lambda: SBMCModel(classes), "`posterior`", "classes")
    refused(lambda: SBMCModel(sbmc.SBMCRegressor()), "`posterior`", "Call its fit first")
    refused(lambda: SBMCModel(nn.Linear(2, 1)), "`posterior`", "sbmc.fit")
    refused(lambda: SBMCModel(images), "`inputs`", "rows of numbers")
    refused(lambda: SBMCModel(one_output, dtype="float32"), "`dtype`")
    refused(lambda: SBMCModel(one_output, outcome_transform=3), "`outcome_transform`")
    refused(lambda: model.posterior(X[0]), "`X`", "(2,)")
    refused(lambda: model.posterior(X.long()), "`X`", "int64")
    refused(lambda: model.posterior(POINTS[..., :1]), "`X`")
    refused(lambda: model.posterior(POINTS, observation_noise=POINTS), "`observation_noise`")
    refused(lambda: model.posterior(POINTS, output_indices=[1]), "`output_indices`", "1 outputs")
    refused(lambda: model.posterior(POINTS, posterior_transform=max), "`posterior_transform`")
    refused(lambda: model.condition_on_observations(X, PAIR), "posterior.update")
    refused(lambda: model.fantasize(X, None), "fit again", "qLogExpectedImprovement")


def test_a_network_without_gradients_in_its_inputs_is_refused():
    class Rounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 1).double()

        def forward(self, x):
            return self.linear(x.detach())

    run = {"sampler": sbmc.HMC(steps=2), "particles": 2, "progress": False}
    posterior = sbmc.fit(Rounded(), (X, PAIR[:, :1]), likelihood="gaussian", **run)
    model = SBMCModel(posterior)
    assert model.posterior(X).mean.shape == (30, 1)
    refused(lambda: model.posterior(X.clone().requires_grad_()), "`X`", "no gradient")


def test_posteriors_that_do_not_know_their_inputs_are_told():
    short = {"likelihood": "gaussian", "members": 2, "max_epochs": 1, "progress": False}
    data = X, PAIR[:, :1]
    posterior = sbmc.train_ensemble(nn.Linear(2, 1).double(), data, **short).posterior()
    refused(lambda: SBMCModel(posterior), "`inputs`", "inputs=x[:2]")
    model = SBMCModel(posterior, inputs=X)
    assert max(gaps(model, posterior).values()) < 1e-9


def test_without_botorch_the_message_names_the_extra():
    code = "import sys; sys.modules['botorch'] = None; import sbmc.estimators.botorch"
    done = forked.run(["-c", code], check=False)
    assert done.returncode
    last = done.stderr.strip().splitlines()[-1]
    assert re.search(r"^ImportError: .*pip install 'sbmc\[botorch\]'", last)
