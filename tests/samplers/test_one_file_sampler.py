"""A sampler is one file: what it states of itself is all that forecasts and the verdict need."""

import ast
import importlib.util
import json
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import forked
import pytest
import torch
from every_sampler import discover
from repository import ROOT
from torch import nn

import sbmc
from sbmc.samplers.contract import VECTORS, EvaluationCount, Sampler

FILE = Path(__file__).with_name("midpoint.py")
INPUTS = torch.randn(400, 3, generator=torch.Generator().manual_seed(1))
EXAMPLES = INPUTS, (INPUTS[:, 0] + 0.3 * INPUTS[:, 1] > 0).long()


def load():
    """The module, as a user's file anywhere on disk."""
    spec = importlib.util.spec_from_file_location("midpoint", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["midpoint"] = module  # where dataclasses look annotations up
    spec.loader.exec_module(module)
    return module


Midpoint = load().Midpoint


@pytest.fixture
def net():
    torch.manual_seed(2)
    return nn.Linear(3, 2)


@pytest.fixture
def fixed_memory(monkeypatch):
    """What this process holds before is measured, and would differ from call to call."""
    monkeypatch.setattr("sbmc.islands.memory_budget.resident_bytes", lambda: 10**9)


def test_it_is_one_short_file_that_names_nothing_beyond_samplers():
    text = FILE.read_text("utf-8")
    code = [line for line in text.splitlines() if line.strip()]
    assert len(code) <= 66
    imported = re.findall(r"^from (sbmc[.\w]*) import", text, re.MULTILINE)
    assert all(name == "sbmc.checks" or name.startswith("sbmc.samplers.") for name in imported)


@pytest.mark.parametrize("settings", [{}, {"steps": 7, "draws": 3}])
def test_the_forecast_of_epochs_is_what_the_run_spends(net, settings):
    compute = sbmc.Compute(anchor_epochs=5)
    options = {"sampler": Midpoint(**settings), "particles": 4, "islands": 3, "compute": compute}
    expected = sbmc.expect(net, EXAMPLES, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        posterior = sbmc.fit(net, EXAMPLES, progress=False, **options)
    cost = posterior.cost
    steps = options["sampler"].steps
    assert (expected.epochs, expected.forward_epochs) == (2 * steps, 1)
    assert (cost.epochs, cost.forward_epochs) == (2 * steps, 1)
    assert expected.total_epochs == 12 * (2 * steps + 1) + 5
    assert expected.total_epochs - 12 == cost.total_epochs  # which counts those with gradient
    assert expected.notes == ()
    assert expected.seconds > 0


def test_the_forecast_of_memory_counts_its_vectors_and_draws(net, fixed_memory, tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Heavier(Midpoint):
        vectors = Midpoint.vectors + 10

    @dataclass(frozen=True, kw_only=True)
    class WithTable(Midpoint):
        def further_bytes(self, positions, dim, data):
            return positions * 1000 + dim * 100 + data

    def forecast(sampler, **options):
        return sbmc.expect(net, EXAMPLES, sampler=sampler, particles=50, islands=2, **options)

    positions, width, data = 100, 4 * 8, 4 * 400 * 3 + 8 * 400
    usual = forecast(Midpoint())
    assert forecast(Heavier()).bytes - usual.bytes == 10 * positions * width
    table = positions * 1000 + 8 * 100 + data
    assert forecast(WithTable()).bytes - usual.bytes == table
    # A draw is held by its chain, and once more as a result.
    assert forecast(Midpoint(draws=6)).bytes - usual.bytes == 5 * 2 * positions * width
    # Position and gradient, and six draws; a file is written beside the one that it replaces.
    saved = forecast(Midpoint(draws=6), compute=sbmc.Compute(checkpoint=tmp_path / "run"))
    assert saved.disk_bytes == 2 * (2 + 6) * positions * width


MEASURED = """
import json, sys, torch, sbmc
from torch import nn
from sbmc.islands.process_memory import peak_bytes, resident_bytes
sys.path.insert(0, sys.argv[1])
from midpoint import Midpoint
torch.manual_seed(0)
torch.set_num_threads(1)  # what several threads hold depends on which of them wait for a core
net = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
data = torch.randn(60, 784), torch.randint(10, (60,))
options = dict(sampler=Midpoint(steps=2, step_size=1e-6), particles=100)
before = resident_bytes()
expected = sbmc.expect(net, data, **options)
sbmc.fit(net, data, progress=False, **options)
print(json.dumps({"grown": peak_bytes() - before, "expected": expected.bytes - before}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured otherwise elsewhere")
def test_the_forecast_of_memory_is_what_the_process_takes():
    done = forked.run(["-W", "ignore", "-c", MEASURED, FILE.parent], check=True)
    taken = json.loads(done.stdout)
    print(taken)
    assert taken["grown"] / 1.5 < taken["expected"] < taken["grown"] * 1.5
    # A planted bug: with as many vectors as a step of HMC takes, it would have been wrong.
    planted = taken["expected"] + (VECTORS - Midpoint.vectors) * 100 * 79_510 * 4
    assert planted > taken["grown"] * 1.5


def test_its_posterior_is_ok(net):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = sbmc.fit(
            net, EXAMPLES, s=1, sampler=Midpoint(steps=200), islands=2, progress=False
        )
    assert posterior.health.ok is True
    assert posterior.health.figures["acceptance"] is None  # nothing is rejected


def test_a_run_that_is_too_short_gets_the_remedy_that_the_file_names(net):
    with pytest.warns(sbmc.HealthWarning):
        posterior = sbmc.fit(
            net, EXAMPLES, sampler=Midpoint(steps=3, step_size=1e-6), progress=False
        )
    assert posterior.health.ok is False
    assert posterior.health.remedies == (
        "Let the diffusion run longer: sampler=Midpoint(steps=12, step_size=1e-06).",
    )


def test_batches_that_are_stated_count_in_memory_and_time(net, fixed_memory):
    @dataclass(frozen=True, kw_only=True)
    class OnBatches(Midpoint):
        batch_size: int = 40

    alone = sbmc.expect(net, EXAMPLES, sampler=Midpoint(), particles=4)
    batched = sbmc.expect(net, EXAMPLES, sampler=OnBatches(), particles=4)
    # What a mini-batch takes on its way through the model, of every chain its own.
    assert batched.bytes > alone.bytes + 2**20
    assert batched.seconds > 0


def test_a_pilot_that_is_stated_is_run_once_and_saved(net, tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Piloted(Midpoint):
        pilot: bool = True

        def learn(self, target, rng, start):
            assert start.shape == (4, target.dim)
            size = 1e-3 * (1 + float(rng.uniform_per_island()))
            return {"step_size": size, "epochs": 0, "forward_epochs": 0}

        def check_learned(self, learned):
            if not learned["step_size"] > 0:
                raise ValueError("its step size is not positive")

        def frozen_with(self, learned):
            return Midpoint(steps=self.steps, step_size=learned["step_size"])

    options = {"sampler": Piloted(steps=40), "particles": 4, "progress": False}
    compute = sbmc.Compute(checkpoint=tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        first = sbmc.fit(net, EXAMPLES, **options)
        saved = [sbmc.fit(net, EXAMPLES, islands=n, compute=compute, **options) for n in (1, 2)]
    size = first.settings["frozen"]["step_size"]
    assert 1e-3 < size < 2e-3
    assert [each.settings["frozen"]["step_size"] for each in saved] == [size, size]
    assert torch.equal(saved[1].positions[:1], first.positions)
    file = tmp_path / "run" / "pilot.json"
    file.write_text(json.dumps({"step_size": -1, "epochs": 0, "forward_epochs": 0}))
    with pytest.raises(sbmc.BadInput, match="its step size is not positive"):
        sbmc.fit(net, EXAMPLES, islands=3, compute=compute, **options)


def test_a_sampler_that_states_nothing_is_a_guess_and_says_so():
    class Silent(Sampler):
        steps = 9

    guess = Silent().evaluations()
    assert guess == EvaluationCount(9, 0, ("Silent: as its settings say",))
    assert Silent.remedies(["stayed"], {}, None)[0].startswith("Give the chains a longer run")


def asks_which_sampler(text):
    """Lines that ask for a kind of sampler by its class; whether it is a `Sampler` may be asked."""
    kinds = {"ChainSettings", "StochasticGradient", *(kind.__name__ for kind in discover())}
    lines = []
    for call in ast.walk(ast.parse(text)):
        name = getattr(getattr(call, "func", None), "id", "")
        if name in ("isinstance", "issubclass"):
            asked = re.findall(r"\w+", ast.unparse(call.args[1]))
            lines += [call.lineno] if kinds & set(asked) else []
    return lines


def test_nothing_outside_the_samplers_asks_which_one_it_has():
    asking = {
        str(path.relative_to(ROOT)): asks_which_sampler(path.read_text("utf-8"))
        for path in (ROOT / "sbmc").rglob("*.py")
        if "samplers" not in path.relative_to(ROOT).parts
    }
    assert {path: lines for path, lines in asking.items() if lines} == {}
    planted = "x = isinstance(sampler, Sampler)\ny = issubclass(kind, (int, samplers.NUTS))\n"
    assert asks_which_sampler(planted) == [2]
