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
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sbmc.fitting.mixture_plan import FurtherTraining, UnseenRows, plan_mixture
from sbmc.fitting.request import FitRequest
from sbmc.islands.checkpoints import as_checkpoint
from sbmc.islands.cost import Cost
from sbmc.log import logger, warn_user
from sbmc.model.data import Examples, rows
from sbmc.posterior.log_scores import log_scores
from sbmc.posterior.mixture import Mixture, MixtureMember
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.weights import STACKED
from sbmc.prediction.stacking import stack
from sbmc.storage.mapped import release_pages, room_beside


def fit_mixture(
    requests: Sequence[FitRequest],
    unseen: UnseenRows,
    training: FurtherTraining,
    fit_one: Callable[[FitRequest], Posterior],
) -> Posterior:
    """Sample every candidate, and mix them with the networks that they are around.

    A candidate whose verdict is not ok is left out, unless none is ok.

    Args:
        requests: the candidates, with a sampler each.
        unseen: rows that choose the weights.
        training: of further networks.
        fit_one: makes a single posterior.

    Returns:
        The mixture. `posterior.mixture` says what it is made of.
    """
    began = time.perf_counter()
    plan = plan_mixture(requests, unseen, training)
    prepared_seconds = time.perf_counter() - began
    fitted: list[tuple[str, Posterior]] = []
    sampled: list[bool] = []
    for number, (name, request) in enumerate(plan.members, start=1):
        logger.info("member %d of %d: %s", number, len(plan.members), name)
        try:
            fitted.append((name, fit_one(_with_own_checkpoint(request))))
            sampled.append(request.s != 0)
        except RuntimeError as error:
            message = f"The candidate {name} is left out of the mixture: {error}"
            warn_user(message, RuntimeWarning)
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
    posterior.cost = posterior.cost.with_training(trained, prepared_seconds)
    if plan.likelihood_reason:
        posterior.settings["likelihood_reason"] = plan.likelihood_reason
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
