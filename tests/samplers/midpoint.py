"""Langevin dynamics by the randomised midpoint rule (Shen and Lee, 2019); no step is rejected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import is_number, is_whole, require
from sbmc.samplers.contract import EvaluationCount, Sampler
from sbmc.samplers.remedies import call_of, longer_run
from sbmc.samplers.sg_chains import PassesRun
from sbmc.samplers.snapshot import NO_CHECKPOINTS


class State(NamedTuple):
    position: Tensor  # (particles, dim), whitened


def step(rng, state, target, *, step_size):
    """z' = z + h ∇log π(m) + B(h), with m = z + u h ∇log π(z) + B(u h) and u uniform."""
    z, h, dim = state.position, step_size, state.position.shape[1]
    u = rng.uniform().to(z.dtype).unsqueeze(-1)
    to_middle = (2 * u * h).sqrt() * rng.normal(dim, z.dtype)
    to_end = to_middle + (2 * (1 - u) * h).sqrt() * rng.normal(dim, z.dtype)
    middle = z + u * h * (target(z).gradient - z) + to_middle
    return State(z + h * (target(middle).gradient - middle) + to_end)


@dataclass(frozen=True, kw_only=True)
class Midpoint(Sampler):
    steps: int = 50
    step_size: float = 0.01
    draws: int = 1

    summary: ClassVar[str] = "Langevin dynamics by the randomised midpoint rule"
    cost: ClassVar[str] = "2 epochs a step, and 1 forward epoch at the end"
    vectors = 8

    def __post_init__(self) -> None:
        for name in ("steps", "draws"):
            value = getattr(self, name)
            require(is_whole(value) and value >= 1, name, "a positive integer", value)
        require(self.draws <= self.steps, "draws", "at most `steps`", self.draws)
        good = is_number(self.step_size) and 0 < self.step_size < math.inf
        require(good, "step_size", "positive and finite", self.step_size)

    def evaluations(self) -> EvaluationCount:
        return EvaluationCount(gradient=2 * self.steps, forward=1)

    @classmethod
    def remedies(cls, symptoms, settings, step_size) -> tuple[str, ...]:
        return (
            f"Let the diffusion run longer: {call_of(cls, settings, longer_run(settings, 0))}.",
        )

    def run(self, target, rng, start, report=None, checkpointer=NO_CHECKPOINTS) -> list[Any]:
        runs = [PassesRun(self.step_size) for _ in rng.generators]
        state = State(start.clone())
        for number in range(1, self.steps + 1):
            state = step(rng, state, target, step_size=self.step_size)
            for run, position in zip(runs, state.position.chunk(len(runs)), strict=True):
                run.steps = run.sampling_steps = number
                run.epochs += 2
                run.draws = [*run.draws, position.clone()][-self.draws :]
            if report is not None:
                report(runs)
        finite = torch.isfinite(target.log_likelihood(state.position)).chunk(len(runs))
        for run, good in zip(runs, finite, strict=True):
            run.forward_epochs = 1
            run.non_finite = int((~good).sum())
            run.outcome = "failed" if run.non_finite else "completed"
        return runs
