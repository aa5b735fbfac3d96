"""From a call of `fit` to the single fits that it is made of: which s, which sampler, how long."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sbmc.checks import BadInput, Phrase, require
from sbmc.fitting.anchors import DEFAULT_S
from sbmc.fitting.budget import Budget, as_budget
from sbmc.fitting.mixture import UnseenRows, candidate_requests, unseen_rows
from sbmc.fitting.preparation import require_positive_integers
from sbmc.fitting.request import FitRequest
from sbmc.log import logger
from sbmc.model.data import as_examples
from sbmc.samplers import AutoHMC
from sbmc.samplers.settling import SETTLED

AUTO = "auto"
# A chain has to get somewhere; what a budget leaves below this is said.
FEWEST_EPOCHS = 2


class SingleFits(NamedTuple):
    """What a call of `fit` runs.

    Attributes:
        requests: with s and a sampler each; several are the candidates of a mixture.
        unseen: the rows that choose among them; None for a single one.
        budget: how the length of the chains was found, in words; empty if the sampler says it.
    """

    requests: list[FitRequest]
    unseen: UnseenRows | None
    budget: str


def single_fits(
    request: FitRequest, seconds_per_epoch: Callable[[FitRequest], float]
) -> SingleFits:
    """Resolve what the user has left to the library.

    Args:
        request: the arguments of `fit`.
        seconds_per_epoch: measures what an epoch of one particle takes, for a budget of time.

    Returns:
        The single fits.

    Raises:
        BadInput: arguments that exclude each other.
    """
    require_positive_integers(particles=request.particles, islands=request.islands)
    request = dataclasses.replace(request, data=as_examples(request.data))
    if isinstance(request.s, str) and request.s != AUTO:
        raise BadInput(f'`s` must be in [0, 1] or "auto", but got {request.s!r}.')
    chosen = request.s is None or request.s == AUTO
    replaced = request.prior.instead_of_s
    open_s = chosen and not replaced and request.anchors is None
    if request.s == AUTO:
        rule = "a number with `anchors` or an option of `prior` that replaces s"
        require(open_s, "s", rule, request.s)
    if request.validation is not None:
        rule = 'left out, unless s is "auto": it is for choosing s'
        require(open_s, "validation", rule, Phrase(f"rows with s = {request.s!r}"))
    unseen = unseen_rows(request, request.data) if open_s else None
    if unseen is not None:
        requests = candidate_requests(request)
    elif chosen:
        s = None if replaced else DEFAULT_S
        requests = [dataclasses.replace(request, s=s)]
        if not replaced:
            logger.info("no unseen rows choose s: it is %g by rule", DEFAULT_S)
    else:
        requests = [request]
    requests, words = _with_samplers(requests, seconds_per_epoch)
    return SingleFits(requests, unseen, words)


def _with_samplers(
    requests: Sequence[FitRequest], seconds_per_epoch: Callable[[FitRequest], float]
) -> tuple[list[FitRequest], str]:
    """The default sampler where none was given, with an equal part of the budget for each chain."""
    first = requests[0]
    if first.sampler is not None:
        rule = "left out where `sampler` says how long chains are"
        require(first.budget is None, "budget", rule, first.budget)
        return list(requests), ""
    budget = as_budget(first.budget)
    epochs, words = _epochs_for_each(budget, requests, seconds_per_epoch)
    logger.info("%s", words)
    settle = SETTLED if budget.stop_early else None
    sampler = AutoHMC(epochs=epochs, settle=settle, extend=budget.extend)
    return [dataclasses.replace(each, sampler=sampler) for each in requests], words


def _epochs_for_each(
    budget: Budget,
    requests: Sequence[FitRequest],
    seconds_per_epoch: Callable[[FitRequest], float],
) -> tuple[int, str]:
    first = requests[0]
    chains = len(requests) * int(first.particles) * int(first.islands)
    examples = len(first.data)
    if budget.seconds is None:
        length = budget.training_length(first.model, examples)
        total = budget.epochs(first.model, examples)
        source = (
            f"{budget.trainings:g} trainings of {length.epochs:g} epochs ({length.reason}) "
            f"for {chains} chains"
        )
    else:
        short = dataclasses.replace(first, sampler=AutoHMC(epochs=8))
        total = budget.epochs(first.model, examples, seconds_per_epoch(short))
        source = f"{budget.seconds:g} seconds for {chains} chains"
    epochs = int(total / chains)
    if epochs < FEWEST_EPOCHS:
        source += f"; a chain takes at least {FEWEST_EPOCHS}, so this goes beyond the budget"
    epochs = max(FEWEST_EPOCHS, epochs)
    return epochs, f"{epochs} epochs a chain: {source}"
