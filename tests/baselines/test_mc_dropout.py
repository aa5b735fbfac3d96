"""MC Dropout: masks on weights are masks on inputs, and training is torch's own dropout."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

from sbmc import fit
from sbmc.baselines import dropout_posterior, mc_dropout, train_mc_dropout
from sbmc.checks import BadInput
from sbmc.model.parameters import select_parameters
from sbmc.randomness import Stream, generator
from sbmc.samplers import HMC
from sbmc.training import train_map

RATE = 0.3


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_data(examples: int = 50, seed: int = 0):
    inputs = draw(examples, 6, seed=seed)
    return inputs, (inputs[:, :3] + draw(examples, 3, seed=seed + 9)).argmax(-1)


def make_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def masks(sample: int, *sizes: int, seed: int = 0) -> list[torch.Tensor]:
    """The masks of one draw, for layers of so many inputs."""
    stream = generator(seed, Stream.DROPOUT_MASKS, sample)
    return [(torch.rand(size, generator=stream) >= RATE).double() / (1 - RATE) for size in sizes]


def outputs(posterior, inputs):
    """Logits of every draw, by the module itself."""
    net = make_net().eval()
    logits = []
    for position in posterior.positions[0]:
        posterior.space.write(position, net)
        logits.append(net(inputs).detach())
    return torch.stack(logits)


def test_a_draw_is_the_network_run_with_its_mask():
    net, (inputs, _) = make_net(), make_data()
    ours = outputs(dropout_posterior(net, samples=5), inputs)
    hidden = net[1](net[0](inputs))
    expected = torch.stack([net[2](hidden * masks(k, 8)[0]) for k in range(5)]).detach()
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-13)
    assert (ours[0] - ours[1]).abs().max() > 0.1


def test_several_layers_have_masks_of_their_own():
    net, (inputs, _) = make_net(), make_data()
    ours = outputs(dropout_posterior(net, samples=3, layers=r"0|2"), inputs)
    for sample in range(3):
        first, second = masks(sample, 6, 8)
        expected = net[2](net[1](net[0](inputs * first)) * second).detach()
        torch.testing.assert_close(ours[sample], expected, rtol=1e-12, atol=1e-13)


def test_draws_without_the_rescaling_would_be_caught():
    # The planted bug: masks of 0 and 1. The mean over masks is then not the network itself.
    net = make_net()
    many = dropout_posterior(net, samples=4000)
    own = many.space.flatten(net)
    # Each weight's mean has a standard error of |w|·√(r/(1−r))/√4000; six of them: a false alarm
    # has a probability below 51 · 2e-9.
    error = own.abs() * math.sqrt(RATE / (1 - RATE) / 4000)
    assert ((many.positions[0].mean(0) - own).abs() <= 6 * error + 1e-12).all()
    planted = many.positions[0] * torch.where(many.positions[0] == own, 1.0, 1 - RATE)
    assert ((planted.mean(0) - own).abs() > 6 * error + 1e-12).any()
    dropped = (many.positions[0] == 0).double().mean()
    share = 24 / many.space.dim  # of the parameters, those of the last layer's weights
    assert float(dropped) == pytest.approx(RATE * share, abs=0.01)


def test_predictions_of_an_example_have_the_distribution_of_a_dropout_layer():
    # Shared masks against masks per example, at one example: means over 1,000 draws each. The
    # difference of two means of numbers in [0, 1] has a standard error of at most 0.5·√(2/1000) =
    # 0.022, and less here; six of them.
    net, (inputs, _) = make_net(), make_data()
    ours = outputs(dropout_posterior(net, samples=1000), inputs[:1]).softmax(-1)[:, 0]
    hidden = net[1](net[0](inputs[:1])).expand(1000, -1)
    reference = net[2](F.dropout(hidden, RATE)).softmax(-1).detach()
    assert (ours.mean(0) - reference.mean(0)).abs().max() < 0.13
    assert (ours.std(0) / reference.std(0) - 1).abs().max() < 0.3


def test_training_is_that_of_the_same_network_with_a_dropout_layer():
    settings = {"prior_variance": 0.5, "batch_size": 16, "max_epochs": 3, "progress": False}
    ours = train_mc_dropout(make_net(), make_data(), rate=RATE, **settings)
    net = make_net()
    layered = nn.Sequential(net[0], net[1], nn.Dropout(RATE), net[2])
    reference = train_map(layered, make_data(), **settings)
    for own, expected in zip(ours.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-13)
    plain = train_map(make_net(), make_data(), **settings)
    assert (ours[2].weight - plain[2].weight).abs().max() > 1e-4
    assert ours.history.epochs == 3


def test_the_trained_network_is_free_of_dropout_and_serves_as_an_anchor():
    net, data = make_net(), make_data()
    trained = train_mc_dropout(net, data, make_data(30, seed=3), max_epochs=20, progress=False)
    assert [type(layer) for layer in trained] == [type(layer) for layer in net]
    assert not trained.training
    inputs = data[0]
    assert torch.equal(trained.train()(inputs), trained.eval()(inputs))
    sampler = HMC(steps=1, leapfrog=1)
    posterior = fit(trained, data, s=0.1, sampler=sampler, particles=2, progress=False)
    assert posterior.cost.anchor_epochs == trained.history.epochs == 20


def test_the_validation_loss_is_that_without_dropout():
    data, held_out = make_data(), make_data(30, seed=3)
    trained = train_mc_dropout(make_net(), data, held_out, prior_variance=0.5, max_epochs=8)
    inputs, labels = held_out
    prior = sum(p.square().sum().item() for p in trained.parameters()) / (2 * 0.5 * 50)
    loss = F.cross_entropy(trained(inputs), labels).item() + prior
    assert loss == pytest.approx(min(trained.history.validation_loss), rel=1e-9)


def test_cost_settings_purity_and_seeds():
    net, before = make_net(), torch.random.get_rng_state()
    own = {name: value.clone() for name, value in net.state_dict().items()}

    def run(seed):
        return mc_dropout(net, make_data(), samples=3, max_epochs=4, seed=seed, progress=False)

    before = torch.random.get_rng_state()
    posterior = run(1)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(value, own[name]) for name, value in net.state_dict().items())
    assert net.training
    assert not net[2]._forward_pre_hooks
    assert posterior.positions.shape == (1, 3, select_parameters(net).dim)
    assert posterior.weights.tolist() == [pytest.approx([1 / 3] * 3)]
    assert posterior.cost.anchor_epochs == posterior.cost.total_epochs == 4
    assert posterior.settings["layers"] == ["2"]
    assert torch.equal(run(1).positions, posterior.positions)
    assert not torch.equal(run(2).positions, posterior.positions)


def test_a_draw_does_not_depend_on_their_number():
    few, many = (dropout_posterior(make_net(), samples=n).positions[0] for n in (2, 5))
    assert torch.equal(few, many[:2])


def test_running_statistics_are_those_of_training():
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).double()
    posterior = mc_dropout(net, make_data(), samples=2, max_epochs=3, progress=False)
    trained = train_mc_dropout(net, make_data(), max_epochs=3, progress=False)
    assert (trained[1].running_mean - net[1].running_mean).abs().max() > 0.01
    inputs, probabilities = make_data()[0], []
    for position in posterior.positions[0]:
        posterior.space.write(position, trained)
        probabilities.append(trained(inputs).softmax(-1))
    expected = torch.stack(probabilities).mean(0).detach()
    torch.testing.assert_close(
        posterior.predict(inputs).probs, expected.double(), rtol=1e-6, atol=0
    )


def test_on_digits_it_is_accurate_and_draws_disagree():
    images, labels = load_digits(return_X_y=True)
    inputs, targets = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    posterior = mc_dropout(
        net,
        (inputs[:600], targets[:600]),
        prior_variance=0.1,
        max_epochs=40,
        progress=False,
    )
    prediction = posterior.predict(inputs[600:])
    right = prediction.labels == targets[600:]
    assert right.double().mean() > 0.8
    assert prediction.epistemic.min() > 0


class Tied(nn.Module):
    """Two layers that share their weights."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def forward(self, inputs):
        return self.second(self.first(inputs))


