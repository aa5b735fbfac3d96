"""A run that takes a few seconds, as a program of its own: to be killed, and started again.

python slow_run.py hmc|smc in-process|processes|ray[-ranks] CHECKPOINT RESULT
"""

from __future__ import annotations

import json
import sys
import time

import torch
from torch import Tensor, nn

import sbmc
from sbmc.islands.executors import InProcess, Processes, Ray

ISLANDS = 4
SAMPLERS = {
    "hmc": sbmc.HMC(steps=40, leapfrog=3),
    "smc": sbmc.SMC(mutations=6),
}
EXECUTORS = {
    "in-process": InProcess(fold=1, threads=1),
    "processes": Processes(workers=2, threads=1),
    "ray": Ray(workers=2),
    "in-process-ranks": InProcess(fold=1, threads=1),
    "ray-ranks": Ray(workers=2, cpus=0.5),
}
# Islands of these have several ranks.
RANKS = {"in-process-ranks": 2, "ray-ranks": 2}


class Slowly(nn.Module):
    """Takes its time, so that there are moments to be killed at."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        """Its input, after a while."""
        time.sleep(self.seconds)
        return x


def run(sampler: str, executor: str, checkpoint: str | None, seconds: float) -> sbmc.Posterior:
    """The posterior; every place is written down."""
    rng = torch.Generator().manual_seed(7)
    inputs = torch.randn(16, 2, generator=rng)
    targets = (inputs[:, 0] > 0.3).long()
    torch.manual_seed(3)
    network = nn.Sequential(Slowly(seconds), nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    place = None if checkpoint is None else sbmc.CheckpointAt(checkpoint, every=0)
    return sbmc.fit(
        network,
        (inputs, targets),
        s=0.4,
        sampler=SAMPLERS[sampler],
        particles=3,
        islands=ISLANDS,
        compute=sbmc.Compute(
            path="loop",
            executor=EXECUTORS[executor],
            shards=RANKS.get(executor),
            checkpoint=place,
            retries=20,
        ),
        progress=False,
    )


def summary(posterior: sbmc.Posterior) -> dict:
    """All that an undisturbed run must have in common with this one, and its attempts."""
    reports = [report.as_dict() for report in posterior.islands]
    attempts = [report.pop("attempts") for report in reports]
    for report in reports:
        del report["seconds"]
    return {
        "positions": posterior.positions.numpy().tobytes().hex(),
        "weights": posterior.weights.numpy().tobytes().hex(),
        "reports": reports,
        "attempts": attempts,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    kind, who, folder, result = sys.argv[1:]
    found = summary(run(kind, who, folder, 0.001))
    with open(result, "w") as file:
        json.dump(found, file)
