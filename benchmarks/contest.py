"""The contenders of one row take turns: one process each, of which one at a time works."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.machine import Machine
from benchmarks.peers.protocol import Task
from benchmarks.peers.torch_models import TorchModel

ROOT = Path(__file__).parents[1]
OURS = "sbmc"
# Agreement with the reference before anything is timed, relative; float32 is good for 1e-6.
TOLERANCE = 1e-4
# A contender that has taken `LEAST_TURNS` and this many seconds rests for the rest of the row.
ENOUGH_SECONDS, LEAST_TURNS = 30.0, 2
# No answer takes this long.
MOST_SECONDS = 900.0


@dataclass(frozen=True)
class Entry:
    """A contender: which Python runs which module.

    Attributes:
        name: in tables and records.
        python: the interpreter of its environment.
        module: to run with `-m`.
    """

    name: str
    python: str
    module: str


class Failed(Exception):
    """A contender could not do what it was asked to; in words."""


class Process:
    """A contender's process, waiting for words.

    Args:
        entry: what to run.
        folder: of the task.
        threads: that it may use.
    """

    def __init__(self, entry: Entry, folder: Path, threads: int) -> None:
        count = str(threads)
        limits = dict.fromkeys(
            ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), count
        )
        self._process = subprocess.Popen(
            [entry.python, "-m", entry.module, str(folder)],
            cwd=ROOT,
            env={**os.environ, **limits, "JAX_PLATFORMS": "cpu"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._noise: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        """Read what it prints besides its answers, so that it is never kept waiting by it."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._noise.append(line)
            del self._noise[:-20]

    def ask(self, word: str) -> dict[str, Any]:
        """Its answer.

        Raises:
            Failed: it has none, or says that it failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(MOST_SECONDS, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            self._process.wait()
            self._listener.join(1)
            last = self._noise[-1].strip() if self._noise else "no message"
            raise Failed(f"ended with code {self._process.returncode} ({last})")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def close(self) -> None:
        """Stop it, if it has not stopped."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join(1)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                # A word that it never read is still in the pipe's buffer, and closing writes it.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def disagreement(found: Mapping[str, Any], values: np.ndarray, gradients: np.ndarray) -> str:
    """Why a contender computes something else than the reference; nothing if it does not.

    Args:
        found: its `values` and `gradients` at the probes.
        values: the reference's log posteriors, `(probes,)`.
        gradients: the reference's gradients, `(probes, dim)`.

    Returns:
        Words, or nothing.
    """
    value, gradient = np.array(found["values"]), np.array(found["gradients"])
    if value.shape != values.shape or gradient.shape != gradients.shape:
        return f"its gradients have shape {gradient.shape} where {gradients.shape} is right"
    off = np.abs(value - values) / np.abs(values)
    slope = np.linalg.norm(gradient - gradients, axis=1) / np.linalg.norm(gradients, axis=1)
    # A gradient jumps where rounding puts a ReLU on the other side of its kink. That is rare, and
    # whoever computes something else does so at every probe: the median counts.
    for what, error in (("log posterior", off.max()), ("gradient", np.median(slope))):
        if not error <= TOLERANCE:  # NaN is wrong, too
            return f"its {what} is off by {error:.2g}, relative; {TOLERANCE:g} is allowed"
    return ""


def run_contest(
    task: Task, entries: Sequence[Entry], *, repeats: int, machine: Machine
) -> tuple[dict[str, dict[str, Any]], list[dict[str, float]]]:
    """Check all contenders, warm them up, and let them take turns.

    Args:
        task: what to compute.
        entries: the contenders.
        repeats: turns of each.
        machine: whose rates are measured in every round, too.

    Returns:
        What became of each contender, by name (`error` in words if it failed), and the rates.
    """
    found: dict[str, dict[str, Any]] = {}
    processes: dict[str, Process] = {}
    values, gradients = TorchModel(task, torch.float64).check(task.arrays["probe"])
    with tempfile.TemporaryDirectory(prefix="sbmc-bench-") as name:
        task.write(Path(name))
        try:
            for entry in entries:
                _say(f"  {entry.name}: starts")
                processes[entry.name] = process = Process(entry, Path(name), task.threads)
                try:
                    found[entry.name] = _begin(process, values, gradients)
                except Failed as error:
                    found[entry.name] = {"error": str(error)}
                    _say(f"  {entry.name} failed: {error}")
            rates = _take_turns(found, processes, repeats, machine)
            for contender, result in found.items():
                if "error" not in result:
                    result |= processes[contender].ask("end")  # its peak memory
        finally:
            for process in processes.values():
                process.close()
    for result in found.values():
        if "error" not in result:
            result["seconds_per_epoch_and_particle"] = statistics.median(result["all_seconds"])
    return found, rates


def _begin(process: Process, values: np.ndarray, gradients: np.ndarray) -> dict[str, Any]:
    answer = process.ask("check")
    reason = disagreement(answer, values, gradients)
    if reason:
        raise Failed(f"not compared: {reason}")
    del answer["values"], answer["gradients"]
    return {**answer, **process.ask("warm"), "all_seconds": []}


def _take_turns(
    found: dict[str, dict[str, Any]],
    processes: Mapping[str, Process],
    repeats: int,
    machine: Machine,
) -> list[dict[str, float]]:
    rates, spent = [], dict.fromkeys(found, 0.0)
    for turn in range(repeats):
        _say(f"  turn {turn + 1} of {repeats}")
        rates.append(machine.rates())
        for contender, result in found.items():
            resting = turn >= LEAST_TURNS and spent[contender] > ENOUGH_SECONDS
            if "error" in result or resting:
                continue
            try:
                answer = processes[contender].ask("time")
            except Failed as error:
                found[contender] = {"error": str(error)}
                continue
            spent[contender] += answer["seconds"]
            result["all_seconds"].append(answer["each"])
            result["timed_particles"] = answer["particles"]
    return rates


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
