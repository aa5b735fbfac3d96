"""Prediction in C gives what the model gives; a wrong chain is found out and not used."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

from sbmc.model.forward import build_forward
from sbmc.model.kernels.native.chain import ChainKernel
from sbmc.model.parameters import select_parameters
from sbmc.model.predicting import BATCH_OF_ONE_LAYER, Predictor

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")),
    reason="no C compiler",
)
NETWORKS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3)), (5,)),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64, 3),
        ),
        (1, 8, 8),
    ),
}


def make(name, examples=70, particles=13):
    build, shape = NETWORKS[name]
    torch.manual_seed(3)
    net = build()
    space = select_parameters(net)
    inputs = torch.randn(examples, *shape)
    theta = space.flatten(net) + 0.1 * torch.randn(particles, space.dim)
    return build_forward(net, space, inputs[:2], gradient=False), theta, inputs


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("examples", "particles"), [(1, 1), (70, 13), (201, 3)])
@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_in_parts_are_those_of_the_model(name, examples, particles, threads, monkeypatch):
    monkeypatch.setattr("sbmc.model.predicting.PARTICLES_AT_ONCE", 2)
    monkeypatch.setattr("sbmc.model.predicting.MOST_AT_ONCE", 2)
    forward, theta, inputs = make(name, examples, particles)
    predictor = Predictor.build(forward, theta[0], inputs)
    assert predictor.kernel is not None
    assert predictor.batch % predictor.kernel.batch == 0
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            parts = list(predictor.outputs(theta, inputs))
            expected = forward(theta, forward.prepare(inputs))
    finally:
        torch.set_num_threads(before)
    assert [part.start for part, _ in parts] == list(range(0, particles, 2))
    whole = torch.cat([outputs for _, outputs in parts])
    assert whole.shape == expected.shape
    assert float((whole - expected).abs().max()) <= 1e-5 * float(expected.abs().max())


@needs_compiler
def test_a_wrong_chain_is_not_used(monkeypatch):
    forward, theta, inputs = make("mlp")
    outputs = ChainKernel.outputs
    monkeypatch.setattr(ChainKernel, "outputs", lambda *args: outputs(*args) * 1.01)
    assert Predictor.build(forward, theta[0], inputs).kernel is None


def test_without_the_c_code_the_model_itself_is_used(monkeypatch):
    monkeypatch.setenv("SBMC_NATIVE", "0")
    forward, theta, inputs = make("mlp")
    predictor = Predictor.build(forward, theta[0], inputs)
    assert predictor.kernel is None
    with torch.no_grad():
        whole = torch.cat([outputs for _, outputs in predictor.outputs(theta, inputs)])
        torch.testing.assert_close(whole, forward(theta, forward.prepare(inputs)))


def test_a_head_takes_more_examples_at_once():
    net = nn.Sequential(nn.Linear(5, 3))
    space = select_parameters(net)
    inputs = torch.randn(9, 5)
    forward = build_forward(net, space, inputs[:2], gradient=False)
    predictor = Predictor.build(forward, space.flatten(net), inputs)
    assert (predictor.kernel, predictor.batch) == (None, BATCH_OF_ONE_LAYER)