class Aside(nn.Module):
    """Uses a layer's weights without calling the layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, inputs):
        return F.linear(inputs, self.layer.weight, self.layer.bias)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 0.0}, "`rate` must be between 0 and 1, but got 0.0"),
        ({"rate": 1.0}, "`rate` must be between 0 and 1"),
        ({"rate": "some"}, "`rate` must be between 0 and 1"),
        ({"samples": 0}, "`samples` must be a positive integer"),
        ({"layers": "5"}, r"`layers` must be a choice that matches a linear layer \(such as '2'\)"),
        ({"layers": "("}, r"`layers` must be 'last' or a regular expression, but got '\('"),
        ({"layers": 2}, "`layers` must be 'last' or a regular expression, but got 2"),
        ({"layers": "0", "parameters": "last"}, "`layers` must be layers whose weights are"),
        ({"model": nn.Sequential(nn.Conv1d(1, 1, 1))}, "`model` must be one with an nn.Linear"),
        ({"model": Tied()}, "`layers` must be layers with weights of their own"),
        ({"model": Aside()}, "`layers` must be linear layers that the model calls"),
        ({"prior_variance": -1.0}, "`prior_variance` must be positive and finite"),
        ({"max_epochs": 0}, "`max_epochs` must be a positive integer"),
        ({"seed": -1}, r"`seed` must be an integer from 0 to 2\*\*128 - 1, but got -1\."),
        ({"likelihood": "poison"}, "`likelihood` must be"),
    ],
)
def test_bad_input_is_refused_in_words(changes, message):
    settings = {"max_epochs": 1, "progress": False, **changes}
    with pytest.raises(BadInput, match=message):
        mc_dropout(settings.pop("model", make_net()), make_data(), **settings)


def test_an_anchor_cost_that_is_none_is_refused():
    with pytest.raises(BadInput, match="`anchor_epochs` must be a non-negative number"):
        dropout_posterior(make_net(), anchor_epochs=-1)


def test_noise_that_nothing_learns_is_refused_before_training():
    data = draw(20, 3), draw(20, 1, seed=1)
    net = nn.Linear(3, 1).double()
    with pytest.raises(BadInput, match="`likelihood` must be one of known noise"):
        train_mc_dropout(net, data, likelihood="gaussian", max_epochs=1)
