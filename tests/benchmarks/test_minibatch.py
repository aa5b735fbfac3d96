"""Mini-batches in the contest: who takes part, what is asked, and what counts as missed."""

import json

import pytest

from benchmarks import minibatch
from benchmarks.goals import find_missed, find_row
from benchmarks.minibatch import GOALS, PLAN, QUICK_ROWS, ROWS
from benchmarks.speed import entries_of, make_task
from benchmarks.speed_tables import goals_table

RATIOS = {"full": 1.0, "posteriors": 20.0, "trainings": 20.0}


def record_of(**ratios):
    rows = [
        {
            "workload": row.workload,
            "title": row.workload,
            "algorithm": row.algorithm,
            "particles": row.particles,
            "ratios": {**RATIOS, **ratios},
            "roofline": None,
        }
        for row in ROWS
    ]
    return {"rows": rows}


def test_every_goal_has_a_row_and_can_be_missed():
    record = record_of()
    assert all(find_row(record, goal) is not None for goal in GOALS)
    assert find_missed(record, GOALS) == []
    assert "✗" not in goals_table(record, GOALS)
    assert len(find_missed(record_of(full=0.1, posteriors=1.0, trainings=1.0), GOALS)) == len(GOALS)


def test_the_goals_are_those_of_the_issue():
    required = {(g.workload, g.particles, g.against): g.required for g in GOALS}
    assert required["mnist7", 10, "full"] == 1 / 1.6
    assert required["mlp", 10, "full"] == 1 / 3
    assert required["mlp", 100, "full"] == 1 / 2
    assert required["mnist7", 10, "posteriors"] == 8
    assert required["mlp", 10, "posteriors"] == 6
    assert required["mnist7", 10, "trainings"] == required["mlp", 10, "trainings"] == 5
    assert all(goal.required < goal.goal for goal in GOALS)


def test_an_epoch_that_takes_too_long_is_told_as_such():
    missed = find_missed(record_of(full=0.5), GOALS)
    assert missed == [
        "mnist7, 10 particles, beside an epoch on all data: 2× as long, 1.6× as long required"
    ]


def test_who_takes_part():
    names = [[entry.name for entry in entries_of(row, None)] for row in (ROWS[0], ROWS[-1])]
    assert names == [["sbmc", "full"], ["sbmc", "trainings"]]
    assert [entry.name for entry in entries_of(ROWS[0], "python")][-1] == "posteriors"


@pytest.mark.parametrize("row", QUICK_ROWS, ids=lambda row: row.algorithm)
def test_sbmc_and_those_at_home_do_what_they_claim(row):
    from benchmarks.peers.ours import ENSEMBLE_EPOCHS, Ours
    from benchmarks.peers.ours_full import FullBatch
    from benchmarks.peers.plain_training import PlainTraining

    task = make_task(row, 1, quick=True)
    ours = Ours(task)
    (unit,) = ours.variants().values()
    done = unit()
    if row.algorithm == "sghmc":
        assert ours.evaluations == done.epochs * done.particles
        full = FullBatch(task)
        (unit,) = full.variants().values()
        assert unit() == (row.transitions * row.leapfrog, 3)
        return
    assert done == (ENSEMBLE_EPOCHS, 3)
    assert {unit() for unit in PlainTraining(task).variants().values()} == {(ENSEMBLE_EPOCHS, 2)}


def test_quick_runs_without_peers(tmp_path):
    out = tmp_path / "minibatch.json"
    words = ["--quick", "--repeats", "1", "--threads", "1", "--only", "mlp", "--out", str(out)]
    assert minibatch.main(words) == 0
    record = json.loads(out.read_text())
    assert record["benchmark"] == PLAN.name == "minibatch"
    assert record["rows"][0]["ratios"]["full"] > 0
    assert record["rows"][0]["roofline"] is None
