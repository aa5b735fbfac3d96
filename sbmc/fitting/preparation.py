"""Checks the arguments of `fit` and builds what they ask for; nothing is sampled here."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import Phrase, require, require_count
from sbmc.fitting.anchors import Anchoring, resolve_anchors, resolve_start
from sbmc.fitting.assembly import Subject
from sbmc.fitting.request import FitRequest
from sbmc.fitting.streaming import one_by_one, stream_settings
from sbmc.islands.checkpoints import CheckpointAt, as_checkpoint
from sbmc.islands.checkpoints.manifest import CODE
from sbmc.islands.executors import Executor, as_executor
from sbmc.islands.island import StartAtMembers
from sbmc.islands.job import Job
from sbmc.islands.memory_budget import Memory, RunSize, settle_memory
from sbmc.islands.particles_apart import SETTING, needs_splitting, split_islands
from sbmc.islands.process_memory import parse_bytes
from sbmc.likelihoods import Weighted
from sbmc.likelihoods.weighted import check_weights
from sbmc.log import logger
from sbmc.model.data import as_examples
from sbmc.model.functional import converted
from sbmc.model.inferred_likelihood import resolve_likelihood
from sbmc.model.modes import refuse_modes
from sbmc.model.noise import learn_noise
from sbmc.model.parameters import select_parameters
from sbmc.model.streams import Streamed
from sbmc.model.threads import keep_to_one_thread_after_a_fork
from sbmc.posterior.identity import DIVISIBLE, EXPLANATIONS, compiled_code, identify, software
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.prior.original import OriginalPrior, resolve_prior
from sbmc.randomness import generator
from sbmc.samplers import AutoHMC
from sbmc.samplers.contract import Sampler
from sbmc.storage.digests import digest
from sbmc.target.builder import EngineBuilder
from sbmc.target.contract import Engine
from sbmc.target.curvature import diagonal_fisher
from sbmc.target.engine import LikelihoodEngine
from sbmc.target.shards import ShardedEngine, as_shards

# Settings that do not affect a single island: which islands there are, how they are combined, and
# explanations.
NOT_THE_ISLANDS = (
    *DIVISIBLE,
    *EXPLANATIONS,
    "anchors",
    "prior_epochs",
    "island_weights",
    "store_dtype",
    "shards",
)


@dataclass(frozen=True)
class Prepared:
    """All that `fit` needs to sample, checked.

    Attributes:
        subject: what is sampled.
        job: what islands need to run; None for s = 0, where nothing is sampled.
        numbers: the numbers of the islands, or of all particles where they are sampled apart.
        anchors: `(anchors, dim)`.
        anchor_epochs: the cost of the anchors.
        power: the exponent of the likelihood.
        settings: all that decides the result, as plain values.
        identity: what a checkpoint of this run must agree with.
        executor: runs the islands.
        location: where checkpoints are saved; None for none.
        seconds: time of computing the curvature of the prior.
        memory: the predicted memory of the run; None for s = 0.
    """

    subject: Subject
    job: Job | None
    numbers: range
    anchors: Tensor
    anchor_epochs: float
    power: float
    settings: dict[str, Any]
    identity: dict[str, Any]
    executor: Executor
    location: CheckpointAt | None
    seconds: float
    memory: Memory | None = None


def prepare(request: FitRequest) -> Prepared:
    """Check the arguments of `fit`, and build what they ask for.

    Args:
        request: the arguments.

    Returns:
        All that is needed to sample.

    Raises:
        BadInput: an argument breaks its rule.
    """
    refuse_modes("fit")
    keep_to_one_thread_after_a_fork()
    compute, particles, islands = request.compute, request.particle_count, request.islands
    assert not isinstance(request.s, str)  # `single_fits` has chosen a number
    scheme = Anchoring(request.s, request.prior)
    require_positive_integers(particles=particles, islands=islands)
    limit = None if compute.memory_limit is None else parse_bytes(compute.memory_limit)
    executor, location = as_executor(compute.executor), as_checkpoint(compute.checkpoint)
    seed, first_island = request.seed, compute.first_island
    generator(seed)  # refuses a bad seed
    algorithm, start, weighting = _resolve_sampler(request)
    model, parameters, anchors = request.model, request.parameters, request.anchors
    space = select_parameters(model, parameters)
    weights = space.flatten(model)
    dtype = weights.dtype if compute.dtype is None else compute.dtype
    like = weights.to(
        torch.device(weights.device if compute.device is None else compute.device), dtype
    )
    anchor_positions, anchor_cost = resolve_anchors(
        model, anchors, compute.anchor_epochs, space, like
    )
    numbers = range(int(first_island), int(first_island) + int(islands))
    all_anchors = anchor_positions
    anchor_positions = anchor_positions[: numbers.stop]
    examples = as_examples(request.data).to(dtype=dtype, device=like.device)
    streamed = isinstance(examples, Streamed)
    if streamed:
        executor = one_by_one(executor)
    network = converted(model, dtype, like.device)
    resolved = resolve_likelihood(request.likelihood, network, examples)
    family = resolved.likelihood
    subject = Subject(network, space, family)
    row_weights: Tensor | None = None
    if request.weights is not None:
        row_weights = check_weights(request.weights, len(examples)).to(like)
        rule = 'left out for prior_variance="evidence", which knows no weights'
        by_evidence = isinstance(request.prior_variance, str)
        by_evidence = by_evidence and request.prior_variance == "evidence"
        require(not by_evidence, "weights", rule, Phrase("weights"))
    original = resolve_prior(
        request.prior_variance,
        subject.model,
        space,
        dtype=dtype,
        trained=all_anchors,
        examples=examples,
        likelihood=family,
    ).to(like)
    start_rule = resolve_start(start, space, like)
    noise = learn_noise(*subject, examples, row_weights)
    if noise is not None:
        subject = Subject(noise.wider_model(), noise.wider_space, family)
        original = original.with_noise(*noise.prior)
        all_anchors = noise.append(all_anchors)
        anchor_positions = all_anchors[: numbers.stop]
        if isinstance(start_rule, StartAtMembers):
            start_rule = StartAtMembers(noise.append(start_rule.members))
    scheme.check(anchor_positions, original, family)
    settings = {
        **scheme.describe(),
        **original.settings,
        "particles": int(particles),
        "islands": int(islands),
        "seed": int(seed),
        "start": start if isinstance(start, str) else "members",
        "parameters": parameters if isinstance(parameters, str) else "predicate",
        "sampler": type(algorithm).__name__,
        "sampler_settings": describe_sampler(algorithm),
        "island_weights": weighting,
        "dtype": str(dtype),
    }
    if compute.store_dtype is not None and compute.store_dtype != dtype:
        settings["store_dtype"] = str(compute.store_dtype)
    if anchors is not None:
        settings["anchors"] = len(anchor_positions)
    if isinstance(examples, Streamed):
        settings |= stream_settings(examples)
    if first_island:
        settings["first_island"] = int(first_island)
    if resolved.explanation:
        settings["likelihood_reason"] = resolved.explanation
    weighted = subject
    if row_weights is not None:
        settings["weights"] = digest(row_weights)
        weighted = subject._replace(likelihood=Weighted(family, row_weights))
    build = EngineBuilder(*weighted, examples, compute.path, compute.chunk_size)
    settings["probe"] = build.probe(all_anchors[0])
    ready = Prepared(
        subject=subject,
        job=None,
        numbers=numbers,
        anchors=anchor_positions,
        anchor_epochs=anchor_cost,
        power=scheme.power,
        settings=settings,
        identity={},
        executor=executor,
        location=location,
        seconds=0.0,
    )
    if scheme.is_point:
        return ready
    run_size = RunSize(
        algorithm,
        int(particles),
        numbers,
        len(anchor_positions),
        executor,
        location,
        build.chunk_size,
        limit,
        compute.store_dtype,
    )
    engine = build(anchor_positions[0], limit)
    if isinstance(start, str) and not streamed and needs_splitting(engine, run_size):
        run_size = split_islands(run_size)
        settings[SETTING] = True
    executor, memory = settle_memory(engine, run_size)
    chunks = dataclasses.asdict(engine.chunks)
    settings |= {"path": engine.path, "kernel": engine.kernel, "chunks": chunks}
    settings["kernel_reason"] = engine.kernel_reason
    model, made_by = subject.model, settings["sampler_settings"]
    settings[CODE] = compiled_code(engine.kernel, model, anchor_positions, made_by)
    settings |= {"path_reason": build.path_reason, "frozen_below": build.frozen_below}
    began = time.perf_counter()
    priors, prior_epochs = _build_priors(scheme, anchor_positions, original, engine)
    prior_epochs += original.epochs
    if prior_epochs:
        settings["prior_epochs"] = prior_epochs
    settings["identity"] = identify(*subject, all_anchors, priors[0], examples, start_rule)
    evaluator: Engine = engine
    shards = as_shards(compute.shards)
    if shards is not None:
        evaluator = sharded = ShardedEngine(engine, shards)
        settings["shards"] = sharded.ranks
    decisive = {name: value for name, value in settings.items() if name not in NOT_THE_ISLANDS}
    return dataclasses.replace(
        ready,
        job=Job(
            algorithm,
            evaluator,
            priors,
            start_rule,
            run_size.particles,
            int(seed),
            scheme.power,
        ),
        numbers=run_size.numbers,
        identity={**decisive, "versions": software(subject.model)},
        executor=executor,
        memory=memory,
        seconds=time.perf_counter() - began,
    )


def _resolve_sampler(request: FitRequest) -> tuple[Sampler, Any, str]:
    """The algorithm, where it starts and how its islands are combined, checked together."""
    algorithm: Sampler = AutoHMC() if request.sampler is None else request.sampler
    good = isinstance(algorithm, Sampler) and dataclasses.is_dataclass(algorithm)
    require(good, "sampler", "settings such as sbmc.HMC(...) or sbmc.SMC(...)", request.sampler)
    start = algorithm.default_start if request.start is None else request.start
    usual = algorithm.default_weights if request.anchors is None else "equal"
    weighting = request.compute.island_weights or usual
    if algorithm.default_weights == "evidence":
        # Tempering begins at temperature 0, whose target is the prior.
        named = start if isinstance(start, str) else Phrase("members")
        require(start == "prior", "start", f"'prior' for {type(algorithm).__name__}", named)
    else:
        rule = f"'equal' for {type(algorithm).__name__}, which estimates no evidence"
        require(weighting == "equal", "island_weights", rule, weighting)
    if request.anchors is not None:
        rule = "'equal' with `anchors`, since evidence compares islands of one prior only"
        require(weighting == "equal", "island_weights", rule, weighting)
    return algorithm, start, weighting


def require_positive_integers(**values: Any) -> None:
    """Refuse counts, given by their names, that are no positive integers."""
    for name, value in values.items():
        require_count(name, value)


def _build_priors(
    scheme: Anchoring, anchors: Tensor, original: OriginalPrior, engine: LikelihoodEngine
) -> tuple[list[AnchoredPrior], int]:
    """The prior around each anchor, and the epochs of computing their curvature."""
    if not scheme.curved:
        return [scheme.prior(anchor, original) for anchor in anchors], 0
    parts, priors, epochs = engine.parts(), [], 0
    for index, anchor in enumerate(anchors):
        information_at = diagonal_fisher(parts, anchor)
        epochs += information_at.epochs
        diagonal = information_at.diagonal.to(original.variance)
        if bool(torch.isfinite(diagonal).all()):
            priors.append(scheme.prior(anchor, original, diagonal))
        else:
            # The islands of this anchor will fail, as where the likelihood is not finite.
            logger.warning("the curvature at anchor %d is not finite", index)
            priors.append(AnchoredPrior(anchor, torch.full_like(anchor, torch.nan), anchor))
    return priors, epochs


def describe_sampler(sampler: Any) -> dict[str, Any]:
    """Settings as plain values; a move of SMC has its name among them."""
    plain = {}
    for item in dataclasses.fields(sampler):
        value = getattr(sampler, item.name)
        if dataclasses.is_dataclass(value):
            value = {"name": type(value).__name__, **describe_sampler(value)}
        plain[item.name] = list(value) if isinstance(value, tuple) else value
    return plain
