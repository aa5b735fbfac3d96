"""What `expect` says of a run, against the run."""

import json
import sys
import time
from dataclasses import replace

import forked
import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.fitting.forecast import PATIENCE, _seconds, format_bytes, format_seconds

DATA = torch.randn(30, 3, generator=torch.Generator().manual_seed(1))
LABELS = (DATA[:, 0] > 0).long()
EXAMPLES = DATA, LABELS


@pytest.fixture
def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


# What they cost is known to the last evaluation.
KNOWN = {
    "hmc by epochs": sbmc.HMC(epochs=23),
    "hmc by default": sbmc.HMC(),
    "hmc by steps": sbmc.HMC(steps=5, leapfrog=3, step_size=0.1),
    "hmc preconditioned": sbmc.HMC(steps=4, leapfrog=2, step_size=0.1, precondition=2),
    "hmc scouted": sbmc.HMC(steps=4, leapfrog=2, step_size=0.1, scout=3, scout_step_size=0.05),
    "mala": sbmc.MALA(steps=6, step_size=0.1),
    "ghmc": sbmc.GHMC(steps=3, leapfrog=2, step_size=0.1, friction=1.0),
    "pcn": sbmc.PCN(steps=7, step_size=0.1),
    "sghmc": sbmc.SGHMC(epochs=4, batch_size=7, step_size=0.01),
    "sgld": sbmc.SGLD(epochs=3, batch_size=30, step_size=0.001),
    "ubu": sbmc.UBU(epochs=2, batch_size=8, step_size=0.01),
    "smc with a schedule": sbmc.SMC(
        temperatures=(0.1, 0.4, 1.0), mutations=(1, 2, 3), move=sbmc.HMC(leapfrog=2, step_size=0.1)
    ),
}


@pytest.mark.filterwarnings("ignore:The evidence leaves", "ignore:The population")
@pytest.mark.parametrize("name", KNOWN)
def test_epochs_are_those_of_the_run(net, name):
    options = {"sampler": KNOWN[name], "particles": 3, "islands": 2}
    options["compute"] = sbmc.Compute(anchor_epochs=11)
    expected = sbmc.expect(net, EXAMPLES, **options)
    cost = sbmc.fit(net, EXAMPLES, progress=False, **options).cost
    assert (expected.epochs, expected.forward_epochs) == (cost.epochs, cost.forward_epochs)
    # the posterior's total counts evaluations with gradient
    assert expected.total_epochs - 6 * expected.forward_epochs == cost.total_epochs
    assert expected.notes == ()
    assert expected.seconds > 0


@pytest.mark.filterwarnings("ignore:The evidence leaves", "ignore:The population")
def test_what_is_not_known_is_a_note():
    smc = sbmc.SMC(mutations=4).evaluations()
    assert "4 epochs each, 15 of them assumed" in smc.notes[0]
    assert smc.gradient == 1 + 4 * 15 + 12
    search = sbmc.HMC(steps=5, leapfrog=1).evaluations()
    assert (search.gradient, search.notes) == (
        18,
        ("the search for a step size: 12 epochs at most",),
    )
    length = sbmc.HMC(steps=5, trajectory=1.0, step_size=0.25).evaluations()
    assert length.gradient == 21
    assert "it adapts" in length.notes[0]
    nuts = sbmc.NUTS(warmup_draws=3, draws=2, max_depth=3).evaluations()
    assert nuts.gradient == 5 * 7
    assert "at most" in nuts.notes[0]
    assert any("pilot" in note for note in sbmc.SMC(pilot=True).evaluations().notes)


def test_an_upper_bound_is_one(net):
    sampler = sbmc.HMC(steps=5, leapfrog=1)
    expected = sbmc.expect(net, EXAMPLES, sampler=sampler)
    cost = sbmc.fit(net, EXAMPLES, sampler=sampler, progress=False).cost
    assert 6 < cost.epochs <= expected.epochs


def test_workers_share_the_time_and_not_the_memory(net):
    options = {"islands": 8, "particles": 20, "sampler": sbmc.HMC(epochs=160)}
    executors = [
        sbmc.InProcess(fold=1, threads=1),
        sbmc.Processes(workers=4, threads=1),
        sbmc.Processes(workers=40, threads=1),
    ]
    alone, four, many = (
        sbmc.expect(net, EXAMPLES, compute=sbmc.Compute(executor=executor), **options)
        for executor in executors
    )
    assert (alone.workers, four.workers, many.workers) == (1, 4, 8)
    assert (alone.batches, four.batches) == (8, 8)
    assert alone.total_epochs == four.total_epochs == many.total_epochs == 160 * 160
    assert four.total_bytes > 4 * four.bytes
    assert alone.total_bytes == alone.bytes
    folded = sbmc.expect(net, EXAMPLES, **options)
    assert (folded.batches, folded.workers) == (1, 1)


