"""Kinetic Langevin dynamics by UBU with symmetric mini-batch splitting, for a batch of particles.

The target at temperature λ is log π(z) = λ·ℓ(z) − ‖z‖²/2, and the dynamics are

    dz = p dt,   dp = (∇log π(z) − γ p) dt + sqrt(2γ) dW,

which leave exp(log π(z) − ‖p‖²/2) invariant, and so π for the positions. A step on the mini-batch B
is U(ε/2), then B(ε), then U(ε/2) (Paulin, Whalley, Chada and Leimkuhler, 2024), where

    B(ε):  p ← p + ε (λ (n/|B|) ∇ℓ_B(z) − z),
    U(t):  z ← z + (1 − η)/γ p + ζ,   p ← η p + ω,   η = exp(−γ t),

and (ζ, ω) is normal with Var ω = 1 − η², Cov(ζ, ω) = (1 − η)²/γ and
Var ζ = (2γt − 3 + 4η − η²)/γ²: U is the exact flow of everything but the gradient. Batches are
visited in the order 1 ... m, then m ... 1, and drawn anew for each pair of passes: what the order
of the batches does in one pass is undone to leading order in the other. No step is rejected; the
bias of positions and momenta is of second order in ε, that of the mini-batches included, if all of
them are of one size. (A short last batch, scaled by its own |B|, leaves a part that does not cancel
over a pass, and with it a bias of first order.) For a Gaussian π with the precision a and the
gradient of all data, the variance of z is (1/a)(1 − ε²a/6 + O(ε⁴)). It is stable while ε² a < 4 for
the largest a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import is_number, require
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.passes import Estimate
from sbmc.samplers.sg_chains import (
    PassesRun,
    StepInfo,
    StochasticGradient,
    run_passes,
)
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.target import Target

# Below it, a difference of nearly equal numbers is replaced by its series, exact to 1e-10.
SMALL = 0.01


class UBUState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle."""

    position: Tensor  # (particles, dim), whitened
    momentum: Tensor  # (particles, dim)


def init(rng: IslandNoise, position: Tensor) -> UBUState:
    """The state at `position` `(particles, dim)`, with a momentum from N(0, I); no evaluation."""
    return UBUState(position.clone(), rng.normal(position.shape[1], position.dtype))


def step(
    rng: IslandNoise,
    state: UBUState,
    estimate: Estimate,
    *,
    step_size: float,
    friction: float,
    temperature: float = 1.0,
) -> tuple[UBUState, StepInfo]:
    """One step for every particle.

    Args:
        rng: two normal vectors are drawn for each particle in each half.
        state: where the particles are.
        estimate: log likelihood and gradient, estimated from a mini-batch.
        step_size: ε.
        friction: γ.
        temperature: λ.

    Returns:
        The new state and what there is to tell.
    """
    z, p = drift(rng, state, step_size / 2, friction)
    here = estimate(z)
    p = p + step_size * (temperature * here.gradient - z)
    end = drift(rng, UBUState(z, p), step_size / 2, friction)
    broken = ~torch.isfinite(end.position).all(-1)
    return end, StepInfo(here.log_likelihood, broken)


def drift(rng: IslandNoise, state: UBUState, time: float, friction: float) -> UBUState:
    """U(t), with ω = sqrt(1 − η²) ξ₁ and ζ from ξ₁ and ξ₂; what ξ₁ leaves of Var ζ is ξ₂'s part.

    Args:
        rng: ξ₁ and then ξ₂ are drawn for each particle.
        state: where the particles are.
        time: t.
        friction: γ.

    Returns:
        Where they are a time t later.
    """
    dim, dtype = state.position.shape[1], state.position.dtype
    first, second = rng.normal(dim, dtype), rng.normal(dim, dtype)
    x = friction * time
    reach = -math.expm1(-x)  # 1 − η
    shared = reach * math.sqrt(math.tanh(x / 2)) / friction
    rest = 2 * x - 4 * math.tanh(x / 2) if x > SMALL else x**3 / 6 * (1 - x**2 / 10)
    position = state.position + reach / friction * state.momentum
    position = position + shared * first + math.sqrt(rest) / friction * second
    momentum = math.exp(-x) * state.momentum + math.sqrt(-math.expm1(-2 * x)) * first
    return UBUState(position, momentum)


@dataclass(frozen=True, kw_only=True)
class UBU(StochasticGradient):
    """Settings of kinetic Langevin dynamics by UBU, with symmetric mini-batch splitting.

    Args:
        epochs: passes over the data, an even number: each forward pass has its way back.
        batch_size: examples per mini-batch, drawn without replacement for each particle. Best
            if it divides the number of examples.
        step_size: ε, in whitened units, as that of HMC.
        friction: γ. A momentum is forgotten after a time of about 1/γ, that is 1/(γε) steps.
        temperature: λ, the exponent on the likelihood; see `StochasticGradient`.
        warmup: the fraction of the passes of which no state is kept.
        draws: states kept of each chain, `thinning` passes apart, the last of them at the end.
        thinning: passes from one kept state to the next.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> UBU(step_size=0.02, friction=3.0).epochs
        160
    """

    step_size: float = 0.02
    friction: float = 3.0

    summary: ClassVar[str] = "kinetic Langevin dynamics by UBU: mini-batches there and back"
    cost: ClassVar[str] = "1 epoch a pass over the mini-batches"
    paired = True

    def __post_init__(self) -> None:
        super().__post_init__()
        good = is_number(self.friction) and 0 < self.friction < math.inf
        require(good, "friction", "positive and finite", self.friction)

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[PassesRun]:
        """Run a batch of islands from `start` `(islands * particles, dim)`, whitened."""
        move = partial(step, friction=self.friction, temperature=self.temperature)
        return run_passes(self, init, move, target, rng, start, report, checkpointer)
