"""Settings of the tempered SMC sampler."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from sbmc.checks import (
    MOST_COUNT,
    is_finite,
    is_number,
    is_whole,
    require,
    require_choice,
    require_count,
    require_flag,
)
from sbmc.samplers.adaptation import SEARCH_NOTE, SEARCH_PROBES
from sbmc.samplers.contract import EvaluationCount, Sampler
from sbmc.samplers.hmc import HMC
from sbmc.samplers.kernel import Kernel
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.remedies import LONGER, Symptom, call_of
from sbmc.samplers.smc.data_tempering import DataTempering
from sbmc.samplers.smc.diagnostics import SMCRun
from sbmc.samplers.smc.driver import run_smc
from sbmc.samplers.smc.increments import AdaptiveIncrement, check_temperatures
from sbmc.samplers.smc.pilot import check_learned, learn
from sbmc.samplers.smc.resampling import RESAMPLING
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.target import Target

if TYPE_CHECKING:
    from typing import Self

# How many temperatures a run is taken to need: those of the paper's MNIST7 posteriors.
TEMPERATURES = 15
# Further vectors of a particle for weighting and resampling; measured.
RESAMPLING_VECTORS = 8


@dataclass(frozen=True, kw_only=True)
class SMC(Sampler):
    """Settings of a sequential Monte Carlo sampler that tempers the likelihood (Algorithm 2).

    N particles start as draws of the anchored prior. The temperature λ, the exponent on the
    likelihood, rises from 0 to 1; at each temperature particles are weighted, resampled and moved.
    An island estimates the evidence Z = ∫ L dπ̄0 on the way, and islands are combined by it.

    Temperatures and step sizes adapt to the particles by default. The posterior is then right as N
    grows, but the evidence estimate is not unbiased, and with it the weighting of islands. With
    `pilot=True`, or with `temperatures` and `step_sizes` given, nothing adapts, Z is unbiased for
    any N, and the islands' weighted average converges in the number of islands alone.

    Args:
        mutations: M, steps of the move at each temperature: a number, or one for each temperature
            of a given schedule.
        eta: stop moving at a temperature once the mean distance moved has changed by no more than
            this fraction from one step to the next; M is then at least 2 and at most `mutations`.
            None makes all M steps.
        move: settings of the kernel: `HMC`, `MALA` or `PCN`; one leapfrog step of HMC if not given.
            Its step size adapts from one temperature to the next, never inside one.
        ess: ρ; each temperature is the one at which the effective sample size has fallen to this
            fraction.
        temperatures: a schedule given instead: increasing, the last of them 1.
        step_sizes: with it, the step size at each temperature, instead of adaptation.
        resampling: `"systematic"`, `"stratified"`, `"residual"` or `"multinomial"`.
        resample_below: resample only when the effective sample size is at most this fraction of N,
            and carry the weights over otherwise; None resamples at every temperature.
        waste_free: keep all states of the moves: N chains of length M at each temperature, N·M
            particles in the end. It starts from N·M draws.
        pilot: learn temperatures, step sizes and M in a run of its own, freeze them, then sample.
        most_temperatures: give up after so many.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> SMC(mutations=5).ess
        0.5
    """

    mutations: int | Sequence[int] = 10
    eta: float | None = None
    move: Kernel = field(default_factory=lambda: HMC(leapfrog=1))
    ess: float = 0.5
    temperatures: Sequence[float] | None = None
    step_sizes: Sequence[float] | None = None
    resampling: str = "systematic"
    resample_below: float | None = None
    waste_free: bool = False
    pilot: bool = False
    most_temperatures: int = 1_000

    default_start = "prior"
    default_weights = "evidence"
    tempers_data: ClassVar[bool] = True

    summary: ClassVar[str] = (
        "sequential Monte Carlo: a population led from the prior to the posterior"
    )
    cost: ClassVar[str] = (
        "1 epoch a leapfrog step of its moves, at each temperature; forward epochs with PCN"
    )

    def __post_init__(self) -> None:
        for name in ("waste_free", "pilot"):
            require_flag(name, getattr(self, name))
        self._check_move()
        AdaptiveIncrement(self.ess)
        if self.temperatures is not None:
            check_temperatures(self.temperatures)
            require(not self.pilot, "pilot", "left out when `temperatures` is given", self.pilot)
        self._check_mutations()
        self._check_step_sizes()
        require_choice("resampling", self.resampling, RESAMPLING)
        below = self.resample_below
        good = below is None or (is_number(below) and 0 < below < 1)
        require(good, "resample_below", "a fraction in (0, 1), or None for always", below)
        if self.waste_free:
            require(self.eta is None, "eta", "left out with `waste_free`", self.eta)
            require(below is None, "resample_below", "left out with `waste_free`", below)
        require_count("most_temperatures", self.most_temperatures)
        self._make_plain()

    def _make_plain(self) -> None:
        """Convert numbers of other libraries to Python's, and lists to tuples, for JSON."""
        kinds = {"mutations": int, "most_temperatures": int, "eta": float, "ess": float}
        kinds |= {"resample_below": float, "temperatures": float, "step_sizes": float}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value is not None:
                several = isinstance(value, Sequence)
                plain = tuple(kind(each) for each in value) if several else kind(value)
                object.__setattr__(self, name, plain)

    def _check_move(self) -> None:
        rule = "settings of a kernel, such as sbmc.HMC(...), sbmc.MALA(...) or sbmc.PCN(...)"
        good = all(hasattr(self.move, name) for name in ("begin", "advance", "probe"))
        require(
            good and not isinstance(self.move, type),
            "move",
            rule,
            self.move,
        )
        counted, single = "`mutations` says how many steps there are", "it is for single chains"
        reasons = {"steps": counted, "epochs": counted, "precondition": single, "scout": single}
        for name, reason in reasons.items():
            value = getattr(self.move, name, None)
            require(value is None, "move", f"without `{name}`: {reason}", value)

    def _check_mutations(self) -> None:
        given: Any = self.mutations
        each = [given] if is_whole(given) else given
        least = 2 if self.waste_free or self.eta is not None else 1
        rule = f"an integer of at least {least}, or one for each of the `temperatures`"
        listed = isinstance(each, Sequence) and not isinstance(each, str)
        good = listed and all(is_whole(m) and least <= m <= MOST_COUNT for m in each)
        if good and not is_whole(given):
            good = self.temperatures is not None and len(each) == len(self.temperatures)
        require(good, "mutations", rule, given)
        if self.waste_free:
            same = len(set(each)) == 1
            require(same, "mutations", "the same at every temperature with `waste_free`", given)
        if self.eta is not None:
            positive = is_finite(self.eta) and self.eta > 0
            require(positive, "eta", "positive and finite", self.eta)

    def _check_step_sizes(self) -> None:
        sizes = self.step_sizes
        if sizes is None:
            return
        scheduled = self.temperatures is not None
        require(scheduled, "step_sizes", "left out unless `temperatures` is given", sizes)
        assert self.temperatures is not None
        good = isinstance(sizes, Sequence) and len(sizes) == len(self.temperatures)
        good = good and all(
            is_number(size) and 0 < size <= self.move.largest_step and size < math.inf
            for size in sizes
        )
        require(good, "step_sizes", "one positive number for each of the `temperatures`", sizes)

    @property
    def frozen(self) -> bool:
        """Whether nothing adapts, so that the evidence estimate is unbiased."""
        fixed = self.step_sizes is not None or (
            not self.move.adapt and self.move.step_size is not None
        )
        return self.pilot or (self.temperatures is not None and fixed and self.eta is None)

    def mutations_at(self, index: int) -> int:
        """M at the temperature of this number."""
        return self.mutations if isinstance(self.mutations, int) else self.mutations[index]

    def step_size_at(self, index: int, current: float) -> float:
        """The step size at the temperature of this number, `current` if it is not given."""
        return current if self.step_sizes is None else float(self.step_sizes[index])

    def population(self, particles: int) -> int:
        """How many draws an island of `particles` starts from and ends with."""
        return particles * self.mutations_at(0) if self.waste_free else particles

    def evaluations(self) -> EvaluationCount:
        """Evaluations of a particle: at its start, and in the moves at each temperature.

        Returns:
            The count. If temperatures adapt, their number is assumed.
        """
        each, notes = self.move.count_step()
        if self.temperatures is None:
            mutations = self.mutations_at(0) * TEMPERATURES
            notes += (
                f"temperatures are not known beforehand: {self.mutations_at(0) * each} epochs "
                f"each, {TEMPERATURES} of them assumed",
            )
        else:
            mutations = sum(self.mutations_at(i) for i in range(len(self.temperatures)))
        if self.eta is not None:
            notes += ("at most, since `eta` may stop the moves at a temperature earlier",)
        if self.pilot:
            notes += ("a pilot run, as long as an island, comes on top",)
        start = self.mutations_at(0) if self.waste_free else 1
        count = start + mutations * each
        if self.move.step_size is None and self.step_sizes is None:
            count += SEARCH_PROBES
            notes += (SEARCH_NOTE,)
        # Without gradients, the start is evaluated without them, too.
        return EvaluationCount(*((count, 0) if self.move.with_gradient else (0, count)), notes)

    @property
    def vectors(self) -> int:
        """Vectors of a particle: those of its move, and of resampling."""
        return self.move.vectors + RESAMPLING_VECTORS

    def learn(self, target: Target, rng: IslandNoise, start: Tensor) -> dict[str, Any]:
        """Temperatures, step sizes and mutations of a pilot run, and its cost; see `pilot`."""
        frozen, run = learn(self, target, rng, start)
        return {
            "temperatures": frozen.temperatures,
            "step_sizes": frozen.step_sizes,
            "mutations": frozen.mutations,
            "epochs": run.epochs,
            "forward_epochs": run.forward_epochs,
        }

    def check_learned(self, learned: Mapping[str, Any]) -> None:
        """Refuse values that cannot come from `learn`; see `pilot`."""
        check_learned(learned)

    def frozen_with(self, learned: Mapping[str, Any]) -> Self:
        """The settings with the pilot's schedule, in which nothing adapts."""
        return replace(
            self,
            pilot=False,
            eta=None,
            temperatures=tuple(learned["temperatures"]),
            step_sizes=tuple(learned["step_sizes"]),
            mutations=learned["mutations"],
        )

    def for_added_data(self, per_island: int, particles: int) -> Self:
        """Moves that leave old data as they are, and a schedule that adapts."""
        most = self.mutations if isinstance(self.mutations, int) else max(self.mutations)
        return replace(
            self,
            move=DataTempering(self.move),
            mutations=per_island // particles if self.waste_free else most,
            temperatures=None,
            step_sizes=None,
            pilot=False,
        )

    def as_given(self) -> Self:
        """The wrapping of the kernel is a matter of the update."""
        return (
            replace(self, move=self.move.kernel) if isinstance(self.move, DataTempering) else self
        )

    @classmethod
    def remedies(
        cls, symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
    ) -> tuple[str, ...]:
        """Suggest more moves, and more particles or islands."""
        more = {}
        if isinstance(settings.get("mutations"), int):
            more["mutations"] = LONGER * settings["mutations"]
        return (
            f"Give the particles more moves at every temperature: {call_of(cls, settings, more)}.",
            "More particles or more islands would help too.",
        )

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[SMCRun]:
        """Run a batch of islands from `start` `(islands * population, dim)`, draws of the prior."""
        return run_smc(self, target, rng, start, report, checkpointer)
