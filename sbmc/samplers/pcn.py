"""The preconditioned Crank-Nicolson walk in whitened coordinates, for a batch of particles.

The target at temperature λ is log π(z) = λ·ℓ(z) − ‖z‖²/2. A step proposes

    z' = sqrt(1 − β²) z + β ξ,   ξ ~ N(0, I),

which is reversible for the prior N(0, I) by itself, and so accepts with probability
min(1, exp(λ ℓ(z') − λ ℓ(z))), which leaves π invariant (Cotter et al., 2013). No gradient is
needed, and where the likelihood is flat every step is accepted, in any dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import require
from sbmc.samplers.chain_settings import ChainSettings
from sbmc.samplers.chains import ChainRun, run_chains
from sbmc.samplers.kernel import OneStepKernel
from sbmc.samplers.metropolis import MetropolisInfo, metropolis_test
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.target import Target


class PCNState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle."""

    position: Tensor  # (particles, dim), whitened
    log_likelihood: Tensor  # (particles,) float64


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
) -> tuple[PCNState, MetropolisInfo]:
    """One step for every particle.

    Args:
        rng: ξ and a uniform number are drawn for each particle.
        state: where the particles are.
        target: log likelihood; its gradient is not computed.
        step_size: β, `(particles,)`, in (0, 1]. 1 proposes fresh draws from the prior.
        temperature: λ, a number or `(particles,)`.

    Returns:
        The new state and the info. A proposal that is not finite is rejected.
    """
    temperatures = torch.as_tensor(temperature, dtype=torch.float64, device=state.position.device)
    noise = rng.normal(state.position.shape[1], state.position.dtype)
    uniform = rng.uniform()
    β = step_size.to(state.position.dtype).unsqueeze(-1)
    position = (1 - β**2).sqrt() * state.position + β * noise
    value = target.log_likelihood(position).double()
    ratio = temperatures * (value - state.log_likelihood)
    info = metropolis_test(ratio, uniform)
    accepted = info.accepted
    merged = PCNState(
        torch.where(accepted.unsqueeze(-1), position, state.position),
        torch.where(accepted, value, state.log_likelihood),
    )
    return merged, info


@dataclass(frozen=True, kw_only=True)
class PCN(OneStepKernel, ChainSettings):
    """Settings of the preconditioned Crank-Nicolson walk: chains, or moves of `SMC`.

    Args:
        steps: steps per chain; or
        epochs: a budget of likelihood evaluations per chain instead, the first one and the search
            for a step size included. They are without gradient, and counted as forward epochs. If
            neither is given, 160; as a move of `SMC`, which has its own count, neither may be.
        step_size: the first β, in (0, 1]; searched for at the start if not given.
        adapt: whether it is adapted: in chains during warm-up, in `SMC` from one temperature to the
            next.
        acceptance_band: the acceptances at which the step size is not changed; 0.234 is the rule of
            thumb for walks.
        shrink: factor below the band.
        grow: factor above it; β never exceeds 1.
        warmup: the fraction of the steps (or of the budget) after which adaptation is frozen.
        draws: states kept of each chain, `thinning` steps apart, the last of them at the end.
        thinning: steps from one kept state to the next.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> PCN(step_size=0.3).step_size
        0.3
    """

    acceptance_band: tuple[float, float] = (0.2, 0.35)

    init_function = staticmethod(init)
    step_function = staticmethod(step)
    with_gradient = False
    summary: ClassVar[str] = "preconditioned Crank-Nicolson: a random walk that knows the prior"
    cost: ClassVar[str] = "1 forward epoch a step"

    def __post_init__(self) -> None:
        super().__post_init__()
        good = self.step_size is None or self.step_size <= self.largest_step
        require(good, "step_size", "in (0, 1]", self.step_size)

    @property
    def largest_step(self) -> float:
        """β of a fresh draw from the prior."""
        return 1.0

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
