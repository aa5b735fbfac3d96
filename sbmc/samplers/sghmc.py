"""Stochastic-gradient Hamiltonian Monte Carlo in whitened coordinates, for a batch of particles.

The target at temperature λ is log π(z) = λ·ℓ(z) − ‖z‖²/2. With a momentum p, a friction γ and an
estimate β of the noise of the mini-batches, a step on the mini-batch B is

    z ← z + ε p,
    p ← (1 − ε γ) p + ε (λ (n/|B|) ∇ℓ_B(z) − z) + sqrt(2 (γ − β) ε) ξ,   ξ ~ N(0, I),

algorithm 2 of Chen, Fox and Guestrin (2014) with unit masses, C = γ and B̂ = β, and without fresh
momenta on the way; the prior's gradient is exact. As ε → 0 it follows the kinetic Langevin
diffusion, which leaves exp(log π(z) − ‖p‖²/2) invariant, and so π for the positions. No step is
rejected, so that at a given ε there is a bias. With the gradient of all data it is of first order
in the momenta, whose variance is 1 + γε/2 + O(ε²), but of second order in the positions: for a
Gaussian π with the precision a, their variance is (1/a)(1 + ε²a/4 + O(ε³)). It is stable while
ε² a < 4 − 2γε for the largest a.

Mini-batches without replacement leave the order at two if all are of one size, since what they add
to a pass cancels but for the motion within it. A short last batch, or batches with replacement,
have a part that does not cancel: noise of variance V in the gradient heats the positions by the
factor 1 + εV/(2γ), a bias of first order. That noise is a part β = εV/2 of what balances the
friction, and a β that is given is taken off what is added; β = 0 is the choice of Chen et al. where
V is unknown.
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


class SGHMCState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle."""

    position: Tensor  # (particles, dim), whitened
    momentum: Tensor  # (particles, dim)


def init(rng: IslandNoise, position: Tensor) -> SGHMCState:
    """The state at `position` `(particles, dim)`, with a momentum from N(0, I); no evaluation."""
    return SGHMCState(position.clone(), rng.normal(position.shape[1], position.dtype))


def step(
    rng: IslandNoise,
    state: SGHMCState,
    estimate: Estimate,
    *,
    step_size: float,
    friction: float,
    gradient_noise: float = 0.0,
    temperature: float = 1.0,
) -> tuple[SGHMCState, StepInfo]:
    """One step for every particle.

    Args:
        rng: ξ is drawn for each particle.
        state: where the particles are.
        estimate: log likelihood and gradient, estimated from a mini-batch.
        step_size: ε.
        friction: γ.
        gradient_noise: β, at most γ.
        temperature: λ.

    Returns:
        The new state and what there is to tell.
    """
    ε, γ = step_size, friction
    z = state.position + ε * state.momentum
    here = estimate(z)
    p, broken = kick(
        rng,
        state.momentum,
        here.gradient,
        z,
        keep=1 - ε * γ,
        force=ε,
        temperature=temperature,
        scale=math.sqrt(2 * (γ - gradient_noise) * ε),
    )
    # A momentum that is not finite is the next position's end; and a position is a part of it.
    return SGHMCState(z, p), StepInfo(here.log_likelihood, broken)


@dataclass(frozen=True, kw_only=True)
class SGHMC(StochasticGradient):
    """Settings of stochastic-gradient Hamiltonian Monte Carlo: one step on each mini-batch.

    Args:
        epochs: passes over the data.
        batch_size: examples per mini-batch, drawn without replacement for each particle.
        step_size: ε, in whitened units, as that of HMC.
        friction: γ. A momentum is forgotten after a time of about 1/γ, that is 1/(γε) steps.
        gradient_noise: β, the part of the friction that balances the noise of the mini-batches.
        temperature: λ, the exponent on the likelihood; see `StochasticGradient`.
        warmup: the fraction of the passes of which no state is kept.
        draws: states kept of each chain, `thinning` passes apart, the last of them at the end.
        thinning: passes from one kept state to the next.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> SGHMC(step_size=0.02, friction=3.0).epochs
        160
    """

    step_size: float = 0.02
    friction: float = 3.0
    gradient_noise: float = 0.0

    summary: ClassVar[str] = (
        "stochastic-gradient HMC: momentum with friction and noise on mini-batches"
    )
    cost: ClassVar[str] = "1 epoch a pass over the mini-batches"

    def __post_init__(self) -> None:
        super().__post_init__()
        # Beyond it the friction would turn momenta round.
        good = is_number(self.friction) and 0 < self.friction * self.step_size < 1
        require(good, "friction", "positive, and below 1 / step_size", self.friction)
        good = is_number(self.gradient_noise) and 0 <= self.gradient_noise <= self.friction
        require(good, "gradient_noise", "from 0 to the friction", self.gradient_noise)

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[PassesRun]:
        """Run a batch of islands from `start` `(islands * particles, dim)`, whitened."""
        move = partial(
            step,
            friction=self.friction,
            gradient_noise=self.gradient_noise,
            temperature=self.temperature,
        )
        return run_passes(self, init, move, target, rng, start, report, checkpointer)
