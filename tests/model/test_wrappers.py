"""Networks inside the wrappers of torch give the same posterior as the networks themselves."""

from __future__ import annotations

import logging
import warnings

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

import sbmc
from sbmc.model.wrappers import unwrapped

INPUTS = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
DATA = (INPUTS, torch.arange(12) % 2)


def make_net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def compiled(net):
    # torch's own import of its compiler uses what torch has deprecated.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.compile(net, backend="eager")


def distributed(net):
    """As it is among several processes, without a group of them."""
    wrapper = DistributedDataParallel.__new__(DistributedDataParallel)
    nn.Module.__init__(wrapper)
    wrapper.module = net
    return wrapper


WRAPPERS = {
    "compiled": compiled,
    "averaged": AveragedModel,
    "data parallel": nn.DataParallel,
    "distributed": distributed,
    "several": lambda net: nn.DataParallel(compiled(net)),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_fit_samples_the_network_inside(wrap):
    options = {"s": 0.5, "sampler": sbmc.HMC(steps=4), "particles": 2, "progress": False}
    expected = sbmc.fit(make_net(), DATA, **options)
    given = sbmc.fit(wrap(make_net()), DATA, **options)
    assert torch.equal(given.positions, expected.positions)
    assert given.space.names == expected.space.names
    assert torch.equal(given.predict(INPUTS).probs, expected.predict(INPUTS).probs)


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_so_do_training_anchors_and_loading(wrap, tmp_path):
    trained = sbmc.train_map(wrap(make_net()), DATA, max_epochs=2, progress=False)
    expected = sbmc.train_map(make_net(), DATA, max_epochs=2, progress=False)
    assert torch.equal(trained[0].weight, expected[0].weight)
    options = {"sampler": sbmc.HMC(steps=4), "particles": 2, "progress": False}
    posterior = sbmc.fit(make_net(), DATA, anchors=[wrap(make_net())], s=0.5, **options)
    posterior.save(tmp_path / "posterior")
    loaded = sbmc.load(tmp_path / "posterior", wrap(make_net()))
    assert torch.equal(loaded.predict(INPUTS).probs, posterior.predict(INPUTS).probs)


def test_the_log_says_so(caplog):
    net = make_net()
    with caplog.at_level(logging.INFO, logger="sbmc"):
        assert unwrapped(nn.DataParallel(net)) is net
    assert caplog.messages == ["model: took the Sequential out of its DataParallel"]


def test_a_network_of_ones_own_with_a_part_called_module_stays_whole():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = nn.Linear(3, 2)

    own = Own()
    assert unwrapped(own) is own
    assert unwrapped("no module") == "no module"
