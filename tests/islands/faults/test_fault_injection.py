"""Real SIGKILLs at random moments: no island is lost, none is run twice, and the bits stay.

A moment is a random number of places that were written down, and a random little while more: a
busy machine is no other than an idle one. The seed is printed with every failure; SBMC_FAULT_SEED
sets it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from islands.faults import slow_run

from sbmc.islands.checkpoints.codec import decode
from sbmc.islands.checkpoints.results import is_final, read_islands
from sbmc.islands.checkpoints.store import open_store

SEED = int(os.environ.get("SBMC_FAULT_SEED", "0")) or random.SystemRandom().randrange(10**6)
SCRIPT = Path(slow_run.__file__)
# Kills of a worker and of the whole run, for each of two samplers: 36 in all. Ray takes seconds to
# start, so it is started less often.
WORKERS = {"processes": 5, "ray": 3, "ray-ranks": 4}
WHOLE = {"processes": 4, "ray": 1, "ray-ranks": 1}
# Places of one island that a kill waits for, at most; islands have about three times as many.
PLACES = {"hmc": 14, "smc": 9}
LONGEST = 300.0

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for workers in /proc"),
]


@pytest.fixture(scope="module", params=["hmc", "smc"])
def undisturbed(request):
    """Its sampler, and what comes of it in one process, and with the ranks of one machine."""
    results = {
        kind: slow_run.summary(slow_run.run(request.param, kind, None, 0.0))
        for kind in ("in-process", "in-process-ranks")
    }
    return request.param, results


def expected_of(executor: str, results: dict[str, dict]) -> dict:
    """An executor's bits: a sum over ranks is rounded in another way."""
    return results["in-process-ranks" if executor.endswith("-ranks") else "in-process"]


