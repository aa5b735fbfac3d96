"""`s="auto"`: several posteriors around several networks, mixed by how they predict unseen rows.

No single s wins everywhere: few data want the network itself (s = 0), an overfitted network wants
s = 1. And what is around one network does not reach the other ways to fit the same data. So a few
further networks are trained, the outputs of all are scaled to fit the unseen rows, and four members
are mixed: the network, all networks, a posterior around each of them, and the full posterior,
sampled from all of them. The weights come from stacking (`sbmc.prediction.stacking`). The rows for
all that must be unseen: on rows that the network was trained on, the network always wins.
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sbmc.fitting.calibration import calibrate
from sbmc.fitting.further_networks import train_further_networks
from sbmc.fitting.request import FitRequest
from sbmc.fitting.unseen_rows import UnseenRows
from sbmc.islands.checkpoints import as_checkpoint
from sbmc.islands.cost import Cost
from sbmc.islands.health import warn_if_not_ok
from sbmc.likelihoods.choice import Inferred
from sbmc.log import logger
from sbmc.model.data import Examples, as_examples, rows
from sbmc.model.inferred_likelihood import resolve_likelihood
from sbmc.model.parameters import select_parameters
from sbmc.posterior.log_scores import log_scores
from sbmc.posterior.mixture import Mixture, MixtureMember
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.weights import STACKED
from sbmc.prediction.stacking import stack
from sbmc.prior.by_layer import ByLayer
from sbmc.prior.original import PriorVariance
from sbmc.storage.mapped import release_pages, room_beside

NETWORK = "the network itself"


class Candidate(NamedTuple):
    """A posterior that may enter the mixture: its scale s, and c of the prior c / fan_in."""

    s: float
    weights: float


# Chosen on the development pairs of the gauntlet (docs/automatic.md): a posterior around each
# network, and the full posterior.
CANDIDATES = (Candidate(0.1, 5.0), Candidate(1.0, 5.0))
# With a prior variance that the user has given, candidates differ in s alone.
SCALES = (0.1, 1.0)
# Chains of a candidate, by default; further networks at most; and the part of a budget that their
# training may take.
PARTICLES, FURTHER_NETWORKS, FURTHER_SHARE = 6, 2, 0.4


class FurtherTraining(NamedTuple):
    """How many networks to train beside the one given, and for how many epochs each."""

    networks: int
    epochs: int

    @property
    def total_epochs(self) -> int:
        """Of all of them."""
        return self.networks * self.epochs


NO_TRAINING = FurtherTraining(0, 0)


def further_training(request: FitRequest, training_epochs: float, budget: float) -> FurtherTraining:
    """What the budget has room for.

    Args:
        request: the arguments of `fit`. Where they say where chains begin, nothing is trained.
        training_epochs: of the network that was given.
        budget: the epochs of all chains together.

    Returns:
        At most `FURTHER_NETWORKS`, for as long as the network was trained.
    """
    epochs = max(1, round(training_epochs))
    networks = min(FURTHER_NETWORKS, int(FURTHER_SHARE * budget / epochs + 1e-9))
    return FurtherTraining(networks, epochs) if networks and request.start is None else NO_TRAINING


def candidate_requests(request: FitRequest, networks: int) -> list[FitRequest]:
    """The posteriors that a mixture samples, without their samplers and networks.

    Args:
        request: the arguments of `fit`.
        networks: how many there will be, the one given included.

    Returns:
        The requests. The chains of a posterior around the networks are dealt out to them, an island
        or more for each.
    """
    particles = PARTICLES if request.particles is None else request.particles
    priors: list[tuple[float, PriorVariance]]
    if request.prior_variance == "auto":
        priors = [(each.s, ByLayer(weights=each.weights)) for each in CANDIDATES]
    else:
        priors = [(s, request.prior_variance) for s in SCALES]
    around = dataclasses.replace(
        request, particles=math.ceil(particles / networks), islands=request.islands * networks
    )
    full = dataclasses.replace(request, particles=particles)
    return [
        dataclasses.replace(full if s == 1 else around, s=s, prior_variance=prior)
        for s, prior in priors
    ]


class NamedRequest(NamedTuple):
    """A member of a mixture: how the mixture calls it, and the single fit that makes it."""

    name: str
    request: FitRequest


class MixturePlan(NamedTuple):
    """What is mixed.

    Attributes:
        members: all of them, with the same likelihood.
        output_factors: what the outputs of the networks were multiplied by.
        likelihood_reason: why this likelihood was taken; empty if it was given.
    """

    members: list[NamedRequest]
    output_factors: tuple[float, ...]
    likelihood_reason: str


def plan_mixture(
    requests: Sequence[FitRequest],
    unseen: UnseenRows,
    training: FurtherTraining,
    stacklevel: int,
) -> MixturePlan:
    """Train the further networks, scale the outputs of all, and say what is to be fitted.

    Args:
        requests: the posteriors to sample, with a sampler each.
        unseen: rows that choose the weights.
        training: of further networks.
        stacklevel: of a warning, as seen from here.

    Returns:
        The network itself, all networks (if there are several), and the posteriors.
    """
    resolved = _resolve_likelihood(requests[0])
    requests = [dataclasses.replace(each, likelihood=resolved.likelihood) for each in requests]
    first = requests[0]
    models = [first.model]
    if training.networks:
        models += train_further_networks(
            first, training.networks, training.epochs, stacklevel=stacklevel + 1
        )
    space = select_parameters(first.model, first.parameters)
    scaled = [calibrate(model, unseen.examples, space, resolved.likelihood) for model in models]
    networks: list[nn.Module] = [each.model for each in scaled]
    logger.info("outputs multiplied by %s", ", ".join(f"{each.factor:.3g}" for each in scaled))
    members = [NamedRequest(NETWORK, _points(first, networks[:1]))]
    if len(networks) > 1:
        name = f"{len(networks)} networks, {len(networks) - 1} of them trained here"
        members.append(NamedRequest(name, _points(first, networks)))
    for request in requests:
        if request.s == 1:
            start = networks if request.start is None else request.start
            placed = dataclasses.replace(request, start=start)
        else:
            placed = dataclasses.replace(request, anchors=networks)
        members.append(NamedRequest(_name(request), placed))
    factors = tuple(each.factor for each in scaled)
    return MixturePlan(members, factors, resolved.explanation)


def _resolve_likelihood(request: FitRequest) -> Inferred:
    """The likelihood of all members, inferred once from the network that was given."""
    like = next(request.model.parameters())
    examples = as_examples(request.data).to(dtype=like.dtype, device=like.device)
    return resolve_likelihood(request.likelihood, request.model, examples)


def _points(request: FitRequest, networks: Sequence[nn.Module]) -> FitRequest:
    return dataclasses.replace(
        request, s=0.0, anchors=list(networks), islands=len(networks), particles=1
    )


def fit_mixture(
    requests: Sequence[FitRequest],
    unseen: UnseenRows,
    training: FurtherTraining,
    fit_one: Callable[[FitRequest], Posterior],
    stacklevel: int,
) -> Posterior:
    """Sample every candidate, and mix them with the networks that they are around.

    A candidate whose verdict is not ok is left out, unless none is ok.

    Args:
        requests: the candidates, with a sampler each.
        unseen: rows that choose the weights.
        training: of further networks.
        fit_one: makes a single posterior.
        stacklevel: of the warning, as seen from here.

    Returns:
        The mixture. `posterior.mixture` says what it is made of.
    """
    began = time.perf_counter()
    plan = plan_mixture(requests, unseen, training, stacklevel=stacklevel + 1)
    prepared_seconds = time.perf_counter() - began
    fitted: list[tuple[str, Posterior]] = []
    sampled: list[bool] = []
    for number, (name, request) in enumerate(plan.members, start=1):
        logger.info("member %d of %d: %s", number, len(plan.members), name)
        try:
            fitted.append((name, fit_one(_with_own_checkpoint(request))))
            sampled.append(request.s != 0)
        except RuntimeError as error:
            warnings.warn(
                f"The candidate {name} is left out of the mixture: {error}",
                RuntimeWarning,
                stacklevel=stacklevel + 1,
            )
    held_out = _ready(unseen.examples, fitted[0][1])
    scores = torch.stack([log_scores(posterior, held_out) for _, posterior in fitted], 1)
    healthy = [posterior.health.ok is not False for _, posterior in fitted]
    # The networks are always there. Where nothing that was sampled is ok, all of it stays, and the
    # verdict on the mixture says so.
    any_healthy = any(ok and moves for ok, moves in zip(healthy, sampled, strict=True))
    used = healthy if any_healthy else [True] * len(fitted)
    weights = torch.zeros(len(fitted), dtype=torch.float64)
    weights[torch.tensor(used)] = stack(scores[:, torch.tensor(used)])
    members = tuple(
        MixtureMember(
            name=name,
            s=float(posterior.settings["s"]),
            weight=float(weight),
            log_score=float(column.mean()),
            left_out="" if use else " ".join(posterior.health.reasons),
        )
        for (name, posterior), weight, column, use in zip(
            fitted, weights, scores.T, used, strict=True
        )
    )
    mixture = Mixture(members, len(held_out), unseen.source, plan.output_factors)
    kept = [posterior for (_, posterior), use in zip(fitted, used, strict=True) if use]
    everything = [posterior for _, posterior in fitted]
    posterior = _combined(kept, weights[torch.tensor(used)], everything, mixture)
    trained = (len(plan.output_factors) - 1) * training.epochs
    posterior.cost = dataclasses.replace(
        posterior.cost,
        total_epochs=posterior.cost.total_epochs + trained,
        wall_seconds=(posterior.cost.wall_seconds or 0.0) + prepared_seconds,
    )
    if plan.likelihood_reason:
        posterior.settings["likelihood_reason"] = plan.likelihood_reason
    warn_if_not_ok(posterior.health, stacklevel=stacklevel + 1)
    return posterior


def _ready(examples: Examples, network: Posterior) -> Examples:
    """Rows in the dtype and on the device of the network, with targets as its likelihood wants."""
    examples = examples.to(dtype=network.dtype, device=network.positions.device)
    outputs = network.outputs(network.positions[0], rows(examples.inputs, 0, 2))[0]
    return Examples(examples.inputs, network.likelihood.check(examples.targets, outputs))


def _combined(
    members: Sequence[Posterior], weights: Tensor, all_fitted: Sequence[Posterior], mixture: Mixture
) -> Posterior:
    """One posterior of all islands; the islands of a member share its weight as they did before."""
    particles = max(member.positions.shape[1] for member in members)
    positions = _side_by_side([member.positions for member in members], particles)
    within = torch.cat([_padded(member.within, particles) for member in members])
    shares = torch.cat(
        [weight * member.weights.sum(1) for member, weight in zip(members, weights, strict=True)]
    )
    reports = [report for member in members for report in member.islands]
    first, sampled = members[0], members[-1]
    costs = [member.cost for member in all_fitted]
    count = max(1, sum(cost.epochs > 0 for cost in costs))
    anchor = first.cost.anchor_epochs
    spent = sum(cost.total_epochs - cost.anchor_epochs for cost in costs)
    seconds = [cost.wall_seconds or 0.0 for cost in costs]
    settings = {
        **sampled.settings,
        "s": "auto",
        "prior_variance": "auto",
        "islands": len(positions),
        "particles": particles,
        "island_weights": STACKED,
        "mixture": mixture.as_dict(),
    }
    for single in ("prior_by_parameter", "identity", "evidence_withheld", "first_island"):
        settings.pop(single, None)
    posterior = Posterior(
        first.model,
        first.space,
        first.likelihood,
        positions,
        log_evidence=shares.log(),
        islands=[dataclasses.replace(each, index=i) for i, each in enumerate(reports)],
        cost=Cost(
            epochs=sum(cost.epochs for cost in costs) / count,
            forward_epochs=sum(cost.forward_epochs for cost in costs) / count,
            anchor_epochs=anchor,
            total_epochs=spent + anchor,
            wall_seconds=sum(seconds),
            prior_epochs=sum(cost.prior_epochs for cost in costs),
            expected_bytes=sampled.cost.expected_bytes,
            peak_bytes=sampled.cost.peak_bytes,
            memory_limit=sampled.cost.memory_limit,
        ),
        settings=settings,
        within=within,
        weighting=STACKED,
    )
    posterior.power = sampled.power
    return posterior


def _side_by_side(members: Sequence[Tensor], particles: int) -> Tensor:
    """All islands, with so many particles each; those that are added have no weight."""
    islands, dim = sum(map(len, members)), members[0].shape[-1]
    positions = room_beside(members, (islands, particles, dim))
    every = [island for member in members for island in member]
    for row, island in zip(positions, every, strict=True):
        row[: len(island)] = island
        row[len(island) :] = island[:1]
        release_pages(island)
        release_pages(row)
    return positions


def _padded(within: Tensor, particles: int) -> Tensor:
    missing = particles - within.shape[1]
    return torch.cat([within, within.new_zeros(len(within), missing)], 1)


def _name(request: FitRequest) -> str:
    if isinstance(request.prior_variance, ByLayer):
        return f"s = {request.s:g}, prior variance {request.prior_variance.weights:g} / fan-in"
    return f"s = {request.s:g}"


def _with_own_checkpoint(request: FitRequest) -> FitRequest:
    """Candidates are runs of their own, and have folders of their own below the checkpoint."""
    location = as_checkpoint(request.compute.checkpoint)
    if location is None:
        return request
    path = f"{str(location.path).rstrip('/')}/candidate-s{request.s:g}"
    compute = dataclasses.replace(
        request.compute, checkpoint=dataclasses.replace(location, path=path)
    )
    return dataclasses.replace(request, compute=compute)
