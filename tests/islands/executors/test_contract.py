"""What every worker does with a batch."""

from __future__ import annotations

import pytest
from islands.executors.pieces import SAMPLERS, alone, make_work, open_checkpoint, same_bits

from sbmc.islands.checkpoints import Stopped
from sbmc.islands.executors.contract import PROGRESS_INTERVAL, run_in_worker


class Clock:
    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def never() -> bool:
    return False


@pytest.mark.parametrize(
    ("step", "expected"), [(0.0, [1, 6]), (PROGRESS_INTERVAL, [1, 2, 3, 4, 5, 6])]
)
def test_progress_is_reported_at_most_twice_a_second_and_at_the_end(step, expected):
    told = []
    job = make_work(SAMPLERS["hmc"])
    run_in_worker(job, (0,), None, lambda b, f: told.append((b, f["done"])), never, Clock(step))
    assert told == [((0,), done) for done in expected]


def test_a_batch_without_checkpoints_stops_at_its_next_report():
    asked = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == 3

    told = []
    with pytest.raises(Stopped):
        run_in_worker(make_work(SAMPLERS["hmc"]), (0,), None, lambda b, f: told.append(f), stop)
    assert len(told) == 1


def test_islands_are_kept_and_states_removed(tmp_path):
    job = make_work(SAMPLERS["hmc"])
    checkpoint = open_checkpoint(tmp_path, alone(1))
    islands = run_in_worker(job, (0,), checkpoint.checkpoint_files(), lambda b, f: None, never)
    assert same_bits([checkpoint.finished()[0]], islands)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "island-00000.safetensors",
        "manifest.json",
    ]


def test_a_batch_that_was_stopped_goes_on(tmp_path):
    job = make_work(SAMPLERS["hmc"])
    checkpoint_files = open_checkpoint(tmp_path, alone(1), every=1e9).checkpoint_files()
    asked = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == 3

    with pytest.raises(Stopped):
        run_in_worker(job, (0,), checkpoint_files, lambda b, f: None, stop)
    told = []
    (island,) = run_in_worker(
        job, (0,), checkpoint_files, lambda b, f: told.append(f["done"]), never
    )
    assert told[0] >= 3, "it did not begin anew"
    assert island.report.attempts == 2
    assert same_bits([island], job.run((0,)))
