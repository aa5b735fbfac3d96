"""What the speed benchmark has to reach: a miss and a fall are named, noise is not."""

import copy
import json
import subprocess

import pytest

from benchmarks.goals import (
    GOALS,
    committed_record,
    find_fallen,
    find_missed,
    find_row,
    with_rows,
)
from benchmarks.speed import ROWS
from benchmarks.speed_tables import goals_table

FAST = {"plain": 300.0, "pyro": 300.0, "blackjax": 40.0, "numpyro": 30.0}


def record_of(**changes):
    rows = [
        {
            "workload": row.workload,
            "title": row.workload,
            "algorithm": row.algorithm,
            "particles": row.particles,
            "ratios": dict(FAST) if row.algorithm == "hmc" else {"blackjax": 10.0},
            "roofline": 0.9,
        }
        for row in ROWS
    ]
    hardware = {"processor": "a processor", "cores": 2}
    return {"quick": False, "threads": 2, "hardware": hardware, "rows": rows, **changes}


def row_of(record, workload, particles, algorithm="hmc"):
    key = workload, particles, algorithm
    (row,) = [r for r in record["rows"] if (r["workload"], r["particles"], r["algorithm"]) == key]
    return row


def test_every_goal_has_a_row_that_is_measured():
    record = record_of()
    assert all(find_row(record, goal) is not None for goal in GOALS)
    assert find_missed(record) == []
    assert "✗" not in goals_table(record)


def test_the_goals_are_those_of_the_issue():
    found = {(g.workload, g.particles, g.against): (g.required, g.goal) for g in GOALS}
    assert found["mnist7", 80, "pyro"] == (7, 15)
    assert found["head", 80, "roofline"] == (0.45, 0.70)
    assert found["cifar", 10, "jax"] == (1.3, 1.6)
    assert found["mlp", 1_000, "pyro"] == (50, 200)
    assert found["transformer", 10, "jax"] == (1, 1.5)
    assert found["regression", 10, "plain"][0] == found["regression", 100, "plain"][0] == 10
    assert found["regression", 10, "jax"][0] == found["regression", 100, "jax"][0] == 1
    assert len(found) == 6 + 2 + 3 + 6 + 2 + 4 + 1
    assert all(required < goal for required, goal in found.values())


def test_the_slower_ratio_counts_against_the_best_jax_peer():
    record = record_of()
    row_of(record, "mnist7", 10)["ratios"] |= {"blackjax": 3.9, "numpyro": 9.0}
    (missed,) = find_missed(record)
    assert missed == "mnist7, 10 particles, against the best JAX peer: 3.9×, 4× required"
    assert "| 3.9× | 4× | ✗ | 10× | ✗ |" in goals_table(record)


def test_a_figure_that_is_required_and_not_measured_is_missed():
    record = record_of()
    del row_of(record, "mlp", 1_000)["ratios"]["pyro"]
    row_of(record, "cifar", 40)["roofline"] = None
    assert [line.partition(":")[2] for line in find_missed(record)] == [
        " not measured, 70% required",
        " not measured, 50× required",
    ]


@pytest.mark.parametrize(("kept", "caught"), [(0.75, True), (0.81, False), (2.0, False)])
def test_a_fall_of_a_quarter_is_caught_and_noise_is_not(kept, caught):
    before, record = record_of(), record_of()
    row_of(record, "head", 80)["ratios"]["numpyro"] *= kept
    fallen = find_fallen(record, before)
    assert bool(fallen) == caught
    if caught:
        assert fallen == [
            "head, hmc, 80 particles, against numpyro: 22.50×, 25% below the last record's 30.00×"
        ]


def test_rows_of_different_algorithms_are_not_mixed_up():
    before, record = record_of(), record_of()
    row_of(record, "mnist7", 10, "smc")["ratios"]["blackjax"] = 7.5
    (fallen,) = find_fallen(record, before)
    assert fallen.startswith("mnist7, smc, 10 particles, against blackjax: 7.50×")


@pytest.mark.parametrize(
    "other", [{"threads": 1}, {"hardware": {"processor": "another", "cores": 2}}, {"quick": True}]
)
def test_records_of_other_machines_are_no_measure(other):
    before, record = record_of(**other), copy.deepcopy(record_of())
    for row in record["rows"]:
        row["ratios"] = {name: ratio / 2 for name, ratio in row["ratios"].items()}
    assert find_fallen(record, before) == []
    assert len(find_fallen(record, record_of())) > 10
    assert find_fallen(record, None) == []


def test_the_committed_record_counts_and_not_the_file(tmp_path):
    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    file = tmp_path / "speed.json"
    file.write_text(json.dumps({"is": "alone"}))
    assert committed_record(file) == {"is": "alone"}
    git("init")
    assert committed_record(file) is None
    file.write_text(json.dumps({"is": "committed"}))
    git("add", "speed.json")
    git("commit", "-m", "a record")
    file.write_text(json.dumps({"is": "slower"}))
    assert committed_record(file) == {"is": "committed"}


def test_rows_that_are_measured_apart_take_their_place_or_come_last():
    rows = [row_of(record_of(), "head", 80), row_of(record_of(), "mlp", 1_000)]
    replaced = {**rows[0], "ratios": {"pyro": 1.0}}
    added = {**rows[0], "particles": 7}
    assert with_rows(rows, [added, replaced]) == [replaced, rows[1], added]
    # The same workload with another algorithm is another row.
    other = {**rows[0], "algorithm": "smc"}
    assert with_rows(rows, [other]) == [*rows, other]
