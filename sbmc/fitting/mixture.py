"""`s="auto"`: several posteriors around one network, mixed by how well they predict unseen rows.

No single s wins everywhere: few data want the network itself (s = 0), an overfitted network wants
s = 1, and the best scale of the prior differs as much. So the network and a few posteriors that
differ in both are mixed, with weights from stacking (`sbmc.prediction.stacking`). The rows for that
must be unseen: on rows that the network was trained on, the network always wins.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.fitting.request import FitRequest
from sbmc.islands.checkpoints import as_checkpoint
from sbmc.islands.cost import Cost
from sbmc.islands.health import warn_if_not_ok
from sbmc.log import logger
from sbmc.model.data import Examples, as_examples, rows
from sbmc.model.unseen_rows import remembered_rows
from sbmc.posterior.log_scores import log_scores
from sbmc.posterior.mixture import Mixture, MixtureMember
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.weights import STACKED
from sbmc.prediction.stacking import stack
from sbmc.prior.by_layer import ByLayer
from sbmc.storage.mapped import release_pages, room_beside

NETWORK = "the network itself"


class Candidate(NamedTuple):
    """A posterior that may enter the mixture: its scale s, and c of the prior c / fan_in."""

    s: float
    weights: float


# Chosen on the development pairs of the gauntlet (docs/automatic.md): a narrow prior around the
# network, one that lets it go far, and the full posterior.
CANDIDATES = (Candidate(0.02, 5.0), Candidate(0.4, 20.0), Candidate(1.0, 5.0))
# With a prior variance that the user has given, candidates differ in s alone.
SCALES = (0.1, 0.3, 1.0)


class UnseenRows(NamedTuple):
    """Rows that the network was not trained on, and where they come from, in words."""

    examples: Examples
    source: str


def unseen_rows(request: FitRequest, examples: Examples) -> UnseenRows | None:
    """The rows that choose the mixture: those given as `validation`, or those the model remembers.

    Args:
        request: the arguments of `fit`.
        examples: the training data.

    Returns:
        The rows, or None if there are none that are not in the training data too.

    Raises:
        BadInput: `validation` has rows of the training data.
    """
    if request.validation is not None:
        given = as_examples(request.validation, "validation")
        shared = _shared_rows(given, examples)
        rule = "rows that are not in `data`: on rows it was trained on, the network always wins"
        require(shared == 0, "validation", rule, Phrase(f"{shared} of {len(given)} that are"))
        return UnseenRows(given, "given as `validation`")
    remembered = remembered_rows(request.model)
    if remembered is None:
        return None
    if _shared_rows(remembered, examples):
        logger.info(
            "the rows that were set aside when the network was trained are part of `data` now, "
            "and cannot choose s"
        )
        return None
    return UnseenRows(remembered, "set aside when the network was trained")


def _shared_rows(some: Examples, others: Examples) -> int:
    """How many rows of `some` are in `others`; 0 where inputs are no single tensor."""
    if not isinstance(some.inputs, Tensor) or not isinstance(others.inputs, Tensor):
        return 0
    known = {row.tobytes() for row in _flat(others.inputs)}
    return sum(row.tobytes() in known for row in _flat(some.inputs))


def _flat(inputs: Tensor) -> Any:
    return inputs.detach().cpu().float().flatten(1).contiguous().numpy()


def candidate_requests(request: FitRequest) -> list[FitRequest]:
    """The single fits that a mixture is made of, without their samplers."""
    if request.prior_variance != "auto":
        return [dataclasses.replace(request, s=s) for s in SCALES]
    return [
        dataclasses.replace(request, s=each.s, prior_variance=ByLayer(weights=each.weights))
        for each in CANDIDATES
    ]


def fit_mixture(
    requests: Sequence[FitRequest],
    unseen: UnseenRows,
    fit_one: Callable[[FitRequest], Posterior],
    stacklevel: int,
) -> Posterior:
    """Sample every candidate, and mix them with the network itself.

    A candidate whose verdict is not ok is left out, unless none is ok.

    Args:
        requests: the candidates, with a sampler each.
        unseen: rows that choose the weights.
        fit_one: makes a single posterior.
        stacklevel: of the warning, as seen from here.

    Returns:
        The mixture. `posterior.mixture` says what it is made of.
    """
    network = fit_one(dataclasses.replace(requests[0], s=0.0))
    held_out = _ready(unseen.examples, network)
    fitted: list[tuple[str, Posterior]] = [(NETWORK, network)]
    for number, request in enumerate(requests, start=1):
        name = _name(request)
        logger.info("candidate %d of %d: %s", number, len(requests), name)
        try:
            fitted.append((name, fit_one(_with_own_checkpoint(request, number))))
        except RuntimeError as error:
            warnings.warn(
                f"The candidate {name} is left out of the mixture: {error}",
                RuntimeWarning,
                stacklevel=stacklevel + 1,
            )
    scores = torch.stack([log_scores(posterior, held_out) for _, posterior in fitted], 1)
    healthy = [posterior.health.ok is not False for _, posterior in fitted]
    # The network is always there. Where nothing that was sampled is ok, all of it stays, and the
    # verdict on the mixture says so.
    used = healthy if sum(healthy) > 1 else [True] * len(fitted)
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
    mixture = Mixture(members, len(held_out), unseen.source)
    kept = [posterior for (_, posterior), use in zip(fitted, used, strict=True) if use]
    everything = [posterior for _, posterior in fitted]
    posterior = _combined(kept, weights[torch.tensor(used)], everything, mixture)
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
            epochs=sum(cost.epochs for cost in costs) / max(1, len(costs) - 1),
            forward_epochs=sum(cost.forward_epochs for cost in costs) / max(1, len(costs) - 1),
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


def _with_own_checkpoint(request: FitRequest, number: int) -> FitRequest:
    """Candidates are runs of their own, and have folders of their own below the checkpoint."""
    location = as_checkpoint(request.compute.checkpoint)
    if location is None:
        return request
    path = f"{str(location.path).rstrip('/')}/candidate-{number}"
    compute = dataclasses.replace(
        request.compute, checkpoint=dataclasses.replace(location, path=path)
    )
    return dataclasses.replace(request, compute=compute)
