"""Randomised MAP sampling against its closed form in a linear Gaussian model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sbmc.baselines import randomised_map
from sbmc.checks import BadInput
from sbmc.likelihoods import Gaussian
from sbmc.randomness import Stream, generator
from sbmc.training import group, train_ensemble

NOISE, V = 0.2, 0.5


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def regression():
    inputs = draw(30, 3)
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    return inputs, inputs @ weights + 0.4 * draw(30, seed=1)


def members(samples=4, **changes):
    settings = {
        "samples": samples,
        "prior_variance": V,
        "likelihood": Gaussian(noise_variance=NOISE),
        "learning_rate": 0.05,
        "batch_size": 30,
        "max_epochs": 500,
        "progress": False,
    }
    net = nn.Linear(3, 1, bias=False).double()
    return randomised_map(net, regression(), **{**settings, **changes})


def closed_form(samples=4):
    """(XᵀX/σ² + I/v)⁻¹ (Xᵀy/σ² + c_k/v) for the members' centres c_k."""
    inputs, targets = regression()
    streams = [generator(0, Stream.PRIOR_CENTRES, k) for k in range(samples)]
    centres = torch.stack([torch.randn(3, generator=g, dtype=torch.float64) for g in streams])
    centres *= V**0.5
    precision = inputs.T @ inputs / NOISE + torch.eye(3, dtype=torch.float64) / V
    right = inputs.T @ targets / NOISE + centres / V
    return torch.linalg.solve(precision, right.T).T, centres


def test_members_are_the_minimisers_in_closed_form():
    expected, centres = closed_form()
    ours = members().positions[0]
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)
    # Far enough from each other for the centres to matter.
    assert (expected - expected.mean(0)).abs().max() > 1e-3
    assert (centres[0] - centres[1]).abs().max() > 0.1


def test_a_prior_that_forgets_its_centres_is_caught(monkeypatch):
    monkeypatch.setattr(group, "_offset", lambda theta, centres: theta)
    expected, _ = closed_form()
    assert (members().positions[0] - expected).abs().max() > 1e-3


def test_with_little_data_the_members_spread_like_the_prior():
    # One example: two of three directions are free, where members end at their centres.
    inputs = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    net = nn.Linear(3, 1, bias=False).double()
    posterior = randomised_map(
        net,
        (inputs, torch.tensor([0.3])),
        samples=5,
        prior_variance=V,
        likelihood=Gaussian(noise_variance=NOISE),
        learning_rate=0.05,
        max_epochs=600,
        progress=False,
    )
    streams = [generator(0, Stream.PRIOR_CENTRES, k) for k in range(5)]
    centres = torch.stack([torch.randn(3, generator=g, dtype=torch.float64) for g in streams])
    free = posterior.positions[0][:, 1:]
    torch.testing.assert_close(free, centres[:, 1:] * V**0.5, rtol=0, atol=1e-3)


def classes(examples=60, seed=0):
    inputs = draw(examples, 4, seed=seed)
    return inputs, (inputs[:, :3] + draw(examples, 3, seed=seed + 7)).argmax(-1)


def test_members_that_stop_take_their_own_centres_with_them():
    # Trained side by side and alone: a centre on the wrong row would show after the first stop.
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    settings = {"members": 4, "prior_variance": V, "learning_rate": 0.03, "anchored": True}
    settings |= {"batch_size": 60}
    data = (net, classes(), classes(40, seed=1))
    together = train_ensemble(*data, **settings, progress=False)
    alone = train_ensemble(*data, **settings, member_chunk=1, progress=False)
    assert len({history.epochs for history in together.histories}) > 1
    torch.testing.assert_close(together.positions, alone.positions, rtol=1e-6, atol=1e-8)
    plain = train_ensemble(*data, **{**settings, "anchored": False}, progress=False)
    assert (together.positions - plain.positions).abs().max() > 0.1


def test_it_is_a_posterior_that_says_what_it_is():
    net, before = nn.Linear(4, 3), torch.random.get_rng_state()
    own = net.weight.clone()
    posterior = randomised_map(net, classes(), samples=3, prior_variance=V, max_epochs=2, seed=4)
    assert posterior.positions.shape == (1, 3, 15)
    assert posterior.weights.tolist() == [pytest.approx([1 / 3] * 3)]
    assert posterior.cost.epochs == 2
    assert posterior.cost.total_epochs == 6
    assert posterior.settings["sampler"] == "randomised_map"
    assert posterior.settings["seed"] == 4
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(net.weight, own)
    assert net.training
    again = randomised_map(net, classes(), samples=3, prior_variance=V, max_epochs=2, seed=4)
    assert torch.equal(again.positions, posterior.positions)
    other = randomised_map(net, classes(), samples=3, prior_variance=V, max_epochs=2, seed=5)
    assert not torch.equal(other.positions, posterior.positions)
    assert posterior.predict(classes()[0]).probs.shape == (60, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 0}, "`samples` must be a positive integer, but got 0"),
        ({"prior_variance": 0.0}, "`prior_variance` must be positive and finite"),
        ({"max_epochs": None}, "`max_epochs` must be given"),
        ({"seed": -1}, r"`seed` must be an integer from 0 to 2\*\*128 - 1, but got -1\."),
    ],
)
def test_bad_input_is_refused_in_words(changes, message):
    with pytest.raises(BadInput, match=message):
        members(**{"max_epochs": 1, **changes})


def test_anchored_must_be_a_truth_value():
    with pytest.raises(BadInput, match="`anchored` must be True or False, but got 'yes'"):
        train_ensemble(nn.Linear(4, 3), classes(), members=1, max_epochs=1, anchored="yes")
