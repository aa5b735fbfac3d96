"""Work on a tiny network, likelihoods that misbehave, and scripts that are run as users run them.

Workers import this module: what they are sent refers to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from repository import ROOT
from torch import Tensor, nn

from sbmc import HMC, SMC
from sbmc.islands.checkpoints import Checkpoint, CheckpointAt
from sbmc.islands.island import Island, start_at_anchor, start_at_prior
from sbmc.islands.job import Batch, Job
from sbmc.likelihoods import as_likelihood
from sbmc.model.data import Examples
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.samplers.contract import Sampler
from sbmc.target.builder import EngineBuilder

SAMPLERS = {
    "hmc": HMC(steps=6, leapfrog=3),
    "smc": SMC(mutations=3),
}


def make_work(sampler: Sampler, likelihood: object = "categorical", threads: int | None = 1) -> Job:
    """Islands of three particles on a network of a dozen weights, by the pieces `fit` uses."""
    rng = torch.Generator().manual_seed(7)
    inputs = torch.randn(16, 2, generator=rng)
    targets = (inputs[:, 0] > 0.3).long()
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    space = select_parameters(model, "all")
    anchor = space.flatten(model)
    prior = AnchoredPrior(anchor, torch.full_like(anchor, 0.4), anchor)
    build = EngineBuilder(model, space, as_likelihood(likelihood), Examples(inputs, targets))
    start = start_at_prior if isinstance(sampler, SMC) else start_at_anchor
    engine = build(anchor)
    engine.settle()
    return Job(sampler, engine, [prior], start, particles=3, seed=11, threads=threads)


def open_checkpoint(folder: Path, batches: list[Batch], every: float = 0.0) -> Checkpoint:
    """A checkpoint of these batches, which writes whenever it can."""
    islands = sorted(index for batch in batches for index in batch)
    place = CheckpointAt(folder, every=every)
    return Checkpoint.open(place, {"work": "tiny"}, islands, lambda _: batches, threads=1)


def alone(islands: int) -> list[Batch]:
    """Batches of one island each."""
    return [(index,) for index in range(islands)]


def same_bits(one: list[Island], other: list[Island]) -> bool:
    """Whether islands are the same but for what a disturbed run may tell: attempts and seconds."""
    return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))


def _same(one: Island, other: Island) -> bool:
    apart = ("attempts", "seconds")
    reports = [island.report.as_dict() for island in (one, other)]
    plain = [{k: v for k, v in report.items() if k not in apart} for report in reports]
    return plain[0] == plain[1] and all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in ((one.positions, other.positions), (one.weights, other.weights))
    )


def categorical(outputs: Tensor, targets: Tensor) -> Tensor:
    """What the misbehaving ones compute when they behave."""
    return torch.log_softmax(outputs, -1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def claim(marker: str) -> bool:
    """Whether this is the first to come."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


@dataclass
class Deadly:
    """Kills its process at a call, as often as there are markers to claim."""

    folder: str
    at: int = 40
    times: int = 1
    calls: int = 0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.calls += 1
        if self.calls >= self.at:
            for number in range(self.times):
                if claim(f"{self.folder}/killed-{number}"):
                    os.kill(os.getpid(), signal.SIGKILL)
        return categorical(outputs, targets)


@dataclass
class Raising:
    """Raises at a call, as often as there are markers to claim."""

    folder: str
    error: type[BaseException]
    at: int = 40
    times: int = 1
    calls: int = 0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.calls += 1
        if self.calls >= self.at:
            for number in range(self.times):
                if claim(f"{self.folder}/raised-{number}"):
                    raise self.error("on purpose")
        return categorical(outputs, targets)


@dataclass
class Slow:
    """Takes its time, and says where it runs; but not in the process that it was made in."""

    folder: str
    seconds: float = 0.01
    parent: int = field(default_factory=os.getpid)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if os.getpid() != self.parent:
            Path(self.folder, f"pid-{os.getpid()}").touch()
            time.sleep(self.seconds)
        return categorical(outputs, targets)


class Odd(Exception):
    """Cannot be pickled: its arguments are not those that it is made from."""

    def __init__(self, one: str, two: str = "2") -> None:
        super().__init__()
        self.lock = threading.Lock()


def chatty(outputs: Tensor, targets: Tensor) -> Tensor:
    """Prints, and writes to the file of standard output behind Python's back."""
    print("a model may print", flush=True)
    os.write(1, b"in any way\n")
    return categorical(outputs, targets)


def pids_in(folder: Path) -> list[int]:
    """The processes that `Slow` ran in."""
    return [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that has ended and waits for its parent does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until(condition, seconds: float = 180.0) -> None:
    """Wait until something is so, and fail if it never is."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def run_script(path: Path, text: str, *arguments: str) -> subprocess.Popen:
    """Run a script as a user would, with the package and the tests in reach."""
    path.write_text(text)
    reach = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, str(path), *arguments],
        env={**os.environ, "PYTHONPATH": reach, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
