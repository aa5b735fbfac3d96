"""What a mixture is made of: unseen rows, networks, and the posteriors around them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from sbmc.checks import Phrase, require
from sbmc.fitting.budget import USUAL_BATCH
from sbmc.fitting.calibration import calibrate
from sbmc.fitting.further_networks import train_further_networks
from sbmc.fitting.request import FitRequest
from sbmc.likelihoods.choice import Inferred
from sbmc.log import logger
from sbmc.model.data import Examples, as_examples, require_same_form
from sbmc.model.inferred_likelihood import resolve_likelihood
from sbmc.model.parameters import select_parameters
from sbmc.model.unseen_rows import remembered_rows
from sbmc.prior.by_layer import ByLayer
from sbmc.prior.original import PriorVariance
from sbmc.training.shared_statistics import can_share_statistics

NETWORK = "the network itself"
# Rows that are looked for among unseen ones; data may be mapped from files.
ROWS_AT_ONCE = 2**14


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
PARTICLES, FURTHER_NETWORKS, FURTHER_SHARE = 6, 2, 0.5
# The same where chains cannot explore the full posterior: then networks have to do it, if they are
# trained for a part of a long training. After a short one there is no room for a third.
MORE_NETWORKS, MORE_SHARE = 3, 0.75
# How long further networks are trained, as a part of the first one's training, if that had so many
# steps. Chains go on from there, so that little is lost, and a fit ends within the time of an
# ensemble of five. After fewer steps networks have not arrived, and a part of them is too few: on
# development pairs with some hundreds of steps it made the mixture worse.
FURTHER_LENGTH, STEPS_TO_SHORTEN = 2 / 3, 1_500


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
        require_same_form(given, examples, "validation", "data")
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
    ours = _flat(some.inputs[:])
    sums = ours.sum(1)
    known: set[bytes] = set()
    # Equal rows have equal sums, so that few of them have to be compared number by number.
    for start in range(0, len(others), ROWS_AT_ONCE):
        theirs = _flat(others.inputs[start : start + ROWS_AT_ONCE])
        known |= {row.tobytes() for row in theirs[np.isin(theirs.sum(1), sums)]}
    return sum(row.tobytes() in known for row in ours)


def _flat(inputs: Tensor) -> Any:
    return inputs.detach().cpu().float().flatten(1).contiguous().numpy()


class FurtherTraining(NamedTuple):
    """How many networks to train beside the one given, for how many epochs, and how fast.

    Without a learning rate they are trained as the one given was, if it remembers that, and
    otherwise by Adam at its usual rate.
    """

    networks: int
    epochs: int
    learning_rate: float | None = None

    @property
    def total_epochs(self) -> int:
        """Of all of them."""
        return self.networks * self.epochs


NO_TRAINING = FurtherTraining(0, 0)


def is_long(request: FitRequest, training_epochs: float) -> bool:
    """Whether a training of so many epochs has steps enough for a part of it to do."""
    return training_epochs * math.ceil(request.data.rows / USUAL_BATCH) >= STEPS_TO_SHORTEN


def further_training(
    request: FitRequest,
    training_epochs: float,
    budget: float,
    most: int = FURTHER_NETWORKS,
    share: float = FURTHER_SHARE,
    length: float = FURTHER_LENGTH,
) -> FurtherTraining:
    """What the budget has room for.

    Args:
        request: the arguments of `fit`. Where they say where chains begin, nothing is trained, and
            neither where training moves buffers that are not statistics of a normalisation layer:
            all networks would have to share those of the one given.
        training_epochs: of the network that was given.
        budget: the epochs of all chains together.
        most: networks.
        share: of the budget, which their training may take.
        length: of their training, as a part of that of the network that was given, if this one
            was trained for long.

    Returns:
        At most that.
    """
    length = length if is_long(request, training_epochs) else 1.0
    epochs = max(1, math.floor(length * training_epochs + 1e-9))
    networks = min(most, int(share * budget / epochs + 1e-9))
    if not networks or request.start is not None:
        return NO_TRAINING
    space = select_parameters(request.model, request.parameters)
    if not can_share_statistics(request.model, space):
        logger.info(
            "no further networks are trained, since layers keep statistics of the data that cannot "
            "be shared"
        )
        return NO_TRAINING
    return FurtherTraining(networks, epochs)


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
) -> MixturePlan:
    """Train the further networks, scale the outputs of all, and say what is to be fitted.

    Args:
        requests: the posteriors to sample, with a sampler each.
        unseen: rows that choose the weights.
        training: of further networks.

    Returns:
        The network itself, all networks (if there are several), and the posteriors.
    """
    resolved = _resolve_likelihood(requests[0])
    requests = [dataclasses.replace(each, likelihood=resolved.likelihood) for each in requests]
    first = requests[0]
    models = [first.model]
    if training.networks:
        models += train_further_networks(first, *training)
    space = select_parameters(first.model, first.parameters)
    scaled = calibrate(models, unseen.examples, space, resolved.likelihood)
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


def _name(request: FitRequest) -> str:
    if isinstance(request.prior_variance, ByLayer):
        return f"s = {request.s:g}, prior variance {request.prior_variance.weights:g} / fan-in"
    return f"s = {request.s:g}"
