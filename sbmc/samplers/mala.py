"""The Metropolis-adjusted Langevin algorithm in whitened coordinates, for a batch of particles.

The target at temperature λ is log π(z) = λ·ℓ(z) − ‖z‖²/2. A step proposes

    z' = z + ε²/2 ∇log π(z) + ε ξ,   ξ ~ N(0, I),

and accepts with probability min(1, π(z') q(z | z') / π(z) q(z' | z)), where q is the density of the
proposal, which leaves π invariant. It is HMC with one leapfrog step, written by its own formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.chain_settings import ChainSettings
from sbmc.samplers.chains import ChainRun, run_chains
from sbmc.samplers.kernel import OneStepKernel
from sbmc.samplers.metropolis import MetropolisInfo, metropolis_test
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.target import Target


class MALAState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle."""

    position: Tensor  # (particles, dim), whitened
    log_likelihood: Tensor  # (particles,) float64
    gradient: Tensor  # (particles, dim), of the log likelihood


def init(position: Tensor, target: Target) -> MALAState:
    """The state at `position` `(particles, dim)`, for one evaluation of each particle."""
    return MALAState(position.clone(), *target(position))


def step(
    rng: IslandNoise,
    state: MALAState,
    target: Target,
    *,
    step_size: Tensor,
    temperature: float | Tensor = 1.0,
) -> tuple[MALAState, MetropolisInfo]:
    """One Langevin step for every particle.

    Args:
        rng: ξ and a uniform number are drawn for each particle.
        state: where the particles are.
        target: log likelihood and gradient.
        step_size: ε, `(particles,)`.
        temperature: λ, a number or `(particles,)`.

    Returns:
        The new state and the info. A proposal that is not finite is rejected.
    """
    dtype = state.position.dtype
    temperatures = torch.as_tensor(temperature, dtype=torch.float64, device=state.position.device)
    noise = rng.normal(state.position.shape[1], dtype)
    uniform = rng.uniform()
    ε = step_size.to(dtype).unsqueeze(-1)
    λ = temperatures.to(dtype).expand(len(step_size)).unsqueeze(-1)

    def drifted(at: MALAState) -> Tensor:
        return at.position + ε**2 / 2 * (λ * at.gradient - at.position)

    def log_density(at: MALAState) -> Tensor:
        return temperatures * at.log_likelihood - at.position.double().square().sum(-1) / 2

    def log_proposal(to: MALAState, mean: Tensor) -> Tensor:
        return -(to.position - mean).double().square().sum(-1) / (2 * step_size.double() ** 2)

    ahead = drifted(state)
    position = ahead + ε * noise
    proposal = MALAState(position, *target(position))
    ratio = log_density(proposal) - log_density(state)
    ratio = ratio + log_proposal(state, drifted(proposal)) - log_proposal(proposal, ahead)
    info = metropolis_test(ratio, uniform)
    accepted = info.accepted
    rows = accepted.unsqueeze(-1)
    merged = MALAState(
        torch.where(rows, proposal.position, state.position),
        torch.where(accepted, proposal.log_likelihood, state.log_likelihood),
        torch.where(rows, proposal.gradient, state.gradient),
    )
    return merged, info


@dataclass(frozen=True, kw_only=True)
class MALA(OneStepKernel, ChainSettings):
    """Settings of the Metropolis-adjusted Langevin algorithm: chains, or moves of `SMC`.

    Args:
        steps: steps per chain; or
        epochs: a budget of likelihood evaluations per chain instead, the first one and the search
            for a step size included. If neither is given, 160; as a move of `SMC`, which has its
            own count, neither may be.
        step_size: the first step size; searched for at the start if not given.
        adapt: whether it is adapted: in chains during warm-up, in `SMC` from one temperature to the
            next.
        acceptance_band: the acceptances at which the step size is not changed; 0.574 is best in
            many dimensions (Roberts and Rosenthal, 1998).
        shrink: factor below the band.
        grow: factor above it.
        warmup: the fraction of the steps (or of the budget) after which adaptation is frozen.
        draws: states kept of each chain, `thinning` steps apart, the last of them at the end.
        thinning: steps from one kept state to the next.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> MALA(step_size=0.1).adapt
        True
    """

    acceptance_band: tuple[float, float] = (0.5, 0.7)

    init_function = staticmethod(init)
    step_function = staticmethod(step)
    summary: ClassVar[str] = "Metropolis-adjusted Langevin: single steps along the gradient"
    cost: ClassVar[str] = "1 epoch a step"

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[ChainRun]:
        """Run a batch of islands from `start` `(islands * particles, dim)`, whitened."""
        return run_chains(self.limited(), init, step, target, rng, start, report, checkpointer)
