"""A script for torchrun: samples the conjugate regression by the ranks of torchrun.

Arguments: the folder of the checkpoint, then the rank that kills itself in mid-run, `all` for ranks
that all get a Ctrl-C there, or `none`.
"""

import os
import signal
import sys

import torch
from targets import conjugate_regression

import sbmc


def deadly_likelihood(deadly: str):
    made = [0]
    ending = signal.SIGINT if deadly == "all" else signal.SIGKILL

    def log_prob(outputs, targets):
        made[0] += 1
        # Asked here, since the other ranks have copies of what rank 0 has made.
        if deadly in ("all", os.environ["RANK"]) and made[0] == 300:
            os.kill(os.getpid(), ending)
        errors = (outputs.reshape(targets.shape) - targets).square()
        return -errors.reshape(len(targets), -1).sum(-1) / (2 * 0.64)

    return log_prob


def main(folder: str, deadly: str) -> None:
    rank, problem = int(os.environ["RANK"]), conjugate_regression()
    posterior = sbmc.fit(
        problem.model,
        # The data of rank 0 count; others need not have any.
        (problem.inputs, problem.targets) if rank == 0 else None,
        s=0.25,
        prior_variance=problem.prior_variance,
        likelihood=deadly_likelihood(deadly),
        sampler=sbmc.HMC(steps=30),
        particles=4,
        compute=sbmc.Compute(shards="torchrun", checkpoint=sbmc.CheckpointAt(folder, every=0)),
        progress=False,
    )
    result = posterior.positions, posterior.islands[0].attempts
    torch.save(result, f"{folder}/posterior-{rank}.pt")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
