"""torch does not ask our users to file issues about its batching rules."""

import pytest
import torch
from torch import nn

import sbmc
from sbmc.model.fallbacks import without_fallback_warnings
from sbmc.model.parameters import select_parameters
from sbmc.model.vmap import VmapForward

ASKS = "Please file us an issue"


class Renormed(nn.Module):
    """A network with an operation that has no batching rule."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, inputs):
        return torch.renorm(self.layer(inputs), 1, 0, 1.0)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, inputs):
        return self.head(self.cells(inputs)[0][:, -1])


def by_hand():
    torch.func.vmap(lambda rows: torch.renorm(rows, 1, 0, 1.0))(torch.ones(2, 2, 3))


def test_our_calls_are_silent_and_those_of_others_are_not():
    net = Renormed()
    space = select_parameters(net)
    # Warnings are errors in tests: this one would raise.
    VmapForward(net, space)(space.flatten(net).expand(2, -1), torch.ones(2, 3))
    with pytest.warns(UserWarning, match=ASKS):
        by_hand()


def test_the_warnings_come_back_after_the_last_of_several_calls():
    with without_fallback_warnings():
        with without_fallback_warnings():
            pass
        by_hand()
    with pytest.warns(UserWarning, match=ASKS):
        by_hand()


def test_a_recurrent_network_is_sampled_in_silence(capfd):
    inputs = torch.randn(20, 5, 3, generator=torch.Generator().manual_seed(0))
    options = {"s": 0.1, "sampler": sbmc.HMC(steps=16), "particles": 2, "progress": False}
    posterior = sbmc.fit(Recurrent(), (inputs, torch.arange(20) % 2), **options)
    posterior.predict(inputs)
    # Threads of torch's own write it past Python's warnings.
    assert ASKS not in capfd.readouterr().err
