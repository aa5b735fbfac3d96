"""Training starts at weights from which a network learns, and not at a draw of N(0, 1)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc_studies.data import load_dataset
from sbmc_studies.experiments.context import Context
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.experiments.settings import TRAINING_SETTINGS


def deep_net() -> nn.Module:
    """Four layers of 64, which N(0, 1) in place of its own initial weights keeps from learning."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(64, 64), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 8))


class NoReset(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 3))

    def forward(self, x):
        return x @ self.weight


class TestWhereTrainingStarts:
    """The default threw the weights of the network away for a draw of N(0, 1): 50 %, NLL 394."""

    DATA = (torch.linspace(-1, 1, 40).reshape(10, 4), torch.arange(10) % 3)

    def start(self, model, **options):
        """Where members start: after one epoch with a learning rate of nothing."""
        options = {"max_epochs": 1, "learning_rate": 1e-12, "progress": False, **options}
        return sbmc.train_ensemble(model, self.DATA, **options).positions

    def test_a_deep_network_learns_by_default(self):
        data = load_dataset("digits")
        trained = sbmc.train_map(deep_net(), data.train, max_epochs=15, progress=False)
        found = trained(torch.as_tensor(data.test[0])).argmax(-1)
        assert (found == torch.as_tensor(data.test[1])).float().mean() > 0.7

    def test_train_map_goes_on_from_the_weights_of_the_model(self):
        net = nn.Linear(4, 3)
        trained = sbmc.train_map(net, self.DATA, max_epochs=1, learning_rate=1e-12)
        torch.testing.assert_close(trained.weight, net.weight)

    def test_members_start_at_weights_of_their_own_that_the_layers_draw(self):
        net = nn.Sequential(nn.Linear(4, 50), nn.Tanh(), nn.Linear(50, 3))
        before = [parameter.clone() for parameter in net.parameters()]
        state = torch.get_rng_state()
        positions = self.start(net, members=3)
        assert torch.equal(torch.get_rng_state(), state)
        for parameter, value in zip(net.parameters(), before, strict=True):
            assert torch.equal(parameter, value)
        assert (positions[0] - positions[1]).abs().max() > 0.1
        # Of nn.Linear: uniform within 1 / sqrt(inputs), which is 1/2 in the first layer.
        assert 0.45 < positions[:, :200].abs().max() <= 0.5
        assert positions[:, 250:].abs().max() <= 50**-0.5
        torch.testing.assert_close(self.start(net, members=2), positions[:2])
        assert (self.start(net, members=1, seed=1) - positions[:1]).abs().max() > 0.1

    def test_all_members_may_start_at_the_model(self):
        net = nn.Linear(4, 3)
        positions = self.start(net, members=2, initial="model")
        torch.testing.assert_close(positions[0, :12], net.weight.detach().flatten())
        torch.testing.assert_close(positions[0], positions[1])

    def test_what_is_not_trained_is_not_drawn(self):
        net = nn.Sequential(NoReset(), nn.Linear(3, 3))
        ensemble = sbmc.train_ensemble(
            net, self.DATA, members=2, parameters="last", max_epochs=1, progress=False
        )
        assert (ensemble[0][0].weight == 1).all()

    def test_layers_that_cannot_draw_their_weights_are_refused_in_words(self):
        net = nn.Sequential(nn.Linear(4, 4), NoReset())
        words = r"`initial` must be 'model' or 'prior'.*`reset_parameters` \(1: NoReset\).*'reset'"
        with pytest.raises(BadInput, match=words):
            self.start(net, members=2)
        assert len(self.start(net, members=2, initial="model")) == 2

    @pytest.mark.parametrize("layer", [nn.BatchNorm1d(4), nn.MultiheadAttention(4, 1)])
    def test_layers_of_torch_can(self, layer):
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer, self.last = layer, nn.Linear(4, 3)

            def forward(self, x):
                attends = isinstance(self.layer, nn.MultiheadAttention)
                return self.last(self.layer(x, x, x)[0] if attends else self.layer(x))

        positions = self.start(Net(), members=2)
        assert not torch.equal(positions[0], positions[1])

    def test_the_studies_still_begin_at_the_prior(self):
        """Their records say nothing of it, and must be what they were."""
        settings = dict.fromkeys((*TRAINING_SETTINGS, "islands"), 1)
        context = Context(RunSpec("digits", "map", settings, 0), None, None, Resources())
        assert context._training()["initial"] == "prior"
