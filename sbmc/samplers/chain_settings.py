"""Settings that all chains with a Metropolis step share: length, step size, and draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sbmc.checks import is_number, require, require_count
from sbmc.samplers.adaptation import SEARCH_NOTE, SEARCH_PROBES, check_adaptation
from sbmc.samplers.contract import (
    VECTORS,
    VECTORS_WITHOUT_GRADIENT,
    EvaluationCount,
    Sampler,
)
from sbmc.samplers.remedies import FEWEST_PASSES, Symptom, call_of, longer_run

if TYPE_CHECKING:
    from typing import Self

# The budget of the paper's chains: about the cost of training once.
DEFAULT_EPOCHS = 160
# Stochastic gradients are noisy: the remedy divides a step size that was too large for exact moves
# by this. On all networks of `benchmarks/health.py` that needed a remedy, particles then moved.
SMALLER = 5


class NextStep(NamedTuple):
    """The length and step size of an island's next step; they must not depend on any position."""

    evaluations: int  # leapfrog steps, for a sampler that has them
    step_size: float


@dataclass(frozen=True, kw_only=True)
class ChainSettings(Sampler):
    """The settings that all samplers of `run_chains` have in common; not a sampler itself.

    Args:
        steps: steps per chain; or
        epochs: a budget of likelihood evaluations per chain instead, the first one and the search
            for a step size included. If neither is given, 160; as a move of `SMC`, which has its
            own count, neither may be.
        step_size: the first step size; searched for at the start if not given.
        adapt: whether the step size is adapted during warm-up, from the acceptance across the
            particles of the island: times `shrink` below the band, times `grow` above it.
        acceptance_band: the acceptances at which the step size is not changed.
        shrink: factor below the band.
        grow: factor above it.
        warmup: the fraction of the steps (or of the budget) after which adaptation is frozen.
        draws: states kept of each chain, `thinning` steps apart, the last of them at the end. In
            the posterior they are further particles.
        thinning: steps from one kept state to the next.

    Raises:
        BadInput: a setting breaks its rule.
    """

    steps: int | None = None
    epochs: int | None = None
    step_size: float | None = None
    adapt: bool = True
    acceptance_band: tuple[float, float] = (0.6, 0.8)
    shrink: float = 0.7
    grow: float = 1.1
    warmup: float = 0.5
    draws: int = 1
    thinning: int = 1

    # Whether evaluations are with gradient, and so counted as epochs; else as forward epochs.
    with_gradient: ClassVar[bool] = True
    # Whether a step takes a number of leapfrog steps.
    takes_leapfrog: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require(
            self.steps is None or self.epochs is None,
            "steps",
            "left out when `epochs` is given",
            {"steps": self.steps, "epochs": self.epochs},
        )
        self._check_counts("steps", "draws", "thinning")
        # The first evaluation and one step.
        require_count("epochs", self.epochs, 2, optional=True)
        check_adaptation(self)
        good = is_number(self.warmup) and 0 <= self.warmup < 1
        require(good, "warmup", "in [0, 1)", self.warmup)
        self._check_draws()

    def _check_counts(self, *names: str) -> None:
        for name in names:
            optional = getattr(type(self), name) is None
            require_count(name, getattr(self, name), optional=optional)

    def _check_draws(self) -> None:
        if self.draws == 1:
            return
        steps, search = self.steps, 0
        if steps is None:
            each = self.evaluations_each
            rule = "1 unless the number of steps is known (`steps`, or `epochs` with `leapfrog`)"
            require(each is not None, "draws", rule, self.draws)
            assert each is not None
            steps = (self.budget - 1) // each
            # The search for a step size may use some of a budget; draws must fit into the rest.
            search = 0 if self.step_size is not None else math.ceil(SEARCH_PROBES / each)
        sampling_steps = steps - max(
            math.ceil(steps * self.warmup), min(search, math.ceil(steps / 2))
        )
        require(
            (self.draws - 1) * self.thinning < sampling_steps,
            "draws",
            f"few enough that draws x thinning fits in the {sampling_steps} steps after warm-up",
            (self.draws, self.thinning),
        )

    @property
    def budget(self) -> int:
        """Epochs for the chains, if `steps` does not decide."""
        return self.epochs or DEFAULT_EPOCHS

    @property
    def evaluations_each(self) -> int | None:
        """Evaluations of every step, if that is known beforehand."""
        return 1

    @property
    def evaluations_before(self) -> int:
        """Evaluations before the first step, apart from that of the start and from the search."""
        return 0

    def count_step(self) -> tuple[int, tuple[str, ...]]:
        """Evaluations of a step, and notes on what had to be assumed for the count."""
        return self.evaluations_each or 1, ()

    def evaluations(self) -> EvaluationCount:
        """Evaluations of a chain: the budget, or those of its steps and their preparation.

        Returns:
            The count. With a search for a step size it is an upper bound.
        """
        limited = self.limited()
        notes: tuple[str, ...] = ()
        if limited.epochs is not None:
            count = limited.epochs
        else:
            assert limited.steps is not None
            each, notes = self.count_step()
            count = 1 + self.evaluations_before + limited.steps * each
            if self.step_size is None:
                count += SEARCH_PROBES
                notes += (SEARCH_NOTE,)
        return EvaluationCount(*((count, 0) if self.with_gradient else (0, count)), notes)

    @property
    def vectors(self) -> int:
        """Vectors of a position's size that a particle takes at the peak of a step."""
        return VECTORS if self.with_gradient else VECTORS_WITHOUT_GRADIENT

    @classmethod
    def remedies(
        cls, symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
    ) -> tuple[str, ...]:
        """Suggest a longer run and, if moves are rejected, a sampler that never rejects."""
        longer = call_of(cls, settings, longer_run(settings, DEFAULT_EPOCHS))
        if list(symptoms) == ["too few moves"]:
            return (f"Give the chains a longer run: {longer}.",)
        now = settings.get("epochs") or settings.get("steps") or DEFAULT_EPOCHS
        epochs = max(now, FEWEST_PASSES)
        small = float(f"{0.01 if step_size is None else step_size / SMALLER:.2g}")
        return (
            "Stochastic-gradient chains move where these are rejected, and cost about as much: "
            f"sampler=sbmc.SGHMC(epochs={epochs!r}, step_size={small!r}). They are biased; "
            "a smaller step size lessens that.",
            f"To stay exact, give the chains a longer run: {longer}; a deep network may need many "
            "times more than that.",
        )

    @property
    def largest_step(self) -> float:
        """The largest step size."""
        return math.inf

    @property
    def search_acceptance(self) -> float:
        """The acceptance of single steps at which the search for a step size aims."""
        return sum(self.acceptance_band) / 2

    @property
    def launched(self) -> int:
        """How many first steps are taken without a Metropolis test."""
        return 0

    def next_step(self, step_size: float, uniform: float, remaining: int | None) -> NextStep:
        """Choose the length and the step size of the next step.

        Args:
            step_size: ε.
            uniform: a draw from [0, 1), for a random length.
            remaining: evaluations that remain of a budget, if there is one.

        Returns:
            The evaluations, at most those that remain, and the step size.
        """
        return NextStep(1, step_size)

    def limited(self) -> Self:
        """The settings with `steps` or a budget, which is 160 epochs by default."""
        given = self.steps is not None or self.epochs is not None
        return self if given else replace(self, epochs=DEFAULT_EPOCHS)
