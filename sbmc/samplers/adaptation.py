"""Step sizes: the search for a first one, and the rule that adapts it to the acceptance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sbmc.checks import is_number, require, require_flag

FIRST_GUESS = 0.1
SEARCH_ACCEPTANCE = 0.7
SEARCH_PROBES = 12
# The note of forecasts.
SEARCH_NOTE = f"the search for a step size: {SEARCH_PROBES} epochs at most"


class Adaptive(Protocol):
    """The settings of a sampler that the rule reads."""

    @property
    def step_size(self) -> float | None:
        """The first step size, or None to search for it."""

    @property
    def adapt(self) -> bool:
        """Whether the step size is adapted at all."""

    @property
    def acceptance_band(self) -> tuple[float, float]:
        """Acceptances at which the step size is not changed."""

    @property
    def shrink(self) -> float:
        """Factor below the band."""

    @property
    def grow(self) -> float:
        """Factor above the band."""


def adapted(settings: Adaptive, step_size: float, acceptance: float) -> float:
    """The next step size: times `shrink` below the band, times `grow` above it."""
    if not settings.adapt:
        return step_size
    low, high = settings.acceptance_band
    factor = settings.shrink if acceptance < low else settings.grow if acceptance > high else 1.0
    return step_size * factor


def check_adaptation(settings: Adaptive) -> None:
    """Refuse settings that break their rules."""
    require_flag("adapt", settings.adapt)
    first = settings.step_size
    good = first is None or (is_number(first) and 0 < first < math.inf)
    require(good, "step_size", "positive and finite", first)
    band: Any = settings.acceptance_band
    pair = isinstance(band, Sequence) and len(band) == 2 and all(is_number(end) for end in band)
    good = pair and 0 < band[0] <= band[1] < 1
    require(good, "acceptance_band", "within (0, 1) and ordered", band)
    good = is_number(settings.shrink) and 0 < settings.shrink < 1
    require(good, "shrink", "in (0, 1)", settings.shrink)
    good = is_number(settings.grow) and 1 < settings.grow < math.inf
    require(good, "grow", "above 1", settings.grow)


@dataclass
class StepSearch:
    """Bracket a step size from the acceptance of single steps, then halve the bracket once.

    Attributes:
        trial: the step size to try next.
        aim: the acceptance to bracket.
        largest: the largest step size that is tried.
        good: the largest one known to be accepted.
        bad: the smallest one known to be rejected.
    """

    trial: float = FIRST_GUESS
    aim: float = SEARCH_ACCEPTANCE
    largest: float = math.inf
    good: float | None = None
    bad: float | None = None
    done: bool = False

    def update(self, acceptance: float) -> None:
        """Use the acceptance at `trial` to choose the next trial."""
        bracketed = self.good is not None and self.bad is not None
        if acceptance >= self.aim:
            self.good = self.trial
        else:
            self.bad = self.trial
        self.done = bracketed or self.good == self.largest
        if self.good is None:
            self.trial /= 2
        elif self.bad is None:
            self.trial = min(2 * self.trial, self.largest)
        else:
            self.trial = math.sqrt(self.good * self.bad)

    @property
    def result(self) -> float:
        """The largest step size that was accepted, or the next to try if none was."""
        return self.trial if self.good is None else self.good
