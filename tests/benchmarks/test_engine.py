"""The benchmarks run and write what their tables need. No timing is asserted here."""

import json

import forked
import pytest
import torch

from benchmarks import engine, folding, memory, methods, readme
from benchmarks.peers.protocol import peak_bytes
from benchmarks.workloads import (
    build_target,
    build_way,
    draw_positions,
    get_workload,
    make_examples,
)

WAYS = {"fused", "vmap", "loop", "plain loop"}


def measure_in_a_fork(workload, way, particles, examples, *, threads, quick):
    words = [workload, way, particles, examples, threads, int(quick)]
    return int(forked.run(["-m", "benchmarks.memory", *map(str, words)], check=True).stdout)


def test_engine_measures_all_ways(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(engine, "measure_peak", measure_in_a_fork)
    out = tmp_path / "engine.json"
    assert engine.main(["--quick", "--threads", "1", "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    assert (record["benchmark"], record["quick"], record["threads"]) == ("engine", True, 1)
    assert {row["workload"] for row in record["speed"]} == {"mnist7", "head"}
    for row in record["speed"]:
        assert set(row["seconds_per_epoch_and_particle"]) == WAYS
        assert all(len(values) == record["repeats"] for values in row["all_seconds"].values())
        assert set(row["fused_over"]) == WAYS - {"fused"}
        assert all(ratio > 0 for ratio in row["fused_over"].values())
    measured = [row["peak_bytes"] for row in record["speed"] if row["peak_bytes"] is not None]
    assert measured
    assert all(set(peaks) == WAYS for peaks in measured)
    assert [row["examples"] for row in record["growth"]] == [32, 64]
    assert record["hardware"]["cores"] >= 1
    assert record["versions"]["torch"]
    assert record["load"] >= 0
    assert "against plain loop" in capsys.readouterr().out


def test_memory_is_measured_in_a_process_of_its_own():
    before = peak_bytes()
    taken = memory.measure_peak("mnist7", "fused", 3000, 32, threads=1, quick=True)
    assert 2**23 < taken < 2**27  # the positions alone are 4 MiB
    assert peak_bytes() - before < taken


def test_the_plain_loop_computes_what_the_engine_does():
    workload = get_workload("mnist7", quick=True)
    examples = make_examples(workload, 40)
    ways = {}
    for way in sorted(WAYS):
        torch.manual_seed(0)  # the network's parameters are the anchor
        target = build_way(workload, examples, way)
        ways[way] = target(draw_positions(target, 3))
    for found in ways.values():
        for ours, theirs in zip(found, ways["fused"], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_only_the_plain_loop_decides_whether_the_fused_path_is_fast_enough():
    def record(plain, grown=0):
        ratios = {"vmap": 1.0, "loop": 1.0, "plain loop": plain}
        row = {"title": "a net", "particles": 10, "needed": 8.0, "fused_over": ratios}
        sizes = [{"examples": n, "peak_bytes": n * grown} for n in (10, 1000)]
        return {"speed": [row], "growth": sizes}

    assert engine.find_failures(record(8.0)) == []
    (slow,) = engine.find_failures(record(7.9))
    assert "fused is 7.9 times as fast as a plain loop, 8 needed" in slow
    (grown,) = engine.find_failures(record(9.0, grown=2**20))
    assert "1,000 examples take 1000 MiB" in grown


def test_folding_measures_both_ways(tmp_path, capsys):
    out = tmp_path / "folding.json"
    assert folding.main(["--quick", "--threads", "1", "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    assert (record["benchmark"], record["quick"], record["threads"]) == ("folding", True, [1])
    assert [row["workload"] for row in record["folding"]] == ["mnist7", "head"]
    for row in record["folding"]:
        assert set(row["seconds"]) == {"folded", "one by one"}
        assert all(len(values) == record["repeats"] for values in row["all_seconds"].values())
        # One evaluation to begin with, and one for each move.
        assert row["epochs"] == 1 + 2 * 1
        assert row["folded_over_one_by_one"] > 0
    assert record["failures"] == []
    assert record["load"] >= 0
    assert "folded against one by one" in capsys.readouterr().out


def test_folding_is_run_as_it_says(monkeypatch):
    workload = get_workload("mnist7", quick=True)
    target = build_target(workload, make_examples(workload, 20), "fused")
    batches = []
    evaluate = type(target).__call__
    monkeypatch.setattr(
        type(target), "__call__", lambda self, z: batches.append(len(z)) or evaluate(self, z)
    )
    positions = {}
    for way, batch, calls in (("folded", 6, 3), ("one by one", 2, 9)):
        batches.clear()
        _, islands = folding.run_way(target, folding.QUICK, way)
        assert batches == [batch] * calls
        assert [island.report.outcome for island in islands] == ["completed"] * 3
        positions[way] = torch.cat([island.positions for island in islands])
    torch.testing.assert_close(*positions.values(), rtol=1e-3, atol=1e-3)


def test_folding_says_where_it_falls_short():
    def row(ratio, needed):
        return {"title": "a net", "threads": 1, "folded_over_one_by_one": ratio, "needed": needed}

    rows = [row(1.29, 1.3), row(1.3, 1.3), row(0.5, None)]
    (failure,) = folding.find_failures({"folding": rows})
    assert "folded is 1.29 times as fast as one by one, 1.3 needed" in failure


def test_the_page_shows_the_records():
    text = readme.PAGE.read_text("utf-8")
    assert readme.fill(text, readme.HERE / "records") == text


def test_methods_are_compared_with_the_ensemble(tmp_path, capsys):
    out = tmp_path / "methods.json"
    assert methods.main(["--quick", "--experiment", "digits", "--out", str(out)]) == 0
    found = json.loads(out.read_text())["methods"]
    rows = {(row["method"], row["islands"]): row for row in found}
    assert list(rows) == [
        ("map", 1), ("de", 1), ("s-hmc", 1), ("hmc", 1), ("de", 8), ("s-hmc", 8), ("s-smc", 8)
    ]  # fmt: skip
    assert rows["s-smc", 8]["settings"]["islands"] == 8
    assert rows["de", 1]["relative_to_ensemble"] == rows["de", 8]["relative_to_ensemble"] == 1
    ratio = rows["s-hmc", 8]["seconds"] / rows["de", 8]["seconds"]
    assert rows["s-hmc", 8]["relative_to_ensemble"] == pytest.approx(ratio)
    assert rows["hmc", 1]["sampling_seconds"] > 0
    # The chains start at the members, whose training is theirs to pay.
    assert rows["hmc", 1]["training_seconds"] > 0
    assert rows["hmc", 1]["anchor_epochs"] > 0
    assert "relative to the deep ensemble" in capsys.readouterr().out


@pytest.mark.parametrize("benchmark", [engine, folding, methods])
def test_bad_options_are_refused(benchmark, capsys):
    with pytest.raises(SystemExit) as stopped:
        benchmark.main(["--threads", "0"])
    assert stopped.value.code == 2
    assert "`threads` must be a positive integer, but got 0." in capsys.readouterr().err
