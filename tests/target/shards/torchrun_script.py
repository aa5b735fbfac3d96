"""A script for torchrun: samples the conjugate regression by the ranks of torchrun.

Arguments: the folder of the checkpoint, then the rank that kills itself in mid-run, or -1.
"""

import os
import sys

import torch
from targets import conjugate_regression

import sbmc


def deadly_likelihood(deadly: int):
    made = [0]

    def log_prob(outputs, targets):
        made[0] += 1
        if int(os.environ["RANK"]) == deadly and made[0] > 300:
            os.kill(os.getpid(), 9)
        errors = (outputs.reshape(targets.shape) - targets).square()
        return -errors.reshape(len(targets), -1).sum(-1) / (2 * 0.64)

    return log_prob


def main(folder: str, deadly: int) -> None:
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
    main(sys.argv[1], int(sys.argv[2]))
