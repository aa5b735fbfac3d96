"""The run on paper: its arithmetic, the messages that are really sent, its record and its page."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import sbmc
from benchmarks import on_paper, on_paper_tables
from benchmarks import on_paper_costs as costs
from benchmarks.on_paper_costs import Run
from sbmc.islands.executors import InProcess
from sbmc.islands.memory_budget import RunSize
from sbmc.target.shards import ShardedEngine, Shards
from sbmc.target.shards.group import Ranks

RECORDS = on_paper.shared.RECORDS
# Round numbers: a multiplication takes a second, a byte a hundredth, and so on.
CONSTANTS = {
    "multiply": 1.0,
    "vector": 10.0,
    "exchange": 3.0,
    "rate": 100.0,
    "write": 0.5,
    "spread": 0.25,
    "predict": 1.0,
    "read": 16.0,
}
SMALL = Run(
    parameters=5,
    examples=12,
    islands=3,
    ranks=4,
    particles=2,
    features=8,
    classes=2,
    batch=6,
    epochs=16,
    network=50.0,
    latency=0.25,
    disk=10.0,
    memory=1000.0,
)
# Two particles: five parameters out in float32, their gradient and a log likelihood back in
# float64; a command of five numbers, and the flag of the answer.
SENT = 2 * (5 * 4 + 5 * 8 + 8) + 5 * 8 + 8


def regression_target():
    """Of five parameters and twelve examples; its noise is known."""
    torch.manual_seed(0)
    data = torch.randn(12, 4), torch.randn(12, 1)
    noise = sbmc.Gaussian(noise_variance=1.0)
    return sbmc.build_target(nn.Linear(4, 1), data, likelihood=noise)


class CountedGroup:
    """Stands in for gloo: rank 0 of so many ranks that send zeros. It counts what is sent."""

    def __init__(self, ranks):
        self.ranks, self.operations, self.bytes = ranks, 0, 0
        self.rank, self.size = lambda: 0, lambda: ranks

    def _counted(self, tensors, *_):
        self.operations += 1
        self.bytes += sum(tensor.nbytes for tensor in tensors)
        return SimpleNamespace(wait=lambda *_: None)

    broadcast = reduce = send = _counted

    def recv(self, tensors, rank, tag):
        # The answers of all ranks are one message in the page's table.
        return self._counted(tensors) if rank == 1 else SimpleNamespace(wait=lambda *_: None)


@pytest.mark.parametrize("kind", ["evaluation", "batch"])
@pytest.mark.parametrize("particles_in_a_message", [2, 5])
def test_bytes_and_messages_are_those_that_the_engine_sends(
    monkeypatch, kind, particles_in_a_message
):
    run = replace(SMALL, particles=5, batch=3)
    target = regression_target()
    assert target.dim == run.parameters
    group = CountedGroup(run.ranks)
    ranks = Ranks(group, 1.0)
    monkeypatch.setattr("sbmc.target.shards.engine.started_ranks", lambda shards: ranks)
    for module in ("sbmc.target.shards.engine", "benchmarks.on_paper_costs"):
        monkeypatch.setattr(f"{module}.MESSAGE_BYTES", particles_in_a_message * 8 * target.dim)
    engine = ShardedEngine(target.engine, Shards(run.ranks))
    theta = torch.randn(run.particles, target.dim)
    engine.log_likelihood(theta)  # the first evaluation sends the data, too
    group.operations = group.bytes = 0
    if kind == "batch":
        engine.batch_sums(theta, torch.randint(12, (run.particles, run.batch)))
    else:
        engine.evaluate(theta, lambda z: z, lambda gradient: gradient, torch.float64)
    found = costs.messages(run, kind)
    assert (group.operations, group.bytes) == (found["messages"], found["bytes"])
    assert found["exchanges"] == math.ceil(5 / particles_in_a_message)
    assert found["all_bytes"] == 3 * found["bytes"]


@pytest.mark.parametrize("sampler", [SMALL.hmc(), SMALL.sghmc()])
def test_memory_is_what_the_forecast_of_a_run_says(sampler):
    target = regression_target()
    checkpoint = sbmc.CheckpointAt("somewhere")
    size = RunSize(sampler, 7, range(1), 1, InProcess(), checkpoint, None, None)
    assert costs.state_bytes(sampler, 7, target.dim) == size.states(target.engine, 1)
    assert costs.state_bytes(sampler, 7, target.dim) == 7 * 5 * 4 * (sampler.vectors + 1 + 6)


def test_a_prediction_has_as_many_numbers_as_the_formula_says():
    torch.manual_seed(0)
    data = torch.randn(12, 4), torch.randint(3, (12,))
    posterior = sbmc.fit(nn.Linear(4, 3), data, s=0.1, sampler=sbmc.HMC(steps=2), progress=False)
    prediction = posterior.predict(data[0])
    tensors = [getattr(prediction, each.name) for each in fields(prediction)]
    held = sum(each.nbytes for each in tensors if isinstance(each, torch.Tensor))
    run = replace(SMALL, examples=12, classes=3)
    assert costs.data(run, CONSTANTS)["predictions"] == held


def test_the_time_of_an_exchange():
    assert costs.messages(SMALL, "evaluation")["bytes"] == SENT
    # The network, 50 bytes a second, is slower than the measured 100.
    expected = 3 + 4 * 0.25 + SENT / 50
    assert costs.exchange_seconds(SMALL, CONSTANTS, "evaluation") == expected
    fast = replace(SMALL, network=1e9)
    assert costs.exchange_seconds(fast, CONSTANTS, "evaluation") == 4 + SENT / 100
    index = 2 * 6 * 8
    assert costs.exchange_seconds(fast, CONSTANTS, "batch") == 4.25 + (SENT + index) / 100


@pytest.mark.parametrize("speed", [1.0, 5.0])
def test_times_of_both_samplers(speed):
    found = costs.times(SMALL, CONSTANTS, speed)
    evaluation = costs.exchange_seconds(SMALL, CONSTANTS, "evaluation")
    batch = costs.exchange_seconds(SMALL, CONSTANTS, "batch")
    # 3 of 12 examples, 2 particles, 5 parameters; 3 examples of 8 numbers at 16 bytes a second.
    assert found["computing"] == 30 / speed
    assert found["evaluation"] == pytest.approx(30 / speed + 6 + evaluation)
    assert found["hmc"] == pytest.approx(16 * found["evaluation"])
    # Two steps a pass; a quarter of 6 examples, and both particles read all that the rank has.
    assert found["step_computing"] == pytest.approx((1.5 * 10 + 100) / speed)
    assert found["step"] == pytest.approx(found["step_computing"] + batch)
    assert found["sghmc"] == pytest.approx(2 * found["step"] + 2 * 6)
    # Its snapshots are a minute apart, or a step that takes longer, or a pass that is shorter.
    assert found["between"]["sghmc"] == min(found["sghmc"], max(60, found["step"]))
    lost = 4 * found["between"]["sghmc"] / 86_400
    assert found["survives"]["sghmc"] == pytest.approx(math.exp(-lost))


def test_snapshots_inside_a_pass_are_a_minute_or_a_step_apart():
    quick = CONSTANTS | {"multiply": 1e-4, "vector": 0.1, "exchange": 0.1, "rate": 1e6}
    run = replace(SMALL, network=1e6)
    short, long = (costs.times(replace(run, examples=n), quick) for n in (12, 12_000))
    assert short["between"]["sghmc"] == short["sghmc"] < 60
    assert long["between"]["sghmc"] == 60 < long["sghmc"]
    slow = costs.times(replace(run, examples=12_000), quick | {"exchange": 100.0})
    assert slow["between"]["sghmc"] == slow["step"] > 60


def test_data_and_memory_by_hand():
    found = costs.data(SMALL, CONSTANTS)
    assert (found["inputs"], found["shard"], found["targets"]) == (12 * 8 * 4, 96, 12 * 8)
    assert (found["read_seconds"], found["send_seconds"]) == (96 / 16, 3 * 96 / 50)
    held = costs.memory(SMALL, CONSTANTS)
    assert held["other"] == 2 * 5 * 12
    # Position, gradient and one draw of two particles, at ten bytes a second.
    assert (held["snapshot"], held["snapshot_seconds"]) == (120, 0.5 + 12)
    assert held["results"] == 3 * 2 * 5 * 4


def test_larger_batches_are_fewer_steps():
    rows = costs.batches(replace(SMALL, examples=6000), CONSTANTS)
    assert [(row["batch"], row["steps"]) for row in rows] == [(6, 1000), (60, 100), (600, 10)]
    assert rows[0]["bytes"] == 1000 * 3 * (SENT + 2 * 6 * 8)
    assert rows[0]["seconds"] > rows[1]["seconds"] > rows[2]["seconds"]


def test_limits_are_in_order_and_by_hand():
    rows = costs.limits(SMALL, CONSTANTS)
    ratios = [row["over"] for row in rows]
    assert ratios == sorted(ratios, reverse=True)
    named = {row["what"]: row for row in rows}
    assert len(named) == len(rows)
    assert named["rank 0: inputs that are held"]["over"] == 384 / 1000
    apart = named["ranks ready at different times in an evaluation, until the timeout"]
    assert (apart["needed"], apart["allowed"]) == (0.25 * 30, 600)
    death = named["from snapshot to snapshot of SGHMC, until a rank dies"]
    assert death["allowed"] == 86_400 / 4
    # Twelve examples, five parameters, six particles.
    assert named["predictions of all examples, by one measured thread"]["needed"] == 360


def test_constants_are_those_of_the_records():
    found = on_paper.read_constants(RECORDS)
    rows = json.loads((RECORDS / "ranks.json").read_text("utf-8"))["rows"]
    (most,) = (r for r in rows if (r["examples"], r["ranks"]) == (10_000, 2))
    seconds = most["evaluation"]["clock"]["one"]
    assert found["multiply"] == pytest.approx(seconds / (10 * 10_000 * 101_770))
    # The page says that the largest network took more than twice as long.
    (largest,) = (r for r in rows if (r["examples"], r["ranks"]) == (500, 2))
    seconds = largest["evaluation"]["clock"]["one"]
    assert 2 < seconds / (10 * 500 * 1_011_010) / found["multiply"] < 3
    simulation = json.loads((RECORDS / "simulation.json").read_text("utf-8"))
    # What the simulation assumes is assumed here, too.
    assert Run().network == simulation["constants"]["bandwidth"]
    assert Run().days == simulation["days"]


def test_a_missing_record_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"python -m benchmarks\.ranks makes it"):
        on_paper.read_constants(tmp_path)


def test_the_record_and_the_page_are_what_the_script_writes(tmp_path, capsys):
    out = tmp_path / "on_paper.json"
    assert on_paper.main(["--out", str(out)]) == 0
    found, stored = (json.loads(each.read_text("utf-8")) for each in (out, RECORDS / out.name))
    assert found == stored, "python -m benchmarks.on_paper makes the record and the page anew"
    text = on_paper.PAGE.read_text("utf-8")
    assert on_paper.fill(text, tmp_path) == text
    printed = capsys.readouterr().out
    assert on_paper_tables.limits_table(stored) in printed


def test_the_words_of_the_page_have_the_figures_of_the_record():
    record = json.loads((RECORDS / "on_paper.json").read_text("utf-8"))
    words = on_paper.PAGE.read_text("utf-8").split("### Where it breaks first")[1]
    words = words.split("### By the number of parameters")[0].split("<!-- end: paper limits -->")[1]
    words = " ".join(words.split())
    length, size = on_paper_tables.length, on_paper_tables.bytes_words
    needed = {row["what"]: row["needed"] for row in record["limits"]}
    slow, fast = record["times"][-1], record["accelerated"][-1]
    held, sent, rows = record["memory"][-1], record["messages"][-1], record["data"][-1]
    smaller = next(
        row for row in record["times"] if (row["examples"], row["parameters"]) == (10**6, 10**7)
    )
    apart = "ranks ready at different times in an evaluation, until the timeout"
    alone = "predictions of all examples, by one measured thread"
    for sentence in (
        f"of {SMALL.hmc().count_step()[0]} evaluations at its first step size",
        f"Here a trajectory takes {length(slow['between']['hmc'])}",
        f"between two mini-batches, every {length(slow['between']['sghmc'])} here",
        f"ends without a death in {smaller['survives']['hmc']:.0%} of cases",
        f"would be {length(needed[apart])} apart",
        f"HMC needs {length(slow['hmc'])}",
        f"would need {length(fast['hmc'])}",
        f"a trajectory would still be {length(fast['between']['hmc'])}",
        f"{size(sent['bytes'])} for ten particles",
        f"{record['exchange_seconds'][-1]:.3g} s at the measured rate",
        f"{size(record['traffic']['sghmc']['bytes'])} for each island, and "
        f"{length(fast['sghmc'])} with the faster ranks",
        f"Held inputs of {size(rows['inputs'])}",
        f"holds {size(rows['targets'])} of targets",
        f"{size(held['hmc'])} with HMC and {size(held['sghmc'])} with SGHMC, where one particle "
        f"at a time takes {size(held['one'])}",
        f"need {size(held['other'])} and",
        f"gets {size(held['results'])} of particles",
        f"take {size(rows['predictions'])}",
        f"would take {length(needed[alone])}",
    ):
        assert sentence in _unlinked(words)


def _unlinked(text):
    """Without links to the glossary."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)


def test_options_are_the_run(tmp_path, capsys):
    out = tmp_path / "record.json"
    assert on_paper.main(["--out", str(out), "--examples", "1e7", "--memory", "5e8"]) == 0
    record = json.loads(out.read_text("utf-8"))
    assert record["run"]["examples"] == 10**7
    assert [row["examples"] for row in record["data"]] == [10**6, 10**7]
    assert "| memory of a machine | 500 MB | assumed, `--memory` |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        on_paper.main(["--out", str(out), "--ranks", "0"])
    assert "`ranks` must be positive, but got 0." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (on_paper_tables.length(0.012), "12 ms"),
        (on_paper_tables.length(59.0), "59 s"),
        (on_paper_tables.length(90.0), "1.5 min"),
        (on_paper_tables.length(200 * on_paper_tables.YEAR), "200 years"),
        (on_paper_tables.bytes_words(12), "12 B"),
        (on_paper_tables.bytes_words(148e9), "148 GB"),
        (on_paper_tables.bytes_words(4e12), "4 TB"),
        (on_paper_tables.size(10**9), "10⁹"),
        (on_paper_tables.size(1_500), "1,500"),
    ],
)
def test_numbers_in_words(words, expected):
    assert words == expected
