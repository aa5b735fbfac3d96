"""Sampling the final layer alone: the rest is computed once, with the same result."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import sbmc
from sbmc.model.forward import build_forward
from sbmc.model.frozen_part import BODY_BATCH, split_model
from sbmc.model.loop import LoopForward
from sbmc.model.parameters import select_parameters


class Net(nn.Module):
    """A body that notes each batch it is given, and a head."""

    batches: list[int] = []  # noqa: RUF012 (shared by the copies that are made of the model)

    def __init__(self, end=lambda logits: logits):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5))
        self.head = nn.Linear(6, 3)
        self.end = end

    def forward(self, x):
        Net.batches.append(len(x))
        return self.end(self.head(self.body(x)))


@pytest.fixture
def data():
    Net.batches.clear()
    noise = torch.Generator().manual_seed(1)
    return torch.randn(20, 4, generator=noise), torch.randint(3, (20,), generator=noise)


def in_place(logits):
    logits *= 2
    return logits


def split(net, inputs, parameters="last"):
    return split_model(net, select_parameters(net, parameters), inputs)


@pytest.mark.parametrize("parameters", ["last", "head.weight", "head.bias"])
def test_the_head_on_features_gives_what_the_model_gives(data, parameters):
    net = Net()
    space = select_parameters(net, parameters)
    cut = split_model(net, space, data[0])
    assert cut is not None
    theta = torch.randn(5, space.dim)
    forward = build_forward(cut.head, cut.space, cut.features(data[0][:2]))
    assert forward.path == "fused"
    expected = LoopForward(net, space)(theta, data[0])
    torch.testing.assert_close(forward(theta, cut.features(data[0])), expected)


def test_features_go_through_in_batches():
    Net.batches.clear()
    inputs = torch.randn(2 * BODY_BATCH + 3, 4)
    cut = split(Net(), inputs)
    Net.batches.clear()
    assert cut.features(inputs).shape == (len(inputs), 6)
    assert Net.batches == [BODY_BATCH, BODY_BATCH, 3]
    assert not cut.features(inputs).requires_grad


def test_objects_with_logits_are_cut_too(data):
    assert split(Net(lambda logits: SimpleNamespace(logits=logits)), data[0]) is not None


class Twice(Net):
    def forward(self, x):
        return self.head(self.body(x)) + self.head(self.body(-x))


class Overwritten(Net):
    """Its features are changed after the head has read them."""

    def forward(self, x):
        features = self.body(x)
        logits = self.head(features)
        features.zero_()
        return logits


class TiedHead(nn.Module):
    """The head's weights are also the body's, under a name that comes later."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4, bias=False)
        self.body = nn.Linear(4, 4, bias=False)
        self.body.weight = self.head.weight

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class Keyword(Net):
    def forward(self, x):
        return self.head(input=self.body(x))


@pytest.mark.parametrize(
    ("build", "parameters"),
    [
        (Net, "all"),
        (Net, "body.0"),  # one layer, but not the final one
        (lambda: Net(torch.relu), "last"),
        (lambda: Net(in_place), "last"),
        (Twice, "last"),
        (Overwritten, "last"),
        (TiedHead, "all"),
        (Keyword, "last"),
        (lambda: nn.Linear(4, 3), "last"),  # nothing in front
    ],
)
def test_models_that_cannot_be_cut(build, parameters, data):
    assert split(build(), data[0], parameters) is None


def fitted(net, data, parameters="last", **options):
    settings = {"sampler": sbmc.HMC(steps=4, leapfrog=2, step_size=0.1), "particles": 3}
    return sbmc.fit(net, data, parameters=parameters, **settings, **options)


def test_the_body_runs_once_over_the_data_however_long_the_sampling(data):
    net = Net()
    posterior = fitted(net, data)
    # Besides, a few examples on which the model is tried.
    assert Net.batches.count(20) == 1
    assert all(size <= 3 for size in Net.batches if size != 20)
    Net.batches.clear()
    posterior.predict(data[0])
    assert Net.batches.count(20) == 1


def test_cached_is_uncached(data, monkeypatch):
    net = Net().double()
    cached = fitted(net, data)
    for module in ("sbmc.target.builder", "sbmc.posterior.posterior"):
        monkeypatch.setattr(importlib.import_module(module), "split_model", lambda *_: None)
    plain = fitted(net, data)
    assert plain.settings["kernel"] is None  # where the head alone would have one
    assert cached.settings["kernel"] is not None
    torch.testing.assert_close(cached.positions, plain.positions, rtol=1e-9, atol=1e-12)
    ours, theirs = cached.predict(data[0]).probs, plain.predict(data[0]).probs
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("build", [lambda: Net(torch.tanh), Twice])
def test_sampling_the_last_layer_where_nothing_can_be_cached(build, data):
    posterior = fitted(build(), data)
    assert posterior.positions.shape == (1, 3, 21)
    assert posterior.predict(data[0]).probs.shape == (20, 3)
