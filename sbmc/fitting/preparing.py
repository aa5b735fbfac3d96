"""From the arguments of `fit` to work that is ready to be done; nothing is sampled here."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import Phrase, is_whole, require
from sbmc.fitting.anchoring import Anchoring, resolve_anchors, resolve_start
from sbmc.fitting.collecting import Subject
from sbmc.fitting.request import FitRequest
from sbmc.islands.checkpoints import CheckpointAt, as_checkpoint
from sbmc.islands.executors import Executor, as_executor
from sbmc.islands.memory import parse_bytes
from sbmc.islands.memory_budget import Memory, Plan, settle_memory
from sbmc.islands.work import Work
from sbmc.likelihoods import as_likelihood
from sbmc.log import logger
from sbmc.model.data import as_examples
from sbmc.model.functional import converted
from sbmc.model.parameters import select_parameters
from sbmc.model.threads import keep_to_one_thread_after_a_fork
from sbmc.posterior.identity import APART, IN_WORDS, identify, software
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.prior.original import OriginalPrior, resolve_prior
from sbmc.randomness import generator
from sbmc.samplers import HMC
from sbmc.samplers.contract import Sampler
from sbmc.target.building import EngineBuilder
from sbmc.target.curvature import diagonal_fisher
from sbmc.target.engine import LikelihoodEngine

# Settings that do not decide what an island does: which ones there are, and how they are combined.
NOT_THE_ISLANDS = (*APART, *IN_WORDS, "anchors", "prior_epochs", "island_weights")


@dataclass(frozen=True)
class Prepared:
    """All that `fit` needs to sample, checked.

    Attributes:
        subject: what is sampled.
        work: what islands do; None for s = 0, where there is nothing to do.
        numbers: of the islands.
        anchors: `(anchors, dim)`.
        anchor_epochs: what they cost.
        power: of the likelihood.
        settings: everything that decides the result, as plain values.
        identity: what a checkpoint of this run must agree with.
        executor: runs the islands.
        location: where checkpoints are saved, if anywhere.
        seconds: what the curvature of the prior took.
        memory: what the run will take; None for s = 0.
    """

    subject: Subject
    work: Work | None
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
        What is ready to be sampled.

    Raises:
        BadInput: an argument breaks its rule.
    """
    keep_to_one_thread_after_a_fork()
    compute, particles, islands = request.compute, request.particles, request.islands
    scheme = Anchoring(request.s, request.prior)
    _require_positive_integers(particles=particles, islands=islands)
    limit = None if compute.memory_limit is None else parse_bytes(compute.memory_limit)
    executor, location = as_executor(compute.executor), as_checkpoint(compute.checkpoint)
    seed, first_island = request.seed, compute.first_island
    generator(seed)  # refuses a bad seed
    algorithm, start, weighting = _resolve_sampler(request)
    model, parameters, anchors = request.model, request.parameters, request.anchors
    space = select_parameters(model, parameters)
    own = space.flatten(model)
    dtype = own.dtype if compute.dtype is None else compute.dtype
    like = own.to(torch.device(own.device if compute.device is None else compute.device), dtype)
    anchor_positions, anchor_cost = resolve_anchors(
        model, anchors, compute.anchor_epochs, space, like
    )
    numbers = range(int(first_island), int(first_island) + int(islands))
    every = anchor_positions
    anchor_positions = anchor_positions[: numbers.stop]
    family = as_likelihood(request.likelihood)
    examples = as_examples(request.data).to(dtype=dtype, device=like.device)
    subject = Subject(converted(model, dtype, like.device), space, family)
    original = resolve_prior(
        request.prior_variance,
        subject.model,
        space,
        dtype=dtype,
        trained=every,
        examples=examples,
        likelihood=family,
    ).to(like)
    scheme.check(anchor_positions, original, family)
    begin = resolve_start(start, space, like)
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
    if anchors is not None:
        settings["anchors"] = len(anchor_positions)
    if first_island:
        settings["first_island"] = int(first_island)
    build = EngineBuilder(*subject, examples, compute.path, compute.chunk_size)
    settings["probe"] = build.probe(every[0])
    ready = Prepared(
        subject=subject,
        work=None,
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
    plan = Plan(
        algorithm,
        int(particles),
        numbers,
        len(anchor_positions),
        executor,
        location,
        build.chunk_size,
        limit,
    )
    engine = build(anchor_positions[0], limit)
    executor, memory = settle_memory(engine, plan)
    chunks = dataclasses.asdict(engine.chunks)
    settings |= {"path": engine.path, "kernel": engine.kernel, "chunks": chunks}
    settings["kernel_reason"] = engine.kernel_reason
    settings |= {"path_reason": build.path_reason, "frozen_below": build.frozen_below}
    began = time.perf_counter()
    priors, prior_epochs = _build_priors(scheme, anchor_positions, original, engine)
    prior_epochs += original.epochs
    if prior_epochs:
        settings["prior_epochs"] = prior_epochs
    settings["identity"] = identify(*subject, every, priors[0], examples, begin)
    decisive = {name: value for name, value in settings.items() if name not in NOT_THE_ISLANDS}
    return dataclasses.replace(
        ready,
        work=Work(algorithm, engine, priors, begin, int(particles), int(seed), scheme.power),
        identity={**decisive, "versions": software(subject.model)},
        executor=executor,
        memory=memory,
        seconds=time.perf_counter() - began,
    )


def _resolve_sampler(request: FitRequest) -> tuple[Sampler, Any, str]:
    """The algorithm, where it starts and how its islands are combined, checked together."""
    algorithm: Sampler = HMC() if request.sampler is None else request.sampler
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


def _require_positive_integers(**values: Any) -> None:
    for name, value in values.items():
        require(is_whole(value) and value >= 1, name, "a positive integer", value)


def _build_priors(
    scheme: Anchoring, anchors: Tensor, original: OriginalPrior, engine: LikelihoodEngine
) -> tuple[list[AnchoredPrior], int]:
    """The prior around each anchor, and the epochs that went into their curvature."""
    if not scheme.curved:
        return [scheme.prior(anchor, original) for anchor in anchors], 0
    parts, priors, epochs = engine.parts(), [], 0
    for index, anchor in enumerate(anchors):
        found = diagonal_fisher(parts, anchor)
        epochs += found.epochs
        information = found.diagonal.to(original.variance)
        if bool(torch.isfinite(information).all()):
            priors.append(scheme.prior(anchor, original, information))
        else:
            # Its islands are to fail, as they do where the likelihood is not finite; others go on.
            logger.warning("the curvature at anchor %d is not finite", index)
            priors.append(AnchoredPrior(anchor, torch.full_like(anchor, torch.nan), anchor))
    return priors, epochs


def describe_sampler(sampler: Any) -> dict[str, Any]:
    """Settings as plain values; a move stands with its name."""
    plain = {}
    for item in dataclasses.fields(sampler):
        value = getattr(sampler, item.name)
        if dataclasses.is_dataclass(value):
            value = {"name": type(value).__name__, **describe_sampler(value)}
        plain[item.name] = list(value) if isinstance(value, tuple) else value
    return plain
