"""The loop around a Markov chain: budgets, step-size adaptation, finite checks, draws.

It is given the algorithm's `init` and `step`; it never mentions which algorithm it is. Islands
that run as one batch keep their own step sizes, budgets and noise; one that is done leaves it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from sbmc.samplers.adaptation import FIRST_GUESS, SEARCH_PROBES, Adaptive, StepSearch, adapted
from sbmc.samplers.noise import IslandNoise, island_rows
from sbmc.target import Target


class ChainSettings(Adaptive, Protocol):
    """What the loop reads of an algorithm's settings, which are frozen."""

    @property
    def steps(self) -> int | None:
        """Steps to make, or None with a budget."""

    @property
    def epochs(self) -> int | None:
        """Evaluations to spend, or None with `steps`."""

    @property
    def warmup(self) -> float:
        """Fraction of the steps or of the budget."""

    @property
    def launch(self) -> int | None:
        """First steps that are taken whatever their energy."""

    @property
    def draws(self) -> int:
        """States kept of each chain."""

    @property
    def thinning(self) -> int:
        """Steps between them."""

    def leapfrog_steps(self, step_size: float, uniform: float, left: int | None) -> int:
        """Evaluations that the next step takes, out of `left`."""


@dataclass
class ChainRun:
    """One island's progress and, at the end, its result.

    Attributes:
        step_size: in whitened units.
        epochs: evaluations per particle so far.
        steps: steps made.
        draws: kept positions, each `(particles, dim)`, whitened.
        acceptance: mean acceptance of each step.
        leapfrog: evaluations of each step.
        non_finite: proposals that were not finite.
        outcome: `completed`, `failed`, or `running`.
        message: why it failed.
        forward_epochs: evaluations without gradient per particle so far.
    """

    step_size: float
    epochs: int = 0
    steps: int = 0
    warm_steps: int = 0
    draws: list[Tensor] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    leapfrog: list[int] = field(default_factory=list)
    non_finite: int = 0
    outcome: str = "running"
    message: str = ""
    forward_epochs: int = 0

    @property
    def sampling_acceptance(self) -> float:
        """Mean acceptance after warm-up (of everything, if nothing came after it)."""
        after = self.acceptance[self.warm_steps :] or self.acceptance
        return sum(after) / len(after) if after else float("nan")


def run_chains(
    settings: ChainSettings,
    init: Callable[[Tensor, Target], Any],
    step: Callable[..., tuple[Any, Any]],
    target: Target,
    rng: IslandNoise,
    start: Tensor,
    report: Callable[[list[ChainRun]], None] | None = None,
) -> list[ChainRun]:
    """Run a batch of islands to the end of their steps or budget.

    Args:
        settings: the algorithm's settings.
        init: `(position, target) -> state`.
        step: `(rng, state, target, step_size=, leapfrog=) -> (state, info)`.
        target: log likelihood and gradient.
        rng: the islands' noise.
        start: whitened positions `(islands * particles, dim)`.
        report: called after every step with all runs.

    Returns:
        One run per island; those whose start was not finite have failed, alone.
    """
    particles = rng.particles
    before = target.evaluations.gradient
    state = init(start, target)
    spent = (target.evaluations.gradient - before) // len(start)
    runs = [
        ChainRun(step_size=settings.step_size or FIRST_GUESS, epochs=spent) for _ in rng.generators
    ]
    _fail_non_finite(runs, state, particles)
    if settings.step_size is None:
        _search_step_sizes(runs, settings, step, state, target, rng)
    while going := [i for i, run in enumerate(runs) if _unfinished(run, settings)]:
        noise = rng.select(going)
        jitter = noise.uniform_per_island().tolist()
        lengths = [
            settings.leapfrog_steps(runs[i].step_size, u, _left(runs[i], settings))
            for i, u in zip(going, jitter, strict=True)
        ]
        rows = island_rows(going, particles)
        # Islands that still run have all made the same number of steps.
        first = runs[going[0]]
        launching = first.steps < (settings.launch or 0) and _in_warmup(first, settings)
        part, info = step(
            noise,
            type(state)(*(f[rows] for f in state)),
            target,
            step_size=_per_particle([runs[i].step_size for i in going], particles, start),
            leapfrog=_per_particle(lengths, particles, start, torch.int64),
            metropolis=not launching,
        )
        for whole, fresh in zip(state, part, strict=True):
            whole[rows] = fresh
        acceptance = info.acceptance.view(len(going), particles).mean(1).tolist()
        broken = info.non_finite.view(len(going), particles).sum(1).tolist()
        for k, i in enumerate(going):
            _after_step(runs[i], settings, lengths[k], acceptance[k], broken[k])
            _keep(runs[i], settings, state.position[i * particles : (i + 1) * particles])
        _fail_non_finite(runs, state, particles)
        if report is not None:
            report(runs)
    for run in runs:
        if run.outcome == "running":
            run.outcome = "completed"
    return runs


