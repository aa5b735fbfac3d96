"""Networks of the gauntlet are trained as torch's optimisers would, by one engine for all."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sbmc.training.members import COMPILED, ONE_BY_ONE
from sbmc_studies.gauntlet import fitted, training
from sbmc_studies.gauntlet.data import load_pair_data
from sbmc_studies.gauntlet.fitted import PairRun
from sbmc_studies.gauntlet.pairs import get_pair
from sbmc_studies.gauntlet.training import BATCHES, Trained, train_batch

TORCH = {
    "adam": lambda weights, **settings: torch.optim.Adam(weights, **settings),
    "adamw": lambda weights, **settings: torch.optim.AdamW(weights, **settings),
    "sgd": lambda weights, **settings: torch.optim.SGD(weights, momentum=0.9, **settings),
}


def shortened(name, epochs=1, **training):
    pair = get_pair(name)
    return pair.__class__(
        **{**vars(pair), "training": {**pair.training, "epochs": epochs, **training}}
    )


@pytest.mark.parametrize("optimiser", TORCH)
@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_a_pair_is_trained_as_a_loop_of_torch_does(optimiser, decay):
    """All data in one batch, so that their order does not matter; five epochs are five steps."""
    torch.manual_seed(0)
    inputs = torch.randn(30, 4)
    labels = (inputs[:, 0] + 0.3 * torch.randn(30) > 0).long()
    settings = {"optimiser": optimiser, "learning_rate": 0.05, "weight_decay": decay}
    settings |= {"momentum": 0.9, "epochs": 5, "batch_size": 30}
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    (ours,) = training._train([net], (inputs, labels), settings, seed=0)
    step = TORCH[optimiser](net.parameters(), lr=0.05, weight_decay=decay)
    for _ in range(5):
        step.zero_grad()
        F.cross_entropy(net(inputs), labels).backward()
        step.step()
    for mine, theirs in zip(ours.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_members_are_trained_once_in_fixed_batches_and_the_network_is_the_first(monkeypatch):
    made = []

    def batch(pair, data, seed, members):
        made.append(members)
        return [Trained(nn.Identity(), 1, 2.0, COMPILED) for _ in members]

    monkeypatch.setattr(fitted, "train_batch", batch)
    run = PairRun(get_pair("digits-mlp-2x64"), None, seed=0)
    five, network, ten = run.trained(5), run.network, run.trained(10)
    assert made == list(BATCHES)
    assert [len(five), len(ten)] == [5, 10]
    assert network is five[0]
    assert all(a is b for a, b in zip(five, ten[:5], strict=True))


def test_a_member_is_the_same_whenever_it_is_trained_and_others_differ():
    pair, data = shortened("digits-mlp-2x64"), load_pair_data("digits", 0)
    once, again = (train_batch(pair, data, 0, BATCHES[1]) for _ in range(2))
    (network,) = train_batch(pair, data, 0, BATCHES[0])
    weights = [each.model[1].weight for each in [network, *once]]
    for one, other in zip(once, again, strict=True):
        assert torch.equal(one.model[1].weight, other.model[1].weight)
    for index, weight in enumerate(weights):
        assert not any(torch.equal(weight, other) for other in weights[:index])
    assert network.engine == COMPILED
    assert [each.model.history.member for each in once] == [1, 2, 3, 4]
    assert network.model.history.epochs == network.epochs == 1


def test_batch_norm_is_trained_in_training_mode():
    pair, data = shortened("digits-resnet"), load_pair_data("digits", 0)
    (network,) = train_batch(pair, data, 0, BATCHES[0])
    assert network.engine == ONE_BY_ONE
    assert int(network.model.norm.num_batches_tracked) > 0
    assert not network.model.training
