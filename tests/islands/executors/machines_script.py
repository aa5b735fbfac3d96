"""A script for one of two machines: islands of two ranks by Ray, a rank on each machine.

Arguments: the address of the cluster, and a folder for what ranks leave: a file for each network
namespace in which one has evaluated, and one that says that a rank was killed.
"""

import os
import sys
from pathlib import Path

import torch
from torch import nn

import sbmc


class Categorical:
    """Notes where it is called, if there is a folder, and kills the process of one rank of Ray."""

    def __init__(self, folder: str | None) -> None:
        self.folder, self.calls = folder, 0

    def __call__(self, outputs, targets):
        self.calls += 1
        if self.folder is not None:
            Path(self.folder, os.readlink("/proc/self/ns/net")).touch()
            killed = Path(self.folder, "killed")
            title = Path("/proc/self/cmdline").read_text()
            if self.calls > 20 and title.startswith("ray::serve_rank") and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), 9)
        return torch.log_softmax(outputs, -1).gather(-1, targets[:, None])[:, 0]


def fit(folder: str | None, **compute):
    torch.manual_seed(0)
    inputs = torch.randn(60, 3)
    return sbmc.fit(
        nn.Linear(3, 2),
        (inputs, (inputs[:, 0] > 0).long()),
        s=0.1,
        likelihood=Categorical(folder),
        sampler=sbmc.HMC(steps=10, leapfrog=4),
        particles=3,
        islands=2,
        compute=sbmc.Compute(shards=2, **compute),
        progress=False,
    )


def main(address: str, folder: str) -> None:
    there = fit(folder, executor=sbmc.Ray(address=address))
    same = torch.equal(there.positions, fit(None).positions)
    attempts = sorted(report.attempts for report in there.islands)
    print("same bits" if same else "other bits", attempts)


if __name__ == "__main__":
    main(*sys.argv[1:])