def test_a_time_is_extrapolated_where_it_would_take_too_long(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("sbmc.fitting.forecast.time.perf_counter", lambda: clock[0])

    def evaluate(positions):
        clock[0] += 0.1 * len(positions)

    assert _seconds(evaluate, torch.zeros(1000, 1)) == pytest.approx(100)
    assert clock[0] < PATIENCE
    clock[0] = 0.0
    assert _seconds(evaluate, torch.zeros(5, 1)) == pytest.approx(0.5)


def test_nothing_is_written_and_nothing_changed(net, tmp_path):
    before = [parameter.clone() for parameter in net.parameters()]
    torch.manual_seed(5)
    expected = sbmc.expect(
        net, EXAMPLES, islands=3, compute=sbmc.Compute(checkpoint=tmp_path / "run"), seed=4
    )
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))  # no global noise is used
    assert not list(tmp_path.iterdir())
    assert expected.disk_bytes > 3 * 10 * 26 * 4
    assert sbmc.expect(net, EXAMPLES).disk_bytes == 0
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_disk_holds_what_a_run_leaves_there(net, tmp_path):
    options = {"sampler": sbmc.HMC(steps=2, step_size=0.1), "particles": 400, "islands": 2}
    options["compute"] = sbmc.Compute(checkpoint=tmp_path / "run")
    expected = sbmc.expect(net, EXAMPLES, **options)
    sbmc.fit(net, EXAMPLES, progress=False, **options)
    # beside positions there are reports and headers, of a few kilobytes each
    taken = sum(path.stat().st_size for path in tmp_path.rglob("island-*"))
    assert taken < expected.disk_bytes < 12 * taken


def test_s_zero_takes_nothing(net):
    nothing = sbmc.expect(net, EXAMPLES, s=0, compute=sbmc.Compute(anchor_epochs=5))
    assert (nothing.epochs, nothing.seconds, nothing.disk_bytes) == (0, 0, 0)
    assert nothing.total_epochs == 5


def test_it_can_be_read(net):
    text = str(sbmc.expect(net, EXAMPLES, islands=2, sampler=sbmc.SMC(mutations=2)))
    for word in ("islands", "epochs", "time", "memory", "disk", "note", "assumed"):
        assert word in text
    assert (format_seconds(59), format_seconds(6000)) == ("59.0 s", "1.7 h")
    assert format_bytes(10_000) == "10.0 kB"


def test_what_fit_refuses_is_refused(net):
    with pytest.raises(BadInput, match="`s` must be"):
        sbmc.expect(net, EXAMPLES, s=2)
    with pytest.raises(BadInput, match="`executor` must be"):
        sbmc.expect(net, EXAMPLES, compute=sbmc.Compute(executor="elsewhere"))
    with pytest.raises(TypeError, match="steps"):
        sbmc.expect(net, EXAMPLES, steps=3)


MEDIUM = """
import json, resource, torch, sbmc
from torch import nn
from sbmc.fitting.forecast import resident_bytes
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
data = torch.randn(200, 784), torch.randint(10, (200,))
options = dict(sampler=sbmc.HMC(steps=2, leapfrog=1, step_size=1e-3), particles=40)
before = resident_bytes()
expected = sbmc.expect(net, data, **options)
sbmc.fit(net, data, progress=False, **options)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"before": before, "expected": expected.bytes, "peak": peak}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
def test_memory_is_within_a_factor_of_two():
    found = json.loads(forked.run(["-c", MEDIUM], check=True).stdout)
    print(found)
    assert found["peak"] / 2 < found["expected"] < found["peak"] * 2
    # what the chains themselves take is right, too, and not only the libraries
    own, grown = found["expected"] - found["before"], found["peak"] - found["before"]
    assert grown / 2 < own < grown * 2


@pytest.mark.parametrize("name", ["hmc by default", "sghmc", "pcn"])
def test_time_is_of_the_right_size(net, name, monkeypatch):
    # of the processor: the tests share their machine with one another
    monkeypatch.setattr("sbmc.fitting.forecast.time.perf_counter", time.process_time)
    other = {"epochs": 8, "batch_size": 100} if name == "sghmc" else {"epochs": 60, "steps": None}
    longer = replace(KNOWN[name], **other)
    inputs = torch.randn(2000, 3)
    data = inputs, (inputs[:, 0] > 0).long()
    expected = sbmc.expect(net, data, sampler=longer, particles=30)
    began = time.process_time()
    sbmc.fit(net, data, sampler=longer, particles=30, progress=False)
    taken = time.process_time() - began
    assert taken / 3 < expected.seconds < taken * 3
