"""P independent islands: started, run and reported one by one, so that a failure loses only one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import BadInput
from sbmc.log import logger
from sbmc.prior import AnchoredPrior
from sbmc.progress import open_progress
from sbmc.randomness import Stream, generator
from sbmc.samplers.contract import IslandRun, Sampler
from sbmc.samplers.noise import IslandNoise
from sbmc.target import Target

# Islands are folded into one batch up to this many particles.
FOLD_PARTICLES = 160
# "The anchor plus a little noise", in units of the prior's standard deviation.
ANCHOR_NOISE = 0.01


@dataclass(frozen=True)
class IslandReport:
    """How one island fared.

    Attributes:
        index: its number, which with the seed decides its noise.
        outcome: `completed`; `failed`; of SMC also `stuck`, `non-finite`, `step-limit`.
        log_evidence: its estimate of the log normalising constant; None for MCMC.
        epochs: evaluations with gradient per particle.
        acceptance: mean acceptance after warm-up, or at SMC's last temperature.
        step_size: the last step size, in whitened units.
        steps: steps made; temperatures for SMC.
        non_finite: proposals that were rejected because they were not finite.
        message: why it failed.
        forward_epochs: evaluations without gradient per particle.
        collapsed: in words, if SMC's population has collapsed.
        temperatures: what SMC tells of each temperature.
    """

    index: int
    outcome: str
    log_evidence: float | None = None
    epochs: float = 0.0
    acceptance: float | None = None
    step_size: float | None = None
    steps: int = 0
    non_finite: int = 0
    message: str = ""
    forward_epochs: float = 0.0
    collapsed: str = ""
    temperatures: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Island:
    """An island's report and, if it completed, its particles.

    Attributes:
        report: how it fared.
        positions: whitened, `(particles, dim)`; several draws of a chain stand as particles.
        weights: normalised inside the island, `(particles,)` float64; None for equal ones.
    """

    report: IslandReport
    positions: Tensor | None
    weights: Tensor | None = None


# (prior, generator, particles) -> whitened start positions of one island
Start = Callable[[AnchoredPrior, torch.Generator, int], Tensor]


def start_at_prior(prior: AnchoredPrior, rng: torch.Generator, particles: int) -> Tensor:
    """Draws from the anchored prior, as in the paper."""
    return prior.sample(particles, rng)


def start_at_anchor(prior: AnchoredPrior, rng: torch.Generator, particles: int) -> Tensor:
    """The anchor plus a little noise."""
    return prior.to_whitened(prior.anchor) + ANCHOR_NOISE * prior.sample(particles, rng)


def start_at_members(members: Tensor) -> Start:
    """Particle i starts at member i (and again from the first when there are more particles)."""

    def start(prior: AnchoredPrior, rng: torch.Generator, particles: int) -> Tensor:
        index = torch.arange(particles) % len(members)
        return prior.to_whitened(members[index.to(members.device)])

    return start


def run_islands(
    sampler: Sampler,
    target: Target | Sequence[Target],
    start: Start,
    *,
    islands: int,
    particles: int,
    seed: int,
    progress: bool | None = None,
    fold: int | None = None,
) -> list[Island]:
    """Run `islands` islands of `particles` particles in this process, folded into batches that fit.

    Args:
        sampler: the algorithm's settings.
        target: log likelihood and gradient; or several, one for each anchor, which the islands take
            in turn. Only islands of one target are folded together.
        start: where an island's particles begin.
        islands: how many.
        particles: particles per island.
        seed: island i draws from the stream (seed, i) and from nothing else.
        progress: None for automatic, False for silence, True for always.
        fold: most particles of one batch; an island that has more is a batch of its own.

    Returns:
        The islands in order. A fold that raises is run again island by island, and an island that
        raises alone is reported as failed.
    """
    most = FOLD_PARTICLES if fold is None else fold
    per_fold = max(1, most // sampler.population(particles))
    targets = target if isinstance(target, Sequence) else [target]
    folds = [
        (own, batch)
        for first, own in enumerate(targets)
        for batch in _batches(range(first, islands, len(targets)), per_fold)
    ]
    results: list[Island] = []
    # SMC's temperatures are not known beforehand: what is counted then is islands.
    each = sampler.steps or sampler.epochs or 1
    unit = "steps" if sampler.steps else "epochs" if sampler.epochs else "islands"
    with open_progress(progress, "sampling", total=islands * each, unit=unit) as bar:

        def report(runs: list[IslandRun]) -> None:
            if unit == "islands":
                through = sum(run.outcome != "running" for run in runs)
                done, shown = len(results) + through, {}
            else:
                spent = [run.epochs + run.forward_epochs for run in runs]
                made = [run.steps for run in runs] if unit == "steps" else spent
                through = sum(m >= each for m in made)
                done = len(results) * each + sum(made)
                shown = {"islands": f"{len(results) + through}/{islands}"}
            bar.update(done, **shown, **_newest(runs))

        for own, batch in folds:
            results += _run_fold(sampler, own, start, batch, particles, seed, report)
    return sorted(results, key=lambda island: island.report.index)


def _batches(indices: range, size: int) -> list[range]:
    return [indices[i : i + size] for i in range(0, len(indices), size)]


def _newest(runs: list[IslandRun]) -> dict[str, object]:
    """The numbers to show beside the progress: means over the islands that are under way."""
    acceptance = [run.acceptance[-1] for run in runs if run.acceptance]
    fields: dict[str, object] = {}
    if acceptance:  # samplers that reject nothing have none
        fields["acceptance"] = sum(acceptance) / len(acceptance)
    heat = [getattr(run, "temperature", None) for run in runs]
    known = [value for value in heat if value is not None]
    if known:
        epochs = max(run.epochs + run.forward_epochs for run in runs)
        fields = {"lowest_temperature": min(known), "epochs": epochs, **fields}
    return fields


def _run_fold(
    sampler: Sampler,
    target: Target,
    start: Start,
    fold: range,
    particles: int,
    seed: int,
    report: Callable[[list[IslandRun]], None],
) -> list[Island]:
    generators = [generator(seed, Stream.ISLANDS, i) for i in fold]
    prior = target.prior
    population = sampler.population(particles)
    begin = torch.cat([start(prior, g, population) for g in generators])
    try:
        noise = IslandNoise(generators, particles, prior.mean.device)
        runs = sampler.run(target, noise, begin, report)
    except BadInput:
        raise
    # A likelihood may answer non-finite outputs with an error, as torch.distributions does.
    except (RuntimeError, MemoryError, ValueError, ArithmeticError) as error:
        if len(fold) > 1:
            logger.warning("islands %s failed as one batch (%s); one by one now", list(fold), error)
            single = [range(i, i + 1) for i in fold]
            parts = [
                _run_fold(sampler, target, start, one, particles, seed, report) for one in single
            ]
            return [island for part in parts for island in part]
        message = f"{type(error).__name__}: {error}"
        return [Island(IslandReport(fold[0], "failed", message=message), None)]
    return [_as_island(index, run) for index, run in zip(fold, runs, strict=True)]


def _as_island(index: int, run: Any) -> Island:
    weights = getattr(run, "log_weights", None)
    report = IslandReport(
        index=index,
        outcome=run.outcome,
        log_evidence=getattr(run, "log_evidence", None),
        epochs=float(run.epochs),
        acceptance=run.sampling_acceptance if run.acceptance else None,
        step_size=run.step_size,
        steps=run.steps,
        non_finite=run.non_finite,
        message=run.message,
        forward_epochs=float(run.forward_epochs),
        collapsed=getattr(run, "collapsed", ""),
        temperatures=getattr(run, "temperatures", []),
    )
    if run.outcome != "completed":
        return Island(report, None)
    return Island(report, torch.cat(run.draws), None if weights is None else weights.exp())
