"""SWAG: its moments from stored weights, its draws by the formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from sbmc.baselines import swag, train_swa
from sbmc.baselines.swag import Collector, SWAGMoments, draw
from sbmc.checks import BadInput
from sbmc.model.parameters import select_parameters

SETTINGS = {
    "prior_variance": 0.5,
    "epochs": 9,
    "warmup_epochs": 3,
    "learning_rate": 0.05,
    "swa_learning_rate": 0.02,
    "batch_size": 16,
    "progress": False,
}


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_data(examples: int = 50):
    inputs = noise(examples, 4)
    return inputs, (inputs[:, :3] + noise(examples, 3, seed=9)).argmax(-1)


def make_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def collected(path: torch.Tensor, rank: int) -> SWAGMoments:
    collector = Collector(rank)
    for theta in path:
        collector.add(theta)
    return collector.moments()


def test_moments_are_those_of_the_stored_weights():
    path = 100 + noise(12, 7)
    moments = collected(path, rank=5)
    torch.testing.assert_close(moments.mean, path.mean(0))
    torch.testing.assert_close(moments.variance, path.var(0, correction=0))
    means = torch.stack([path[: t + 1].mean(0) for t in range(12)])
    torch.testing.assert_close(moments.deviations, (path - means)[-5:], rtol=1e-9, atol=1e-11)


def test_deviations_from_the_final_mean_would_be_seen():
    path = noise(12, 7)
    wrong = (path - path.mean(0))[-5:]
    assert (collected(path, rank=5).deviations - wrong).abs().max() > 0.05


def test_small_movements_in_float32_do_not_cancel():
    path = (1 + 1e-4 * noise(20, 3)).float()
    expected = path.double().var(0, correction=0)
    torch.testing.assert_close(collected(path, 5).variance.double(), expected, rtol=1e-5, atol=0)


def test_fewer_epochs_than_the_rank_give_fewer_deviations():
    assert collected(noise(4, 3), rank=20).deviations.shape == (4, 3)


def test_a_draw_is_the_formula():
    moments = collected(noise(12, 7), rank=5)
    first, second = noise(2, 7, seed=1), noise(2, 5, seed=2)
    ours = draw(moments, first, second, scale=0.5)
    for sample in range(2):
        expected = (
            moments.mean
            + moments.variance.sqrt() * first[sample] / math.sqrt(2)
            + moments.deviations.T @ second[sample] / math.sqrt(2 * (5 - 1))
        )
        torch.testing.assert_close(ours[sample], expected)


def test_draws_have_the_covariance_of_the_docstring():
    # Draws are linear in the noise: unit vectors give the covariance itself, without sampling.
    moments = collected(noise(12, 7), rank=5)
    unit = torch.eye(12, dtype=torch.float64)
    root = draw(moments, unit[:, :7], unit[:, 7:], scale=0.5) - moments.mean
    low_rank = moments.deviations.T @ moments.deviations / 4
    expected = 0.5 * (torch.diag(moments.variance) + low_rank)
    torch.testing.assert_close(root.T @ root, expected)
    planted = draw(moments, unit[:, :7], unit[:, 7:], scale=1.0) - moments.mean
    assert (planted.T @ planted - expected).abs().max() > 0.1


def test_it_is_centred_on_the_weights_of_swa():
    net = make_net()
    ours = swag(net, make_data(), samples=3, rank=4, **SETTINGS)
    trained = train_swa(net, make_data(), **SETTINGS)
    mean = select_parameters(trained).flatten(trained)
    offsets = ours.positions[0] - mean
    # The same noise and twice the scale: √2 times the offset from the same centre.
    wider = swag(net, make_data(), samples=3, rank=4, scale=1.0, **SETTINGS).positions[0] - mean
    torch.testing.assert_close(wider, offsets * math.sqrt(2), rtol=1e-9, atol=1e-11)
    assert offsets.abs().max() > 1e-3


def test_cost_settings_purity_and_seeds():
    net = make_net()
    own = {name: value.clone() for name, value in net.state_dict().items()}
    before = torch.random.get_rng_state()
    ours = swag(net, make_data(), samples=3, **SETTINGS)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(value, own[name]) for name, value in net.state_dict().items())
    assert net.training
    assert ours.positions.shape == (1, 3, 43)
    assert ours.weights.tolist() == [pytest.approx([1 / 3] * 3)]
    assert ours.cost.total_epochs == ours.cost.anchor_epochs == 9
    assert ours.settings["rank"] == 6
    assert ours.settings["sampler"] == "swag"
    assert torch.equal(swag(net, make_data(), samples=3, **SETTINGS).positions, ours.positions)
    more = swag(net, make_data(), samples=5, **SETTINGS)
    torch.testing.assert_close(more.positions[:, :3], ours.positions)
    other = swag(net, make_data(), samples=3, seed=1, **SETTINGS)
    assert not torch.equal(other.positions, ours.positions)
    assert ours.predict(make_data()[0]).probs.shape == (50, 3)


def test_every_draw_has_running_statistics_of_its_own():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).double()
    inputs, labels = make_data()
    before = torch.random.get_rng_state()
    ours = swag(net, (inputs, labels), samples=2, **SETTINGS)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert ours.cost.forward_epochs == 1
    assert ours.space.names[-2:] == ("1.running_mean", "1.running_var")
    probabilities = []
    for position in ours.positions[0]:
        reference = nn.Sequential(*net)
        space = select_parameters(reference)
        space.write(position[: space.dim], reference)
        update_bn(inputs.split(16), reference)
        torch.testing.assert_close(position[space.dim : space.dim + 8], reference[1].running_mean)
        probabilities.append(reference.eval()(inputs).softmax(-1).detach())
    expected = torch.stack(probabilities).mean(0)
    torch.testing.assert_close(ours.predict(inputs).probs, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 0}, "`samples` must be a positive integer"),
        ({"rank": 1}, "`rank` must be at least 2, but got 1"),
        ({"rank": 2.5}, "`rank` must be a positive integer"),
        ({"scale": 0.0}, "`scale` must be positive and finite"),
        ({"warmup_epochs": 8}, "`warmup_epochs` must be at least 2 less than `epochs`"),
        ({"momentum": -0.1}, "`momentum` must be at least 0 and less than 1"),
        ({"prior_variance": 0.0}, "`prior_variance` must be positive and finite"),
    ],
)
def test_bad_input_is_refused_in_words(changes, message):
    with pytest.raises(BadInput, match=message):
        swag(make_net(), make_data(), **SETTINGS | changes)
