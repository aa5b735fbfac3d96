"""What `sbmc.explain` says of a model is what happens."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.model.kernels.native import chain
from sbmc.model.kernels.native.plan import NotAChain


def compiled():
    try:
        chain.library()
    except NotAChain:
        return False
    return True


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)
        self.fc1, self.fc2 = nn.Linear(48, 5), nn.Linear(5, 2)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.fc2(torch.tanh(self.fc1(x.flatten(1))))


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        y = self.fc(x)
        return y if y.sum() > 0 else -y


IMAGES = torch.linspace(-1, 1, 7 * 36).view(7, 1, 6, 6)


@pytest.mark.skipif(not compiled(), reason="there is no C compiler here")
def test_a_chain_runs_in_c(capsys):
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.ReLU(), nn.Linear(4, 3))
    found = sbmc.explain(net, IMAGES)
    assert (found.path, found.kernel, found.reasons) == ("fused", "chain", ())
    assert [layer[:2] for layer in found.layers] == [("1", "linear"), ("", "relu"), ("3", "linear")]
    assert {layer.way for layer in found.layers} == {"C, the whole chain"}
    printed = capsys.readouterr().out
    assert printed == f"{found}\n"
    assert "measured on all 7 examples" in printed


def test_a_folded_norm_and_the_frozen_part():
    net = Net()
    everything = sbmc.explain(net, (IMAGES, torch.zeros(7, dtype=torch.long)), particles=3)
    ways = {layer.name: layer.way for layer in everything.layers}
    assert ways["norm"] == "folded into the layer before it"
    assert ways["fc1"] == "all particles at once"
    assert everything.reasons == ("not a chain of layers: batch_norm (1)",)
    assert everything.particles == 3
    top = sbmc.explain(net, IMAGES, parameters="fc2")
    ways = {layer.name: layer.way for layer in top.layers}
    assert ways["conv"] == ways["norm"] == ways["fc1"] == "frozen, computed once"
    assert ways["fc2"] != ways["fc1"]
    assert top.frozen_below == "'fc2'"


@pytest.mark.parametrize("path", ["vmap", "loop"])
def test_a_forced_path_is_named(path):
    found = sbmc.explain(Net(), IMAGES, path=path)
    assert found.path == path
    assert {layer.way for layer in found.layers} == {path}


def test_what_cannot_be_recorded_says_why_and_what_to_do():
    found = sbmc.explain(Branching(), torch.ones(5, 4))
    assert found.path == "loop"
    assert found.layers == (("fc", "Linear", "loop"),)
    assert found.reasons[0].startswith("fused: Python code that looks at values; vmap: ")
    assert any("let no Python code look at values" in line for line in found.advice)


def test_time_is_scaled_to_all_examples(monkeypatch):
    monkeypatch.setattr("sbmc.target.explanation.MEASURED", 10)
    monkeypatch.setattr("sbmc.target.explanation._seconds", lambda *_: 0.5)
    found = sbmc.explain(nn.Linear(4, 2), torch.ones(40, 4))
    assert (found.measured_examples, found.examples) == (10, 40)
    assert math.isclose(found.seconds_per_epoch, 2.0)
    assert "measured on 10 of 40 examples and scaled" in str(found)


def test_double_precision_gets_advice():
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    found = sbmc.explain(net, torch.ones(5, 4).double())
    assert any("float32 runs in C" in line for line in found.advice)


def test_regression_and_other_inputs():
    found = sbmc.explain(
        nn.Linear(4, 2), {"input": torch.ones(5, 4)}, likelihood=sbmc.Gaussian(noise_variance=0.1)
    )
    assert found.path == "fused"


def test_a_notebook_shows_a_table():
    page = sbmc.explain(nn.Linear(4, 2), torch.ones(5, 4))._repr_html_()
    assert page.startswith("<table>")
    assert ">linear</td>" in page


def test_bad_arguments_are_refused():
    with pytest.raises(BadInput, match="`particles` must be a positive integer, but got 0"):
        sbmc.explain(nn.Linear(4, 2), torch.ones(5, 4), particles=0)


def test_the_settings_of_a_posterior_say_why():
    sampler = sbmc.HMC(steps=2, leapfrog=1, step_size=0.1)
    data = torch.randn(12, 4), torch.arange(12) % 2
    with pytest.warns(sbmc.HealthWarning):
        posterior = sbmc.fit(Branching(), data, sampler=sampler, particles=2, progress=False)
    assert posterior.settings["path"] == "loop"
    assert "Python code that looks at values" in posterior.settings["path_reason"]
    assert posterior.settings["frozen_below"] == ""
