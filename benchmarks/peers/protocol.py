"""How a contender is asked to work: one process, which obeys words on its standard input.

    check   log posterior and gradient at the task's probes, in whitened coordinates
    warm    compile and run every variant once, time each once more, and keep the fastest
    time    one turn: units of work until `LEAST_SECONDS` have passed
    end     the peak of its memory, and good-bye

Every answer is one line of JSON. Between words a process sleeps, so that many of them can take
turns while one at a time works. Only numpy is needed here: contenders bring their own libraries.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

import numpy as np

# A turn lasts at least this long, so that the clock and the waking up do not count.
LEAST_SECONDS = 0.3
# A variant that takes longer to begin is not run once more before its turns.
PATIENCE = 60.0


class Done(NamedTuple):
    """What a unit of work was: so many epochs for each of so many particles."""

    epochs: float
    particles: int


Unit = Callable[[], Done]


@dataclass(frozen=True)
class Task:
    """What all contenders of a row compute; the same files are read by all of them.

    Attributes:
        kind: of the model; see `torch_models` and `jax_models`.
        shapes: of the sampled parameters, in the order in which the flat vector holds them.
        scale: standard deviation of the prior; θ = mean + scale · z, and z ~ N(0, I) a priori.
        algorithm: `hmc`, `smc` or `sghmc`.
        particles: how many.
        serial_particles: how many of them are timed where one chain follows another.
        leapfrog: steps of a transition.
        transitions: of each particle in a unit of work.
        step_size: in whitened units.
        temperatures: of SMC, in a unit of work.
        mutations: of SMC, at each temperature.
        batch_size: of SGHMC.
        threads: that a process may use.
        heads: of attention, where there is any.
        likelihood: `categorical`, or `gaussian` with mean and log-variance by the network.
        arrays: `inputs`, `labels` (for numbers `(examples, 1)`), `mean` (dim,), `start` (particles,
            dim), `probe` (probes, dim), and frozen weights of the model by name.
    """

    kind: str
    shapes: list[list[int]]
    scale: float
    algorithm: str
    particles: int
    serial_particles: int
    leapfrog: int
    transitions: int
    step_size: float
    temperatures: int
    mutations: int
    batch_size: int
    threads: int
    heads: int = 1
    likelihood: str = "categorical"
    arrays: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def frozen(self) -> dict[str, np.ndarray]:
        """Weights of the model that are not sampled."""
        mark = "frozen."
        return {n.removeprefix(mark): a for n, a in self.arrays.items() if n.startswith(mark)}

    def write(self, folder: Path) -> None:
        """Put it where the processes find it."""
        plain = {name: value for name, value in vars(self).items() if name != "arrays"}
        (folder / "task.json").write_text(json.dumps(plain), "utf-8")
        for name, array in self.arrays.items():
            np.save(folder / f"{name}.npy", array)


def read_task(folder: Path) -> Task:
    """The task that was written there."""
    plain = json.loads((folder / "task.json").read_text("utf-8"))
    arrays = {file.stem: np.load(file) for file in sorted(folder.glob("*.npy"))}
    return Task(**plain, arrays=arrays)


class Contender(Protocol):
    """A library with a task."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages whose versions are recorded."""

    @property
    def settings(self) -> dict[str, Any]:
        """In words, for the record."""

    def check(self, probe: np.ndarray) -> tuple[Any, Any]:
        """Log posterior `(probes,)` and gradient `(probes, dim)` in whitened coordinates."""

    def variants(self) -> Mapping[str, Unit]:
        """Ways to do a unit of work, by name."""


def peak_bytes() -> int:
    """The most memory that this process has held so far.

    Linux hands `ru_maxrss` down from the process that started this one, which may have been larger;
    the kernel's `VmHWM` starts afresh, so it is preferred where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def serve(make: Callable[[Task], Contender]) -> None:
    """Read the task in the folder that the command line names, and obey until `end`."""
    began = time.perf_counter()
    answers = _own_stdout()
    state: dict[str, Any] = {}

    def obey(word: str) -> dict[str, Any]:
        if word == "check":
            task = read_task(Path(sys.argv[1]))
            _keep_to(task.threads)
            state["contender"] = contender = make(task)
            values, gradients = contender.check(task.arrays["probe"])
            return {
                "values": np.asarray(values, dtype=np.float64).tolist(),
                "gradients": np.asarray(gradients, dtype=np.float64).tolist(),
                "setup_seconds": time.perf_counter() - began,
                "versions": {name: metadata.version(name) for name in contender.packages},
            }
        if word == "warm":
            state["unit"], answer = _warm_up(state["contender"].variants())
            return {**answer, "settings": state["contender"].settings}
        return _take_turn(state["unit"])

    for line in sys.stdin:
        word = line.strip()
        if word == "end":
            break
        try:
            answer = obey(word)
        except Exception as error:  # whatever a library raises is for the record
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
        print(json.dumps(answer), file=answers, flush=True)
    print(json.dumps({"peak_bytes": peak_bytes()}), file=answers, flush=True)


def _warm_up(variants: Mapping[str, Unit]) -> tuple[Unit, dict[str, Any]]:
    first: dict[str, float] = {}
    again: dict[str, float] = {}
    for name, unit in variants.items():
        first[name], done = _timed(unit)
        seconds = first[name]
        if seconds <= PATIENCE:
            seconds, done = _timed(unit)
        again[name] = seconds / (done.epochs * done.particles)
    best = min(again, key=again.__getitem__)
    answer = {"variant": best, "warm_up_seconds": first[best], "variants_each": again}
    return variants[best], answer


def _take_turn(unit: Unit) -> dict[str, Any]:
    seconds, epochs, particles = 0.0, 0.0, 0
    while seconds < LEAST_SECONDS:
        spent, done = _timed(unit)
        seconds, epochs, particles = seconds + spent, epochs + done.epochs, done.particles
    each = seconds / (epochs * particles)
    return {"seconds": seconds, "epochs": epochs, "particles": particles, "each": each}


def _keep_to(threads: int) -> None:
    """Allow as many cores as threads; XLA has as many threads as there are cores allowed."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:threads])


def _timed(unit: Unit) -> tuple[float, Done]:
    began = time.perf_counter()
    done = unit()
    return time.perf_counter() - began, done


def _own_stdout() -> TextIO:
    """The real standard output; what libraries print goes to standard error from now on."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers
