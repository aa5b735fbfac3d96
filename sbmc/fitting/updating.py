"""`posterior.update`: the islands of a posterior go on with the data that have come since.

Chains begin where they ended, on all data. SMC goes on from its particles, of π̄0·L_old, by
tempering in the likelihood of the new data (`sbmc.samplers.smc.data_tempering`); an island's
evidence of all data is what it had times the estimate of Z(new | old). The prior stays what it was.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require
from sbmc.fitting.assembly import (
    Subject,
    assemble_posterior,
    report_failures,
    warn_of_few_islands,
)
from sbmc.fitting.compute import USUAL_COMPUTE, Compute
from sbmc.fitting.preparation import NOT_THE_ISLANDS, describe_sampler
from sbmc.fitting.update_sampler import AGAIN, FITTED_WITH, fitted_with, update_sampler
from sbmc.islands.checkpoints import as_checkpoint
from sbmc.islands.displacement import with_displacement
from sbmc.islands.executors import as_executor
from sbmc.islands.health import warn_if_not_ok
from sbmc.islands.island import Island, start_at_anchor
from sbmc.islands.job import Job
from sbmc.islands.memory_budget import RunSize, settle_memory, with_peak
from sbmc.islands.particles_apart import SETTING
from sbmc.islands.process_memory import parse_bytes
from sbmc.islands.sampling import sample_islands
from sbmc.model.data import Examples, as_examples, concatenate, require_same_form
from sbmc.posterior.identity import software
from sbmc.posterior.origin import fingerprint
from sbmc.posterior.weights import STACKED
from sbmc.randomness import Stream, generator, require_seed
from sbmc.samplers.contract import Sampler
from sbmc.samplers.smc.data_tempering import GrowingTarget
from sbmc.samplers.smc.resampling import RESAMPLING
from sbmc.storage.digests import DIGITS, digest
from sbmc.target.builder import EngineBuilder
from sbmc.target.engine import LikelihoodEngine
from sbmc.target.target import Target

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior

# Options of `Compute` that an update takes from the posterior.
FIXED = ("device", "dtype", "store_dtype", "first_island", "island_weights", "anchor_epochs")
# Settings that are about the fit alone.
OF_THE_FIT = (
    *("first_island", "store_dtype", "frozen", "pilot_epochs", "pilot_forward_epochs"),
    *("prior_epochs", "budget", "settling", SETTING),
)


@dataclass(frozen=True, eq=False)
class UpdateJob(Job):
    """A job whose islands begin at particles of their own.

    Attributes:
        particles_before: `(islands, population, dim)`, in the model's own coordinates.
        weights: inside each island, `(islands, population)`; None for equal ones.
        parts: engines of the old and of the new data, for SMC; None for chains.
        update: the number of the update, which is a part of the random streams.
    """

    particles_before: Tensor = dataclasses.field(default_factory=lambda: torch.zeros(0))
    weights: Tensor | None = None
    parts: tuple[LikelihoodEngine, LikelihoodEngine] | None = None
    update: int = 1

    def noise_of(self, island: int) -> torch.Generator:
        """A stream that neither the fit nor another update has used."""
        return generator(self.seed, Stream.UPDATES, self.update, island)

    def begin(self, island: int, rng: torch.Generator) -> Tensor:
        """The island's particles, resampled if their weights differ."""
        prior = self.priors[island % len(self.priors)]
        positions = self.particles_before[island]
        if self.weights is not None:
            ancestors = RESAMPLING["systematic"](rng, self.weights[island], len(positions))
            positions = positions[ancestors.to(positions.device)]
        return prior.to_whitened(positions.to(prior.mean))

    def target(self, island: int) -> Any:
        """The target of all data; for SMC in two parts."""
        if self.parts is None:
            return super().target(island)
        prior = self.priors[island % len(self.priors)]
        return GrowingTarget(*(Target(part, prior, self.power) for part in self.parts))


def update(
    posterior: Posterior,
    new_data: Any,
    *,
    data: Any = None,
    sampler: Any = None,
    seed: int | None = None,
    compute: Any = None,
    progress: bool | None = None,
) -> Posterior:
    """The posterior given old and new data; see `Posterior.update`."""
    _require_updatable(posterior)
    compute = _checked_compute(compute)
    algorithm = update_sampler(posterior, sampler)
    tempering = algorithm.default_weights == "evidence"
    _require_exact_particles(posterior, tempering)
    old, new = _examples(posterior, data, new_data)
    everything = concatenate(old, new)
    updates = [*posterior.settings.get("updates", [])]
    seed = _seed(posterior) if seed is None else seed
    require_seed(seed)

    subject = Subject(posterior.model, posterior.space, posterior.likelihood)
    assert posterior.priors is not None  # or it was refused
    islands, population = posterior.positions.shape[:2]
    particles = int(posterior.settings["particles"])
    priors = _different(posterior)
    executor, location = as_executor(compute.executor), as_checkpoint(compute.checkpoint)
    limit = None if compute.memory_limit is None else parse_bytes(compute.memory_limit)
    options = compute.path, compute.chunk_size
    build = _builder(subject, everything, options)
    run_size = RunSize(
        algorithm,
        particles,
        range(islands),
        len(priors),
        executor,
        location,
        build.chunk_size,
        limit,
    )
    engine = build(priors[0].anchor, limit)
    executor, memory = settle_memory(engine, run_size)
    parts = None
    if tempering:
        engines = [_builder(subject, part, options)(priors[0].anchor, limit) for part in (old, new)]
        for each in engines:
            each.settle(size=build.chunk_size)
        parts = engines[0], engines[1]
    rows = population if tempering else particles
    # Of several draws of a chain the last one is where it ended.
    before = posterior.positions[:, -rows:]
    even = bool((posterior.within == posterior.within[:, :1]).all())
    job = UpdateJob(
        algorithm,
        engine,
        priors,
        start_at_anchor,
        particles,
        int(seed),
        posterior.power,
        particles_before=before,
        weights=None if even else posterior.within,
        parts=parts,
        update=len(updates) + 1,
    )
    settings = _settings(posterior, algorithm, engine, everything, int(seed))
    settings["updates"] = [*updates, {"rows": len(new), "before": len(old), "seed": int(seed)}]
    decisive = {name: value for name, value in settings.items() if name not in NOT_THE_ISLANDS}
    began = time.perf_counter()
    sampled = sample_islands(
        job,
        range(islands),
        executor=executor,
        location=location,
        identity={**decisive, "begin": digest(before), "versions": software(subject.model)},
        retries=int(compute.retries),
        progress=progress,
        memory=memory,
    )
    results = with_displacement(sampled.islands, job)
    if tempering:
        results = [_with_evidence(each, posterior.log_evidence) for each in results]
    report_failures(results, compute.throw)
    seconds = time.perf_counter() - began
    anchor_epochs = posterior.cost.anchor_epochs
    updated = assemble_posterior(
        results, priors, subject, anchor_epochs, seconds, settings, posterior.power
    )
    updated.cost = with_peak(updated.cost, memory, executor)
    recipe = posterior.recipe
    if recipe is not None:
        updated.recipe = replace(recipe, data={**recipe.data, "rows": len(everything)})
    updated.training_data = everything.inputs, everything.targets
    warn_of_few_islands(updated)
    warn_if_not_ok(updated.health)
    return updated


def _require_updatable(posterior: Posterior) -> None:
    """Refuse posteriors of which an update would not be the posterior of all data."""
    settings = posterior.settings
    if posterior.weighting == STACKED or "mixture" in settings:
        _refuse('a mixture of s="auto", whose weights rest on rows that were set aside')
    if "thinned" in settings:
        _refuse("a thinned one, whose particles are no draws of a posterior any more")
    sampled = isinstance(settings.get("sampler_settings"), dict) and "identity" in settings
    if not sampled or not posterior.islands:
        _refuse("one that no sampler of `fit` has made, such as an ensemble or a baseline")
    if settings.get("s") == 0:
        _refuse("one of s = 0, which is the network alone", "Train the network on all data.")
    if "weights" in settings:
        _refuse("one of weighted rows, whose weights it does not keep")
    if "split" in settings:
        _refuse("one of Prior(split=...), whose prior has a part of the old likelihood in it")
    if posterior.priors is None:
        _refuse("one from a file of before, which has no priors in it")
    here = fingerprint(posterior.model, posterior.space)[:DIGITS]
    if here != settings["identity"].get("model"):
        remedy = "Fit the estimator again, to all rows."
        _refuse("one in the units of a table, as `posterior_` of an estimator is", remedy)


def _refuse(what: str, remedy: str = AGAIN) -> None:
    raise BadInput(
        f"`posterior` must be one whose particles a sampler of `fit` has drawn, but got {what}. "
        f"{remedy}"
    )