class Running:
    """A run that was started, and what can be done to it."""

    def __init__(self, sampler: str, executor: str, folder: Path) -> None:
        self.folder, self.result = folder / "checkpoint", folder / "result.json"
        words = [sampler, executor, str(self.folder), str(self.result)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": _python_path()}
        self.log = (folder / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *words],
            env=environment,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_until(self, happened: Callable[[], object]) -> None:
        """Wait for something, or for the end of the run."""
        end = time.monotonic() + LONGEST
        while self.alive and not happened():
            assert time.monotonic() < end, "the run takes too long"
            time.sleep(0.01)

    def let_it_write(self, places: int) -> None:
        """Wait until so many places were seen to be written, and none was before the first."""
        seen: set[tuple[str, int]] = set()

        def enough() -> bool:
            for path in self.folder.glob("batch-*.safetensors"):
                try:
                    seen.add((path.name, path.stat().st_mtime_ns))
                except OSError:  # it has ended in the meantime
                    continue
            return len(seen) > places

        self.wait_until(enough)

    def workers(self) -> list[int]:
        """Processes that work on a batch."""
        return [pid for pid in _below(self.process.pid) if _works(pid)]

    def end(self) -> dict:
        self.process.wait(LONGEST)
        self.log.close()
        text = (self.folder.parent / "log").read_text(errors="replace")
        assert self.process.returncode == 0, text[-3000:]
        return json.loads(self.result.read_text())

    def kill(self) -> None:
        """Kill the program, and see that its workers, who might still write, go with it."""
        family = self.workers()
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(LONGEST)
        self.log.close()
        end = time.monotonic() + 30
        while any(_running(pid) for pid in family):
            assert time.monotonic() < end, "workers outlive the run"
            time.sleep(0.02)


def _python_path() -> str:
    return os.pathsep.join([str(SCRIPT.parents[2]), os.environ.get("PYTHONPATH", "")])


def _below(pid: int) -> list[int]:
    found = []
    try:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                found += [child, *_below(child)]
    except OSError:  # it has ended in the meantime
        pass
    return found


def _words(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return ""


def _works(pid: int) -> bool:
    words = _words(pid)
    # Of Ray's many processes, those with a batch: a machine that loses its agents is lost itself.
    return "sbmc.islands.executors.worker" in words or words.startswith(
        ("ray::_task", "ray::serve_rank")
    )


def _running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def results(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Files of islands that have ended, and when they were written."""
    found = {}
    for path in folder.glob("island-*"):
        found[path.name] = (path.stat().st_mtime_ns, path.read_bytes())
    return found


def inside_a_temperature(folder: Path) -> bool:
    """Whether a batch's last place lies between two moves of one temperature."""
    parts = [decode(path.read_bytes())[0] for path in folder.glob("batch-*")]
    return any("mutation" in each for each in parts)


def check_nothing_was_done_twice(before: dict, folder: Path) -> None:
    """Islands that had ended are the same files as before."""
    now = results(folder)
    assert {name: now.get(name) for name in before} == before


def check_same(found: dict, expected: dict) -> None:
    assert [r["outcome"] for r in found["reports"]] == ["completed"] * slow_run.ISLANDS
    assert found["reports"] == expected["reports"]
    assert found["positions"] == expected["positions"]
    assert found["weights"] == expected["weights"]


@pytest.mark.parametrize("executor", list(WORKERS))
def test_killed_workers(undisturbed, tmp_path, executor):
    sampler, undisturbed_results = undisturbed
    expected = expected_of(executor, undisturbed_results)
    rng = random.Random(f"{SEED} workers {sampler} {executor}")
    print(f"seed {SEED}: SBMC_FAULT_SEED={SEED} repeats the moments as far as time can be repeated")
    killed, attempt = 0, 0
    while killed < WORKERS[executor]:
        attempt += 1
        folder = tmp_path / str(attempt)
        folder.mkdir()
        run = Running(sampler, executor, folder)
        at_once = 0
        while run.alive and at_once < WORKERS[executor] - killed:
            # What is written shows that workers are at work: those that die again and again before
            # they have begun would end the run.
            run.let_it_write(rng.randint(2, PLACES[sampler]))
            time.sleep(rng.uniform(0, 0.02))
            working = run.workers()
            if working and run.alive:
                os.kill(rng.choice(working), signal.SIGKILL)
                at_once += 1
        found = run.end()
        killed += at_once
        check_same(found, expected)
        # A worker that was killed between two batches had none to lose.
        assert sum(found["attempts"]) <= slow_run.ISLANDS + at_once
        assert attempt < 10, "the runs are too short to be killed"


@pytest.mark.parametrize("executor", list(WHOLE))
def test_killed_runs(undisturbed, tmp_path, executor):
    sampler, undisturbed_results = undisturbed
    expected = expected_of(executor, undisturbed_results)
    rng = random.Random(f"{SEED} runs {sampler} {executor}")
    print(f"seed {SEED}: SBMC_FAULT_SEED={SEED} repeats the moments as far as time can be repeated")
    killed, inside, number, before = 0, 0, 0, {}
    folder = tmp_path / "0"
    folder.mkdir()
    while killed < WHOLE[executor]:
        run = Running(sampler, executor, folder)
        run.let_it_write(rng.randint(2, PLACES[sampler]))
        time.sleep(rng.uniform(0, 0.02))
        if run.alive:
            run.kill()
            killed += 1
            check_nothing_was_done_twice(before, run.folder)
            before = results(run.folder)
            inside += inside_a_temperature(run.folder)
        else:
            # It was through: the moment came too late, and the next run begins afresh.
            check_same(run.end(), expected)
            check_nothing_was_done_twice(before, run.folder)
            number, before = number + 1, {}
            folder = tmp_path / str(number)
            folder.mkdir()
    run = Running(sampler, executor, folder)
    found = run.end()
    check_same(found, expected)
    check_nothing_was_done_twice(before, run.folder)
    ended = read_islands(open_store(run.folder))
    assert sorted(ended) == list(range(slow_run.ISLANDS)), "no island is lost"
    assert all(is_final(island.report) for island in ended.values())
    if sampler == "smc" and killed > 1:
        assert inside, "no kill inside a temperature: the moments say little"


def test_there_are_25_moments():
    assert 2 * (sum(WORKERS.values()) + sum(WHOLE.values())) >= 25
