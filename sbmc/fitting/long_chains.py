"""Numbers: long microcanonical chains from several networks, where the budget has room for them.

With a likelihood of numbers that learns its noise, or whose network gives it, the full posterior
(s = 1) predicts best once chains are long enough, and it does so by how far they travel. Exact
moves are held to the few directions that the noise makes narrow. So where a budget leaves each
chain a thousand epochs or more, networks are trained first, and `MCLMC` begins at each of them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

from sbmc.fitting.budget import Budget, as_budget
from sbmc.fitting.further_networks import train_further_networks
from sbmc.fitting.mixture_plan import FurtherTraining, further_training
from sbmc.fitting.request import FitRequest
from sbmc.likelihoods import as_likelihood
from sbmc.likelihoods.noise import NoisyLikelihood
from sbmc.log import logger
from sbmc.model.parameters import select_parameters
from sbmc.prior.by_layer import ByLayer
from sbmc.samplers import MCLMC

# Chains by default, one for each network; draws that are kept of each; the part of a budget that
# the training of networks may take; and the epochs below which chains do not get far enough.
CHAINS, DRAWS, TRAINING_SHARE, FEWEST_EPOCHS = 10, 30, 0.2, 1_000
# Of the further networks. At Adam's usual 1e-3 chains begin with a long descent.
LEARNING_RATE = 5e-3
# How often the time of an epoch is measured at most, and the part of a budget of time for that.
MOST_MEASURED, MEASURING = 30, 0.02
# Numbers that the draws of a posterior may hold in all: draws of large networks are fewer.
MOST_NUMBERS = 2**25
# Chosen on rows of airfoil and of the UCI tables that were held out of their training parts.
PRIOR = ByLayer(weights=5.0)


class LongChains(NamedTuple):
    """The fit of the full posterior, the networks to train before, and the budget in words."""

    request: FitRequest
    training: FurtherTraining
    words: str


def long_chains(
    request: FitRequest, seconds_per_epoch: Callable[[FitRequest], float]
) -> LongChains | None:
    """Plan long chains for a likelihood of numbers.

    Args:
        request: the arguments of `fit`, which leave s and the sampler to the library.
        seconds_per_epoch: measures what an epoch of one particle takes, for a budget of time.

    Returns:
        None if the likelihood is of something else, if the arguments say where chains begin or
        that they are to settle, or if the budget is too small.
    """
    budget = as_budget(request.budget)
    if request.start is not None or budget.extend > 1 or not _of_numbers(request):
        return None
    chains = CHAINS if request.particles is None else request.particles
    prior = PRIOR if request.prior_variance == "auto" else request.prior_variance
    full = dataclasses.replace(request, s=1.0, prior_variance=prior, particles=chains)
    total, source = _total_epochs(full, budget, seconds_per_epoch)
    length = budget.training_length(request.model, len(request.data)).epochs
    share = TRAINING_SHARE
    training = further_training(request, length, total, most=CHAINS - 1, share=share, length=1.0)
    training = training._replace(learning_rate=LEARNING_RATE)
    epochs = int((total - training.total_epochs) / (chains * int(request.islands)))
    if epochs < FEWEST_EPOCHS:
        return None
    dim = select_parameters(request.model, request.parameters).dim
    draws = max(1, min(DRAWS, MOST_NUMBERS // (chains * int(request.islands) * dim)))
    words = f"{epochs} epochs a chain: {source} for {chains * int(request.islands)} chains"
    if training.networks:
        words += f", and {training.networks} further networks trained for {training.epochs} epochs"
    logger.info("%s", words)
    sampler = MCLMC(epochs=epochs, draws=draws)
    return LongChains(dataclasses.replace(full, sampler=sampler), training, words)


def begin_at_networks(request: FitRequest, training: FurtherTraining) -> FitRequest:
    """The fit with chains that begin at the network and at further ones, which are trained now.

    Args:
        request: the arguments of `fit`.
        training: of further networks; if there are none, nothing changes.

    Returns:
        The request, with its `start`.
    """
    if not training.networks:
        return request
    further = train_further_networks(request, *training)
    return dataclasses.replace(request, start=[request.model, *further])


def _of_numbers(request: FitRequest) -> bool:
    """Whether the likelihood has noise that is learned or given by the network."""
    if request.likelihood is None:  # inferred from numbers, it is Gaussian with learned noise
        return bool(request.data.targets.is_floating_point())
    likelihood = as_likelihood(request.likelihood)
    return isinstance(likelihood, NoisyLikelihood) and likelihood.noise is not None


def _total_epochs(
    request: FitRequest, budget: Budget, seconds_per_epoch: Callable[[FitRequest], float]
) -> tuple[float, str]:
    """Epochs of all chains together, and what the budget was in words."""
    examples = len(request.data)
    length = budget.training_length(request.model, examples)
    if budget.seconds is None:
        words = f"{budget.trainings:g} trainings of {length.epochs:g} epochs ({length.reason})"
        return budget.epochs(request.model, examples), words
    measured = dataclasses.replace(request, sampler=MCLMC(epochs=FEWEST_EPOCHS))
    each = _mean_seconds(measured, budget.seconds, seconds_per_epoch)
    return budget.epochs(request.model, examples, each), f"{budget.seconds:g} seconds"


def _mean_seconds(
    request: FitRequest, budget: float, seconds_per_epoch: Callable[[FitRequest], float]
) -> float:
    """What an epoch takes, the mean of measurements: a single one may be short of a busy moment."""
    began, found = time.perf_counter(), [seconds_per_epoch(request)]
    while len(found) < MOST_MEASURED and time.perf_counter() - began < MEASURING * budget:
        found.append(seconds_per_epoch(request))
    return sum(found) / len(found)