def _unfinished(run: ChainRun, settings: ChainSettings) -> bool:
    if run.outcome != "running":
        return False
    if settings.steps is not None:
        return run.steps < settings.steps
    assert settings.epochs is not None
    return run.epochs < settings.epochs


def _left(run: ChainRun, settings: ChainSettings) -> int | None:
    """Evaluations that remain of the budget, if there is one."""
    return None if settings.epochs is None else settings.epochs - run.epochs


def _in_warmup(run: ChainRun, settings: ChainSettings) -> bool:
    if settings.steps is not None:
        return run.steps < settings.warmup * settings.steps
    assert settings.epochs is not None
    return run.epochs < settings.warmup * settings.epochs


def _after_step(
    run: ChainRun, settings: ChainSettings, length: int, acceptance: float, non_finite: int
) -> None:
    warming = _in_warmup(run, settings)
    launched = run.steps < (settings.launch or 0)
    run.steps += 1
    run.epochs += length
    run.acceptance.append(acceptance)
    run.leapfrog.append(length)
    run.non_finite += non_finite
    if warming:
        run.warm_steps = run.steps
        # The acceptance of a launch says how far the start was from equilibrium, not how good ε is.
        if not launched:
            run.step_size = adapted(settings, run.step_size, acceptance)


def _keep(run: ChainRun, settings: ChainSettings, position: Tensor) -> None:
    """Keep the last `draws` states, `thinning` steps apart, the newest always among them."""
    if settings.draws == 1:
        run.draws = [position.clone()] if _unfinished(run, settings) is False else []
        return
    total = settings.steps
    if total is None:
        # Only with a fixed number of evaluations per step, so the steps that are left are known.
        assert settings.epochs is not None
        left = -(-(settings.epochs - run.epochs) // run.leapfrog[0])
    else:
        left = total - run.steps
    if left % settings.thinning == 0 and left // settings.thinning < settings.draws:
        run.draws.append(position.clone())


def _fail_non_finite(runs: list[ChainRun], state: Any, particles: int) -> None:
    """A rejected proposal is no failure; a state that is not finite is, and only for its island."""
    good = torch.isfinite(state.log_likelihood) & torch.isfinite(state.gradient).all(-1)
    for run, bad in zip(runs, (~good).view(len(runs), particles).sum(1).tolist(), strict=True):
        if bad and run.outcome == "running":
            run.outcome = "failed"
            run.message = (
                f"log likelihood or gradient not finite for {bad} of {particles} particles "
                f"after {run.steps} steps"
            )


def _search_step_sizes(
    runs: list[ChainRun],
    settings: ChainSettings,
    step: Callable[..., tuple[Any, Any]],
    state: Any,
    target: Target,
    rng: IslandNoise,
) -> None:
    """Find each island's first step size: the largest for which single steps are mostly accepted.

    See `StepSearch`. The probes are single leapfrog steps, whose moves are thrown away and whose
    evaluations are counted.
    """
    particles = rng.particles
    searches = {i: StepSearch() for i, run in enumerate(runs) if run.outcome == "running"}
    for _ in range(SEARCH_PROBES):
        active = [
            i for i, search in searches.items() if not search.done and _can_probe(runs[i], settings)
        ]
        if not active:
            break
        rows = island_rows(active, particles)
        _, info = step(
            rng.select(active),
            type(state)(*(f[rows] for f in state)),
            target,
            step_size=_per_particle([searches[i].trial for i in active], particles, state.position),
            leapfrog=_per_particle([1] * len(active), particles, state.position, torch.int64),
        )
        acceptance = info.acceptance.view(len(active), particles).mean(1).tolist()
        for i, value in zip(active, acceptance, strict=True):
            runs[i].epochs += 1
            searches[i].update(value)
    for i, search in searches.items():
        runs[i].step_size = search.result


def _can_probe(run: ChainRun, settings: ChainSettings) -> bool:
    """A budget keeps at least half of itself for sampling."""
    return settings.epochs is None or run.epochs < settings.epochs / 2


def _per_particle(
    values: list[Any], particles: int, like: Tensor, dtype: torch.dtype = torch.float64
) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=like.device).repeat_interleave(particles)
