"""The next temperature: found from the weights, or read from a schedule.

Both rules have one signature, `(log_likelihood, log_weights, temperature) -> temperature`, for one
island, and never return a temperature above 1. If the temperature that is returned is not higher
than the argument, the schedule is stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sbmc.checks import Phrase, is_number, require

# (log likelihoods (N,), normalised log weights (N,), temperature) -> the next temperature
Increment = Callable[[Tensor, Tensor, float], float]

BISECTIONS = 200


def effective_sample_size(log_weights: Tensor) -> Tensor:
    """Effective number of particles, (Σ w)² / Σ w², over the last axis.

    Args:
        log_weights: `(..., N)`, normalised or not; −∞ is a weight of zero.

    Returns:
        `(...)` float64, from 1 to N.

    Examples:
        >>> effective_sample_size(torch.zeros(8))
        tensor(8., dtype=torch.float64)
        >>> effective_sample_size(torch.tensor([0.0, -torch.inf]))
        tensor(1., dtype=torch.float64)
    """
    weights = torch.softmax(log_weights.double(), -1)
    return 1 / weights.square().sum(-1)


def tilt(log_weights: Tensor, log_likelihood: Tensor, increment: Tensor | float) -> Tensor:
    """Log weights after an increment h of the temperature: log w + h·ℓ.

    A likelihood of zero stays a weight of zero, where 0 · ∞ would make it undefined.
    """
    change = torch.as_tensor(increment, dtype=torch.float64) * log_likelihood
    dead = torch.isneginf(log_likelihood) | torch.isneginf(log_weights)
    return torch.where(dead, -torch.inf, log_weights + change)


@dataclass(frozen=True)
class AdaptiveIncrement:
    """The increment at which the effective sample size has fallen to a fraction ρ of what it was.

    "What it was" is N after resampling, so that ESS = ρN as in the paper's appendix. Weights that
    were carried over, and particles whose likelihood is zero, lower it to begin with; a fixed ρN
    might then be out of reach of any increment. Found by bisection: ESS falls as the increment
    grows from zero (Beskos et al., 2016).

    The increment depends on the particles that it then weights, so that the evidence is consistent
    as N grows but, unlike that of a fixed schedule, not unbiased.

    Args:
        ess: ρ, in (0, 1).

    Examples:
        >>> rule = AdaptiveIncrement(0.5)
        >>> rule(torch.zeros(4), torch.full((4,), 0.25).log(), 0.3)  # all likelihoods are equal
        1.0
    """

    ess: float = 0.5

    def __post_init__(self) -> None:
        good = is_number(self.ess) and 0 < self.ess < 1
        require(good, "ess", "a fraction in (0, 1)", self.ess)

    def __call__(self, log_likelihood: Tensor, log_weights: Tensor, temperature: float) -> float:
        """The next temperature."""
        values, carried = log_likelihood.double().cpu(), log_weights.double().cpu()

        def after(increment: float) -> float:
            return float(effective_sample_size(tilt(carried, values, increment)))

        target_ess = self.ess * after(0.0)
        low, high = 0.0, 1.0 - temperature
        if after(high) >= target_ess:
            return 1.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            if middle in (low, high):
                break
            low, high = (middle, high) if after(middle) >= target_ess else (low, middle)
        return temperature + low


@dataclass(frozen=True)
class Schedule:
    """Temperatures given beforehand: the evidence estimate is unbiased if all else is fixed too.

    Args:
        temperatures: strictly increasing, above 0, the last exactly 1.

    Examples:
        >>> Schedule((0.1, 0.5, 1.0))(torch.zeros(4), torch.zeros(4), 0.1)
        0.5
    """

    temperatures: Sequence[float]

    def __post_init__(self) -> None:
        check_temperatures(self.temperatures)

    def __call__(self, log_likelihood: Tensor, log_weights: Tensor, temperature: float) -> float:
        """The next temperature; it does not depend on the particles."""
        return next((float(t) for t in self.temperatures if t > temperature), temperature)


def check_temperatures(temperatures: Sequence[float]) -> None:
    """Refuse a schedule that does not lead up to 1."""
    rule = "strictly increasing numbers above 0, the last of them 1"
    numbers = isinstance(temperatures, Sequence) and all(map(is_number, temperatures))
    good = numbers and len(temperatures) > 0 and temperatures[-1] == 1
    good = good and all(a < b for a, b in zip((0.0, *temperatures), temperatures, strict=False))
    shown = temperatures if numbers and len(temperatures) < 8 else Phrase("another sequence")
    require(good, "temperatures", rule, shown)
