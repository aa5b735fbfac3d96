"""The preconditioned Crank-Nicolson walk in whitened coordinates, for a batch of particles.

The target at temperature λ is log π(z) = λ·ℓ(z) − ‖z‖²/2. A step proposes

    z' = sqrt(1 − β²) z + β ξ,   ξ ~ N(0, I),

which is reversible for the prior N(0, I) by itself, and so accepts with probability
min(1, exp(λ ℓ(z') − λ ℓ(z))), which leaves π invariant (Cotter et al., 2013). No gradient is
needed, and where the likelihood is flat every step is accepted, in any dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.checks import require
from sbmc.samplers.adaptation import check_adaptation
from sbmc.samplers.kernel import OneStepKernel
from sbmc.samplers.noise import IslandNoise
from sbmc.target import Target


class PCNState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle."""

    position: Tensor  # (particles, dim), whitened
    log_likelihood: Tensor  # (particles,) float64


class PCNInfo(NamedTuple):
    """What a step has to tell; the leading axis is the particle."""

    acceptance: Tensor  # (particles,) acceptance probabilities
    accepted: Tensor  # (particles,) bool
    non_finite: Tensor  # (particles,) bool: proposals rejected because they were not finite


def init(position: Tensor, target: Target) -> PCNState:
    """The state at `position` `(particles, dim)`, for one forward evaluation of each particle."""
    return PCNState(position.clone(), target.log_likelihood(position).double())


def step(
    rng: IslandNoise,
    state: PCNState,
    target: Target,
    *,
    step_size: Tensor,
    temperature: float | Tensor = 1.0,
) -> tuple[PCNState, PCNInfo]:
    """One step for every particle.

    Args:
        rng: ξ and a uniform number are drawn for each particle.
        state: where the particles are.
        target: log likelihood; its gradient is not asked for.
        step_size: β, `(particles,)`, in (0, 1]. 1 proposes fresh draws from the prior.
        temperature: λ, a number or `(particles,)`.

    Returns:
        The new state and what there is to tell. A proposal that is not finite is rejected.
    """
    heat = torch.as_tensor(temperature, dtype=torch.float64, device=state.position.device)
    noise = rng.normal(state.position.shape[1], state.position.dtype)
    uniform = rng.uniform()
    β = step_size.to(state.position.dtype).unsqueeze(-1)
    position = (1 - β**2).sqrt() * state.position + β * noise
    value = target.log_likelihood(position).double()
    ratio = heat * (value - state.log_likelihood)
    finite = torch.isfinite(ratio)
    acceptance = torch.where(finite, ratio.clamp(max=0).exp(), 0.0)
    accepted = uniform < acceptance
    merged = PCNState(
        torch.where(accepted.unsqueeze(-1), position, state.position),
        torch.where(accepted, value, state.log_likelihood),
    )
    return merged, PCNInfo(acceptance, accepted, ~finite)


@dataclass(frozen=True, kw_only=True)
class PCN(OneStepKernel):
    """Settings of the preconditioned Crank-Nicolson walk, as a move of `SMC`.

    Args:
        step_size: the first β, in (0, 1]; searched for at the start if not given.
        adapt: whether it is adapted, from one temperature to the next.
        acceptance_band: the acceptance that is left alone; 0.234 is the rule of thumb for walks.
        shrink: factor below the band.
        grow: factor above it; β never exceeds 1.

    Raises:
        BadInput: a setting breaks its rule.

    Example:
        >>> PCN(step_size=0.3).step_size
        0.3
    """

    step_size: float | None = None
    adapt: bool = True
    acceptance_band: tuple[float, float] = (0.2, 0.35)
    shrink: float = 0.7
    grow: float = 1.1

    init_function = staticmethod(init)
    step_function = staticmethod(step)
    with_gradient = False
    largest_step = 1.0

    def __post_init__(self) -> None:
        check_adaptation(self)
        good = self.step_size is None or self.step_size <= 1
        require(good, "step_size", "in (0, 1]", self.step_size)