def _require_exact_particles(posterior: Posterior, tempering: bool) -> None:
    """Refuse rounded particles for SMC, which weights them as they are."""
    if tempering and "store_dtype" in posterior.settings:
        _refuse("one whose particles were rounded to " + posterior.settings["store_dtype"])


def _checked_compute(compute: Any) -> Compute:
    chosen = USUAL_COMPUTE if compute is None else compute
    require(isinstance(chosen, Compute), "compute", "sbmc.Compute(...)", chosen)
    for name in FIXED:
        value = getattr(chosen, name)
        rule = f"without `{name}`, which stays what it was"
        require(value == getattr(USUAL_COMPUTE, name), "compute", rule, value)
    assert isinstance(chosen, Compute)
    return chosen


def _examples(posterior: Posterior, data: Any, new_data: Any) -> tuple[Examples, Examples]:
    """Old and new data, in the dtype and on the device of the particles."""
    if data is None:
        data = posterior.training_data
    if data is None:
        raise BadInput(
            "`data` must be given for a posterior that does not know its training data, such as "
            "one from a file, but got None. Give the data that it was fitted to: "
            "posterior.update(new_data, data=old_data)."
        )
    dtype, device = posterior.dtype, posterior.positions.device
    old = as_examples(data).to(dtype=dtype, device=device)
    known = posterior.settings["identity"].get("data")
    other = Phrase("others; rows, their order, values and types have to be the same")
    rule = "the data that the posterior was fitted to"
    same = known is None or digest(old.inputs, old.targets) == known
    require(same, "data", rule, other)
    new = as_examples(new_data, "new_data").to(dtype=dtype, device=device)
    require_same_form(new, old, "new_data", "data")
    shapes = [tuple(each.targets.shape[1:]) for each in (new, old)]
    rule = f"with targets of shape (rows{''.join(f', {n}' for n in shapes[1])}), as the data"
    require(shapes[0] == shapes[1], "new_data", rule, Phrase(f"(rows, {shapes[0]})"))
    kinds = [each.targets.dtype.is_floating_point for each in (new, old)]
    rule = f"with targets of dtype {old.targets.dtype}, as the data"
    require(kinds[0] == kinds[1], "new_data", rule, new.targets.dtype)
    return old, Examples(new.inputs, new.targets.to(old.targets.dtype))


def _builder(
    subject: Subject, examples: Examples, options: tuple[str, int | None]
) -> EngineBuilder:
    return EngineBuilder(*subject, examples, *options)


def _different(posterior: Posterior) -> list[Any]:
    """One prior if islands share it, else that of each island."""
    priors = posterior.priors
    assert priors is not None
    same = all(
        each is priors[0]
        or (torch.equal(each.mean, priors[0].mean) and torch.equal(each.scale, priors[0].scale))
        for each in priors
    )
    return priors[:1] if same else list(priors)


def _seed(posterior: Posterior) -> int:
    """The seed of the fit; that of the first part, if parts with several were merged."""
    seed = posterior.settings["seed"]
    return int(seed[0] if isinstance(seed, list) else seed)


def _settings(
    posterior: Posterior,
    algorithm: Sampler,
    engine: LikelihoodEngine,
    examples: Examples,
    seed: int,
) -> dict[str, Any]:
    """The settings of the updated posterior."""
    kept = {name: value for name, value in posterior.settings.items() if name not in OF_THE_FIT}
    sampler = algorithm.as_given()
    identity = {**kept["identity"], "data": digest(examples.inputs, examples.targets)}
    return {
        **kept,
        "islands": len(posterior.positions),
        "seed": seed,
        "start": "particles",
        "sampler": type(sampler).__name__,
        "sampler_settings": describe_sampler(sampler),
        "path": engine.path,
        "kernel": engine.kernel,
        "kernel_reason": engine.kernel_reason,
        "chunks": dataclasses.asdict(engine.chunks),
        "identity": identity,
        FITTED_WITH: fitted_with(posterior),
    }


def _with_evidence(island: Island, before: Tensor) -> Island:
    """The island with the evidence of all data: that of the old ones times Z(new | old)."""
    if island.positions is None or island.report.log_evidence is None:
        return island
    total = float(before[island.report.index]) + island.report.log_evidence
    return replace(island, report=replace(island.report, log_evidence=total))
