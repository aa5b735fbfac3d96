"""Stochastic-gradient Langevin dynamics in whitened coordinates, for a batch of particles.

The target at temperature λ is log π(z) = λ·ℓ(z) − ‖z‖²/2. A step on the mini-batch B is

    z ← z + ε/2 (λ (n/|B|) ∇ℓ_B(z) − z) + sqrt(ε) ξ,   ξ ~ N(0, I),

equation (4) of Welling and Teh (2011), with the prior's gradient exact. As ε → 0 it follows the
Langevin diffusion, which leaves π invariant. No step is rejected, so that at a given ε it leaves
another density invariant, whose moments differ from those of π by a bias of first order in ε: for a
Gaussian π with the precision a and the gradient of all data, the variance is (1/a) / (1 − ε a/4).
Mini-batches of one size without replacement leave the order at one, and noise of variance V in the
gradient that does not cancel over a pass adds ε V/4 to the variance's factor. Here ε is a
variance: the square of the step size of MALA. It is stable while ε a < 4 for the largest a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from sbmc.checks import is_number, require
from sbmc.samplers.noise import IslandNoise, kick
from sbmc.samplers.passes import Estimate
from sbmc.samplers.sg_chains import (
    PassesRun,
    StepInfo,
    StochasticGradient,
    run_passes,
)
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.target import Target


class SGLDState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle."""

    position: Tensor  # (particles, dim), whitened


def init(rng: IslandNoise, position: Tensor) -> SGLDState:
    """The state at `position` `(particles, dim)`; it costs nothing."""
    return SGLDState(position.clone())


def step(
    rng: IslandNoise,
    state: SGLDState,
    estimate: Estimate,
    *,
    step_size: float,
    temperature: float = 1.0,
) -> tuple[SGLDState, StepInfo]:
    """One step for every particle.

    Args:
        rng: ξ is drawn for each particle.
        state: where the particles are.
        estimate: log likelihood and gradient, estimated from a mini-batch.
        step_size: ε.
        temperature: λ.

    Returns:
        The new state and what there is to tell.
    """
    z = state.position
    here = estimate(z)
    factors = {"force": step_size / 2, "scale": math.sqrt(step_size)}
    z, broken = kick(rng, z, here.gradient, z, temperature=temperature, **factors)
    return SGLDState(z), StepInfo(here.log_likelihood, broken)


@dataclass(frozen=True, kw_only=True)
class SGLD(StochasticGradient):
    """Settings of stochastic-gradient Langevin dynamics: one step on each mini-batch.

    Args:
        epochs: passes over the data.
        batch_size: examples per mini-batch, drawn without replacement for each particle.
        step_size: ε of the first pass, the variance of the noise of one step.
        decay: the exponent of the schedule ε_k = ε (1 + k / delay)^(−decay) in the pass k; 0, the
            default, for a constant ε. Welling and Teh ask for one in (1/2, 1], with which the bias
            vanishes in the limit, and so does the motion.
        delay: passes after which the schedule begins to bite.
        temperature: λ, the exponent on the likelihood; see `StochasticGradient`.
        warmup: the fraction of the passes of which no state is kept.
        draws: states kept of each chain, `thinning` passes apart, the last of them at the end.
        thinning: passes from one kept state to the next.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> SGLD(step_size=0.01, decay=1.0, delay=10).size_at(10)
        0.005
    """

    step_size: float = 1e-3
    decay: float = 0.0
    delay: float = 1.0

    summary: ClassVar[str] = (
        "stochastic-gradient Langevin dynamics: noisy gradient descent on mini-batches"
    )
    cost: ClassVar[str] = "1 epoch a pass over the mini-batches"

    def __post_init__(self) -> None:
        super().__post_init__()
        good = is_number(self.decay) and 0 <= self.decay <= 1
        require(good, "decay", "in [0, 1]", self.decay)
        good = is_number(self.delay) and 0 < self.delay < math.inf
        require(good, "delay", "positive and finite", self.delay)

    def size_at(self, epoch: int) -> float:
        """The step size of pass `epoch`, counted from 0."""
        return float(self.step_size * (1 + epoch / self.delay) ** -self.decay)

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[PassesRun]:
        """Run a batch of islands from `start` `(islands * particles, dim)`, whitened."""
        move = partial(step, temperature=self.temperature)
        return run_passes(self, init, move, target, rng, start, report, checkpointer)
