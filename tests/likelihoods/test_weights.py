"""Weights of rows: a weight of 2 is that row twice, a weight of 0 is no row."""

from __future__ import annotations

import pytest
import torch
from sklearn.utils.class_weight import compute_sample_weight
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.likelihoods import Bernoulli, Categorical, DenseCategorical, Gaussian, Weighted
from sbmc.model.data import Examples
from sbmc.model.noise import learn_noise
from sbmc.model.parameters import select_parameters
from sbmc.target.builder import EngineBuilder
from sbmc.target.curvature import diagonal_fisher

WEIGHTS = torch.tensor([2.0, 0.0, 1.0, 3.0, 1.0, 1.0], dtype=torch.float64)
COUNTS = WEIGHTS.long()
X = torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def net(outputs):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, outputs)).double()


TARGETS = {
    "categorical": (3, torch.tensor([0, 2, 1, 1, 0, 2]), Categorical()),
    "bernoulli": (1, torch.tensor([0, 1, 1, 1, 0, 0]), Bernoulli()),
    "gaussian": (2, X.roll(1, 0), Gaussian(noise_variance=0.5)),
}


@pytest.fixture(params=list(TARGETS))
def problem(request):
    return TARGETS[request.param]


def engine(model, inputs, targets, likelihood):
    space = select_parameters(model)
    build = EngineBuilder(model, space, likelihood, Examples(inputs, targets))
    return build(space.flatten(model))


def test_a_weighted_engine_is_that_of_repeated_rows(problem):
    outputs, targets, likelihood = problem
    model = net(outputs)
    theta = torch.randn(3, select_parameters(model).dim, dtype=torch.float64)
    ours = engine(model, X, targets, Weighted(likelihood, WEIGHTS))
    repeated = X.repeat_interleave(COUNTS, 0), targets.repeat_interleave(COUNTS, 0)
    theirs = engine(model, *repeated, likelihood)
    for mine, expected in zip(ours(theta), theirs(theta), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-9, atol=1e-9)


def test_the_information_is_that_of_repeated_rows():
    model = net(3)
    targets = TARGETS["categorical"][1]
    theta = select_parameters(model).flatten(model)
    repeated = X.repeat_interleave(COUNTS, 0), targets.repeat_interleave(COUNTS, 0)
    ours = diagonal_fisher(
        engine(model, X, targets, Weighted(Categorical(), WEIGHTS)).parts(), theta
    )
    theirs = diagonal_fisher(engine(model, *repeated, Categorical()).parts(), theta)
    torch.testing.assert_close(ours.diagonal, theirs.diagonal, rtol=1e-9, atol=1e-12)


def test_learned_noise_is_that_of_repeated_rows():
    model, targets = net(2), X.roll(1, 0)
    space = select_parameters(model)
    theta = space.flatten(model).unsqueeze(0)
    repeated = Examples(X.repeat_interleave(COUNTS, 0), targets.repeat_interleave(COUNTS, 0))
    ours = learn_noise(model, space, Gaussian(), Examples(X, targets), WEIGHTS)
    theirs = learn_noise(model, space, Gaussian(), repeated)
    assert ours is not None
    assert theirs is not None
    torch.testing.assert_close(ours.prior.mean, theirs.prior.mean)
    torch.testing.assert_close(ours.append(theta), theirs.append(theta), rtol=1e-6, atol=1e-6)


def test_positions_of_a_row_share_its_weight():
    dense = DenseCategorical()
    targets = torch.randint(3, (6, 2, 2))
    outputs = torch.randn(4, 6, 3, 2, 2)
    weighted = Weighted(dense, WEIGHTS.float())
    packed = weighted.check(targets, outputs[0, :2])
    torch.testing.assert_close(
        weighted.log_prob(outputs, packed), WEIGHTS.float() * dense.log_prob(outputs, targets)
    )


def options(**more):
    return {"s": 0.1, "sampler": sbmc.HMC(steps=6), "particles": 2, "progress": False, **more}


@pytest.mark.filterwarnings("ignore:The posterior is not ok")
def test_weights_of_one_change_nothing_but_the_path(problem):
    outputs, targets, likelihood = problem
    model = net(outputs)
    plain = sbmc.fit(model, (X, targets), likelihood=likelihood, **options())
    ones = sbmc.fit(model, (X, targets), likelihood=likelihood, weights=torch.ones(6), **options())
    torch.testing.assert_close(ones.positions, plain.positions, rtol=1e-6, atol=1e-8)
    assert "weights" not in plain.settings
    assert ones.likelihood == likelihood


@pytest.mark.filterwarnings("ignore:The posterior is not ok")
def test_mini_batches_and_checkpoints_know_the_weights(tmp_path):
    model, data = net(3), (X, TARGETS["categorical"][1])
    sgld = {"sampler": sbmc.SGLD(epochs=4, step_size=1e-3, batch_size=3)}
    runs = [
        sbmc.fit(model, data, weights=weights, **options(**sgld)).positions
        for weights in (None, torch.ones(6), WEIGHTS)
    ]
    torch.testing.assert_close(runs[0], runs[1], rtol=1e-6, atol=1e-8)
    assert not torch.allclose(runs[0], runs[2])
    compute = sbmc.Compute(checkpoint=str(tmp_path / "run"))
    sbmc.fit(model, data, weights=WEIGHTS, **options(compute=compute))
    with pytest.raises(BadInput, match="weights"):
        sbmc.fit(model, data, weights=WEIGHTS + 1, **options(compute=compute))


def test_training_with_weights_forgets_rows_of_weight_zero():
    inputs = torch.cat([torch.full((20, 1), 1.0), torch.full((20, 1), 1.0)])
    targets = torch.cat([torch.zeros(20), torch.full((20,), 9.0)])
    weights = torch.cat([torch.ones(20), torch.zeros(20)])
    trained = sbmc.train_map(
        nn.Linear(1, 1),
        (inputs, targets),
        (inputs[:5], targets[:5]),
        likelihood=Gaussian(noise_variance=0.1),
        weights=weights,
        max_epochs=300,
        learning_rate=0.05,
    )
    assert abs(trained(torch.ones(1, 1)).item()) < 0.1


def test_class_weights_are_those_of_scikit_learn():
    labels = torch.tensor([0, 0, 2, 0, 5, 5, 0])
    theirs = torch.from_numpy(compute_sample_weight("balanced", labels.numpy()))
    torch.testing.assert_close(sbmc.class_weights(labels).double(), theirs, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (
            torch.ones(5),
            "`weights` must be numbers, one for each of the 6 rows, but got shape (5,)",
        ),
        ("many", "`weights` must be a tensor or an array, but got 'many'."),
        (-WEIGHTS, "`weights` must be finite and not negative, but got -2.0"),
        (WEIGHTS / 0, "finite and not negative"),
        (torch.zeros(6), "positive for some rows, but got zeros alone"),
    ],
)
def test_bad_weights_are_refused(weights, words):
    with pytest.raises(BadInput) as error:
        sbmc.fit(net(3), (X, TARGETS["categorical"][1]), weights=weights, s=0)
    assert words in str(error.value)
