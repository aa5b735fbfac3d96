"""The report of an SMC run: its temperatures, and whether the population has collapsed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

# Below this, particles of one family are "close together": see `spread`.
NARROW = 0.25


@dataclass
class SMCRun:
    """One island's progress and, at the end, its result.

    Attributes:
        step_size: in whitened units.
        epochs: evaluations with gradient per particle so far, the first one included.
        forward_epochs: those without gradient.
        log_evidence: the estimate of log Z so far.
        temperatures: one entry for each temperature reached: `temperature`, `ess` (before
            resampling), `distinct` (ancestors), `roots` (first draws that are still represented),
            `acceptance`, `mutations`, `step_size`.
        draws: the final positions, `(population, dim)`, whitened.
        log_weights: their normalised log weights, `(population,)`.
        non_finite: proposals that were not finite.
        collapsed: how the population has collapsed, as text; empty if it has not.
        outcome: `running`, `completed`, or why it ended: `stuck` (no temperature can be found that
            is higher), `non-finite` (the population), `step-limit`.
        message: the reason as a sentence.
        roots: the number of the first draw that each particle descends from, `(population,)`.
        particle_acceptance: mean acceptance of each chain at the last temperature, `(particles,)`.
    """

    step_size: float = 0.0
    epochs: int = 0
    forward_epochs: int = 0
    log_evidence: float = 0.0
    temperatures: list[dict[str, Any]] = field(default_factory=list)
    draws: list[Tensor] = field(default_factory=list)
    log_weights: Tensor | None = None
    non_finite: int = 0
    collapsed: str = ""
    outcome: str = "running"
    message: str = ""
    roots: Tensor | None = None
    particle_acceptance: Tensor | None = None

    @property
    def sampling_steps(self) -> int:
        """Mutations of every particle, over all temperatures."""
        return sum(each["mutations"] for each in self.temperatures)

    @property
    def steps(self) -> int:
        """Temperatures reached."""
        return len(self.temperatures)

    @property
    def temperature(self) -> float:
        """The highest one."""
        return self.temperatures[-1]["temperature"] if self.temperatures else 0.0

    @property
    def acceptance(self) -> list[float]:
        """Mean acceptance at each temperature."""
        return [each["acceptance"] for each in self.temperatures]

    @property
    def sampling_acceptance(self) -> float:
        """Mean acceptance at the last temperature."""
        return self.acceptance[-1] if self.temperatures else float("nan")


def spread(positions: Tensor) -> float:
    """Mean squared distance of two particles over twice their mean squared norm, whitened.

    About 1 for independent draws of a posterior that most directions leave at the prior; 0 if all
    particles are the same.

    Examples:
        >>> spread(torch.ones(3, 5))
        0.0
    """
    z = positions.double()
    count = len(z)
    inside = (z - z.mean(0)).square().sum() / max(1, count - 1)
    return float(inside / (z.square().sum() / count).clamp(min=1e-300))


def describe_collapse(positions: Tensor, roots: Tensor) -> str:
    """Describe how a population has collapsed, if it has.

    Args:
        positions: `(population, dim)`, whitened.
        roots: `(population,)`, the first draw that each descends from.

    Returns:
        A clause without a full stop, or an empty string.
    """
    count = len(positions)
    distinct = len(torch.unique(positions, dim=0))
    if count > 1 and distinct <= count / 2:
        return f"only {distinct} of its {count} particles differ, the moves having been rejected"
    near = spread(positions)
    if count > 1 and len(roots.unique()) == 1 and near < NARROW:
        return (
            f"its {count} particles descend from one first draw and have not moved far apart "
            f"(spread {near:.2g}, where independent ones would have about 1)"
        )
    return ""
