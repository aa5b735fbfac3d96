"""The No-U-Turn sampler in whitened coordinates: nutpie's chains, their evaluations as one batch.

The target at temperature λ is log π(z) = λ·ℓ(z) − ‖z‖²/2. From a momentum p ~ N(0, M), a draw
doubles a leapfrog trajectory of H(z, p) = −log π(z) + pᵀM⁻¹p/2, forwards or backwards in time,
until it begins to turn back on itself, and picks one of its points with probability ∝ exp(−H)
(Hoffman and Gelman, 2014; multinomial as in Betancourt, 2017), which leaves π invariant.

The warm-up belongs to nutpie. It sets the step size by dual averaging, and the mass matrix M by
which the whitened coordinates are scaled once more: diagonal, with the variance of coordinate i
estimated as sqrt(var z_i / var ∂_i log π) over a moving window of the warm-up's draws; or of low
rank beyond that, for correlated targets. Both are frozen after it.

Chains run side by side, with their evaluations as one batch: see `nuts_chains`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import is_number, require, require_count, require_flag
from sbmc.samplers.contract import EvaluationCount, Sampler
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.nuts_chains import (
    Chain,
    launcher,
    restore_chains,
    run_side_by_side,
    snapshot_of_chains,
)
from sbmc.samplers.remedies import LONGER, Symptom, call_of
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.target import Evaluation, Target

# A tree of this depth has a million steps, which no draw needs.
MOST_DEPTH = 20
# Chains that run side by side: each takes a handful of threads, which mostly sleep.
MOST_CHAINS = 32
# nutpie holds position and gradient of every draw, of the warm-up too, in float64 until a chain
# ends. For all chains that run side by side, this is the most memory that they may take.
TRACE_BYTES = 2**30
BYTES_EACH = 2 * 8


def tempered(
    position: Tensor, likelihood: Evaluation, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """λ·ℓ(z) − ‖z‖²/2 and its gradient.

    Args:
        position: z, `(particles, dim)` float64.
        likelihood: ℓ and its gradient there.
        temperature: λ.

    Returns:
        Values `(particles,)` and gradients `(particles, dim)`, float64. Where one of them is not
        finite the value is NaN, which ends a trajectory as divergent.
    """
    value = temperature * likelihood.log_likelihood - position.square().sum(-1) / 2
    gradient = temperature * likelihood.gradient.double() - position
    finite = torch.isfinite(value) & torch.isfinite(gradient).all(-1)
    return torch.where(finite, value, math.nan), gradient


@dataclass
class NUTSRun:
    """One island's progress and, at the end, its result.

    Attributes:
        step_size: the adapted one, in units of the mass matrix; the mean over particles.
        epochs: evaluations per particle so far: a mean, since every chain has trees of its own.
        steps: draws made, warm-up included, by the slowest chain.
        warm_steps: of which warm-up.
        draws: kept positions, each `(particles, dim)`, whitened, the newest last.
        acceptance: of each draw, the mean over the points of its trajectory and over particles.
        leapfrog: mean number of leapfrog steps of each draw.
        non_finite: divergent draws after warm-up, over all particles: trajectories cut off where
            the energy was off by more than 1,000 or not finite. More than a few, and the chains
            avoid a part of the target.
        warmup_divergences: those of the warm-up, which are no reason to worry.
        outcome: `completed`, `failed`, or `running`.
        message: why it failed.
        forward_epochs: evaluations without gradient: none.
        particle_acceptance: mean acceptance of each chain after warm-up, `(particles,)`.
    """

    step_size: float = math.nan
    epochs: float = 0.0
    steps: int = 0
    warm_steps: int = 0
    draws: list[Tensor] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    leapfrog: list[float] = field(default_factory=list)
    non_finite: int = 0
    warmup_divergences: int = 0
    outcome: str = "running"
    message: str = ""
    forward_epochs: int = 0
    particle_acceptance: Tensor | None = None

    @property
    def sampling_steps(self) -> int:
        """Draws made after warm-up."""
        return max(0, self.steps - self.warm_steps)

    @property
    def sampling_acceptance(self) -> float:
        """Mean acceptance after warm-up."""
        after = self.acceptance[self.warm_steps :]
        return sum(after) / len(after) if after else math.nan


@dataclass(frozen=True, kw_only=True)
class NUTS(Sampler):
    """Settings of the No-U-Turn sampler: a few long chains, one for each particle.

    A draw takes 2^depth − 1 leapfrog steps of one evaluation each; how many depends on the target.
    The budget is therefore set in draws, and the run reports their cost in epochs.

    Args:
        warmup_draws: draws during which step size and mass matrix are adapted; none is kept.
        draws: states kept of each chain, the last of them at the end. In the posterior they are
            further particles.
        thinning: draws from one kept state to the next.
        max_depth: doublings of a trajectory, at most.
        target_accept: the mean acceptance that the step size is adapted to.
        low_rank: whether the mass matrix may have off-diagonal parts: nutpie's low-rank
            modification, for strongly correlated targets.
        temperature: λ, the exponent on the likelihood.

    Raises:
        BadInput: a setting breaks its rule, or nutpie is not installed.

    Examples:
        >>> NUTS(warmup_draws=200, draws=50, thinning=4).steps
        400
    """

    summary: ClassVar[str] = "No-U-Turn sampler (nutpie): long chains, the gold standard"
    cost: ClassVar[str] = "1 epoch a leapfrog step; up to 2^max_depth - 1 a draw"

    warmup_draws: int = 400
    draws: int = 100
    thinning: int = 1
    max_depth: int = 10
    target_accept: float = 0.8
    low_rank: bool = False
    temperature: float = 1.0

    def __post_init__(self) -> None:
        for name in ("warmup_draws", "draws", "thinning", "max_depth"):
            value = getattr(self, name)
            require_count(name, value)
        good = is_number(self.target_accept) and 0 < self.target_accept < 1
        require(good, "target_accept", "in (0, 1)", self.target_accept)
        deep = f"at most {MOST_DEPTH}, which is {2**MOST_DEPTH:,} steps a draw"
        require(self.max_depth <= MOST_DEPTH, "max_depth", deep, self.max_depth)
        require_flag("low_rank", self.low_rank)
        good = is_number(self.temperature) and 0 < self.temperature < math.inf
        require(good, "temperature", "positive and finite", self.temperature)

    @property
    def steps(self) -> int:  # type: ignore[override]  # it follows from the settings
        """Draws of each chain, warm-up included."""
        return self.warmup_draws + self.draws * self.thinning

    def side_by_side(self, dim: int) -> int:
        """How many chains of `dim` dimensions run as one batch; this follows from shapes."""
        return max(1, min(MOST_CHAINS, TRACE_BYTES // (BYTES_EACH * dim * self.steps)))

    def evaluations(self) -> EvaluationCount:
        """An upper bound, since the depth of trajectories depends on the target."""
        most = self.steps * (2**self.max_depth - 1)
        return EvaluationCount(most, 0, ("NUTS: at most, with every trajectory at `max_depth`",))

    def further_bytes(self, positions: int, dim: int, data: int) -> int:
        """Bytes of the traces that nutpie holds until a chain ends."""
        return positions * BYTES_EACH * dim * self.steps

    @classmethod
    def remedies(
        cls, symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
    ) -> tuple[str, ...]:
        """Suggest a longer warm-up, which sets step size and mass matrix."""
        more = {"warmup_draws": LONGER * settings.get("warmup_draws", cls.warmup_draws)}
        return (f"Give the chains a longer warm-up: {call_of(cls, settings, more)}.",)

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[NUTSRun]:
        """Run a batch of islands from `start` `(islands * particles, dim)`, whitened.

        nutpie's state cannot be saved. A run that is resumed repeats the chains that had not ended,
        with the same seeds and so the same bits; the chains that had ended are restored.

        Args:
            target: log likelihood and gradient.
            rng: each chain's seed is drawn from its island's generator.
            start: where the chains start, exactly.
            report: called with all runs when a draw has been made.
            checkpointer: is offered a snapshot named "nuts" when chains that ran side by side have
                ended.

        Returns:
            One run per island. An island whose start is not finite has failed; the others are not
            affected.

        Raises:
            BadInput: nutpie is not installed.
        """
        launch = launcher(self)
        seeds = [
            int(seed)
            for g in rng.generators
            for seed in torch.randint(2**62, (rng.particles,), generator=g)
        ]
        chains = [
            Chain(row, row // rng.particles, seed, position, self)
            for row, (seed, position) in enumerate(zip(seeds, start.double().cpu(), strict=True))
        ]
        runs = [NUTSRun(warm_steps=self.warmup_draws) for _ in rng.generators]

        def report_runs() -> None:
            _update(runs, chains, self.steps)
            if report is not None:
                report(runs)

        def evaluate(positions: Tensor) -> tuple[Tensor, Tensor]:
            positions = positions.to(start.device)  # nutpie computes on the CPU
            return tempered(positions, target(positions.to(start)), self.temperature)

        most = self.side_by_side(start.shape[1])
        snapshot = checkpointer.restore("nuts")
        if snapshot is not None:
            restore_chains(snapshot, chains)
            _update(runs, chains, self.steps)
        ended = 0 if snapshot is None else snapshot.values["ended"]
        for i in range(ended, len(chains), most):
            # The remaining chains of an island that has failed are not run.
            batch = [c for c in chains[i : i + most] if runs[c.island].outcome == "running"]
            run_side_by_side(launch, batch, evaluate, report_runs)
            checkpointer.offer_snapshot(
                "nuts", partial(snapshot_of_chains, chains, i + len(chains[i : i + most]))
            )
            report_runs()
        checkpointer.discard("nuts")
        for island, run in enumerate(runs):
            _finish(run, [chain for chain in chains if chain.island == island], start)
        return runs


def _update(runs: Sequence[NUTSRun], chains: Sequence[Chain], total: int) -> None:
    each = len(chains) // len(runs)
    for island, run in enumerate(runs):
        island_chains = chains[island * each : (island + 1) * each]
        run.steps = min(chain.draws_made for chain in island_chains)
        run.epochs = sum(chain.evaluations for chain in island_chains) / each
        bad = sum(chain.broken for chain in island_chains)
        if bad:
            run.outcome = "failed"
            run.message = (
                f"log likelihood or gradient not finite for {bad} of {each} particles at the start"
            )
        elif run.steps == total:
            run.outcome = "completed"


def _finish(run: NUTSRun, chains: Sequence[Chain], start: Tensor) -> None:
    if run.outcome != "completed":
        return
    positions = torch.from_numpy(np.stack([chain.saved_draws for chain in chains], 1)).to(start)
    run.draws = list(positions)
    statistics = {
        name: np.stack([c.statistics[name] for c in chains]) for name in chains[0].statistics
    }
    run.acceptance = statistics["mean_tree_accept"].mean(0).tolist()
    after = statistics["mean_tree_accept"][:, run.warm_steps :]
    run.particle_acceptance = torch.from_numpy(after.mean(1))
    run.leapfrog = statistics["n_steps"].mean(0).tolist()
    run.step_size = float(statistics["step_size_bar"][:, -1].mean())
    diverging = statistics["diverging"].astype(int)
    run.warmup_divergences = int(diverging[:, : run.warm_steps].sum())
    run.non_finite = int(diverging[:, run.warm_steps :].sum())
