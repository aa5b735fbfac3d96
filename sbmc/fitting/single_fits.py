"""From a call of `fit` to the single fits that it is made of: which s, which sampler, how long."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sbmc.checks import MOST_COUNT, Phrase, is_number, require, require_choice
from sbmc.fitting.anchors import DEFAULT_S
from sbmc.fitting.budget import Budget, as_budget
from sbmc.fitting.long_chains import long_chains
from sbmc.fitting.mixture_plan import (
    MORE_NETWORKS,
    MORE_SHARE,
    NO_TRAINING,
    FurtherTraining,
    UnseenRows,
    candidate_requests,
    further_training,
    is_long,
    unseen_rows,
)
from sbmc.fitting.preparation import require_positive_integers
from sbmc.fitting.reach import AMPLE_PATH, FEWEST_PASSES, PATH, Reach, find_reach
from sbmc.fitting.request import FitRequest
from sbmc.fitting.streaming import require_passes_alone, training_data
from sbmc.log import logger
from sbmc.model.streams import Streamed
from sbmc.samplers import AutoHMC
from sbmc.samplers.auto_schedule import EPOCHS_FOR_ALL_DATA, schedule_of
from sbmc.samplers.settling import SETTLED

AUTO = "auto"
# A chain has to get somewhere; what a budget leaves below this is said.
FEWEST_EPOCHS = 2
# Longer chains of `AutoHMC` evaluate all data, whatever they are.
MOST_STREAMED = EPOCHS_FOR_ALL_DATA - 1


class SingleFits(NamedTuple):
    """What a call of `fit` runs.

    Attributes:
        requests: with s and a sampler each; several are the candidates of a mixture.
        unseen: the rows that choose among them; None for a single one.
        budget: how the length of the chains was found, in words; empty if the sampler says it.
        training: of further networks, which the candidates of a mixture share.
        s_reason: why s is not the usual one, in words; empty if it is.
        probe_epochs: passes over the data that were made to find out how wide s may be.
    """

    requests: list[FitRequest]
    unseen: UnseenRows | None
    budget: str
    training: FurtherTraining = NO_TRAINING
    s_reason: str = ""
    probe_epochs: float = 0.0


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
    require_positive_integers(particles=request.particle_count, islands=request.islands)
    request = dataclasses.replace(request, data=training_data(request))
    streamed = isinstance(request.data, Streamed)
    if streamed:
        require_passes_alone(request)
    number = is_number(request.s)
    if request.s is not None and not number:
        require_choice("s", request.s, [AUTO], 'in [0, 1] or "auto"')
    chosen = not number
    replaced = request.prior.instead_of_s
    open_s = chosen and not replaced and request.anchors is None
    if chosen and request.s is not None:
        rule = "a number with `anchors` or an option of `prior` that replaces s"
        require(open_s, "s", rule, request.s)
    if request.validation is not None:
        rule = 'left out, unless s is "auto": it is for choosing s'
        require(open_s, "validation", rule, Phrase(f"rows with s = {request.s!r}"))
    # Remembered rows could choose s too, but further networks are trained on data at hand.
    unseen = unseen_rows(request, request.data) if open_s and not streamed else None
    if open_s and request.sampler is None and not streamed:
        long = long_chains(request, seconds_per_epoch)
        if long is not None:
            return SingleFits([long.request], unseen, long.words, long.training)
    if unseen is not None:
        return _mixture_fits(request, unseen, seconds_per_epoch)
    if chosen:
        request = dataclasses.replace(request, s=None if replaced else DEFAULT_S)
        if not replaced:
            why = "data are streamed, so that no rows" if streamed else "no unseen rows"
            logger.info("%s choose s: it is %g by rule", why, DEFAULT_S)
    if _sampler_given(request):
        return SingleFits([request], None, "")
    total = _total_epochs(request, seconds_per_epoch)
    sampler, words = _sampler_for(total, total.epochs, [request])
    if not chosen or replaced:
        return SingleFits([dataclasses.replace(request, sampler=sampler)], None, words)
    reach = _reach(request, sampler)
    requests, reason = _narrowed([request], sampler.epochs, reach)
    requests = [dataclasses.replace(each, sampler=sampler) for each in requests]
    return SingleFits(requests, None, words, NO_TRAINING, reason, _cost(reach))


def _mixture_fits(
    request: FitRequest, unseen: UnseenRows, seconds_per_epoch: Callable[[FitRequest], float]
) -> SingleFits:
    """The candidates of a mixture, with an equal part of the budget for each chain."""
    if _sampler_given(request):
        return SingleFits(candidate_requests(request, networks=1), unseen, "")
    total = _total_epochs(request, seconds_per_epoch)
    training = further_training(request, total.training_epochs, total.epochs)
    requests = candidate_requests(request, networks=1 + training.networks)
    sampler, words = _sampler_for(total, total.epochs - training.total_epochs, requests)
    reach = _reach(requests[0], sampler)
    kept, left_out = _within_reach(requests, sampler.epochs, reach)
    if left_out:
        # Its part of the budget is for a further network, and then for the other chains.
        if is_long(request, total.training_epochs):
            training = further_training(
                request, total.training_epochs, total.epochs, MORE_NETWORKS, MORE_SHARE
            )
        kept = [e for e in candidate_requests(request, 1 + training.networks) if e.s != 1]
        sampler, words = _sampler_for(total, total.epochs - training.total_epochs, kept)
    kept, narrowed = _narrowed(kept, sampler.epochs, reach)
    if training.networks:
        words += f", and {training.networks} further networks trained for {training.epochs} epochs"
    requests = [dataclasses.replace(each, sampler=sampler) for each in kept]
    reason = f"{left_out} {narrowed}".strip()
    return SingleFits(requests, unseen, words, training, reason, _cost(reach))


def _reach(request: FitRequest, sampler: AutoHMC) -> Reach | None:
    """How far chains get; None where they have all data at every step, which needs no limit."""
    streamed = isinstance(request.data, Streamed)
    schedule = schedule_of(request.data.rows, sampler.epochs, streamed=streamed)
    return find_reach(request) if schedule.on_batches else None


def _cost(reach: Reach | None) -> float:
    return 0.0 if reach is None else reach.epochs


def _within_reach(
    requests: Sequence[FitRequest], epochs: int, reach: Reach | None
) -> tuple[list[FitRequest], str]:
    """Without the full posterior if chains of so many epochs get nowhere in it, and why, if so."""
    narrow = [each for each in requests if each.s != 1]
    if reach is None or not narrow or reach.explores_all(epochs):
        return list(requests), ""
    return narrow, _said(f"s = 1 is not sampled, since {_too_short(reach, 1.0, epochs, PATH)}.")


def _narrowed(
    requests: Sequence[FitRequest], epochs: int, reach: Reach | None
) -> tuple[list[FitRequest], str]:
    """With s below 1 no wider than chains of so many epochs explore, and why, if it is not."""
    if reach is None or (s := reach.widest(epochs)) >= DEFAULT_S:
        return list(requests), ""
    narrowed = [each if each.s == 1 else dataclasses.replace(each, s=s) for each in requests]
    why = _too_short(reach, DEFAULT_S, epochs, AMPLE_PATH)
    return narrowed, _said(f"s = {s:g} instead of {DEFAULT_S:g}, since {why}.")


def _too_short(reach: Reach, s: float, epochs: int, needed: float) -> str:
    chains = f"chains of {epochs} epochs do not explore it"
    path = reach.path(s, epochs)
    if path < needed:
        return f"{chains} (path {path:.1f}, {needed:g} needed)"
    if s == 1:
        return f"{chains} ({FEWEST_PASSES} needed)"
    return f"the noise of mini-batches of {reach.examples:,} examples makes their steps short"


def _said(reason: str) -> str:
    logger.info("%s A larger budget allows it.", reason)
    return reason


def _sampler_given(request: FitRequest) -> bool:
    if request.sampler is None:
        return False
    rule = "left out where `sampler` says how long chains are"
    require(request.budget is None, "budget", rule, request.budget)
    return True


class _TotalEpochs(NamedTuple):
    """The budget in epochs of all chains together, what it was in words, and one training."""

    epochs: float
    source: str
    training_epochs: float
    budget: Budget


def _total_epochs(
    request: FitRequest, seconds_per_epoch: Callable[[FitRequest], float]
) -> _TotalEpochs:
    budget, examples = as_budget(request.budget), request.data.rows
    length = budget.training_length(request.model, examples)
    if budget.seconds is None:
        total = budget.epochs(request.model, examples)
        source = f"{budget.trainings:g} trainings of {length.epochs:g} epochs ({length.reason})"
    else:
        short = dataclasses.replace(request, s=DEFAULT_S, sampler=AutoHMC(epochs=8))
        total = budget.epochs(request.model, examples, seconds_per_epoch(short))
        source = f"{budget.seconds:g} seconds"
    return _TotalEpochs(total, source, length.epochs, budget)


def _sampler_for(
    total: _TotalEpochs, epochs: float, requests: Sequence[FitRequest]
) -> tuple[AutoHMC, str]:
    """The default sampler, with an equal part of so many epochs for each chain, and why."""
    chains = sum(each.particle_count * int(each.islands) for each in requests)
    words = f"{total.source} for {chains} chains"
    streamed = isinstance(requests[0].data, Streamed)
    most = MOST_STREAMED if streamed else MOST_COUNT
    each_chain = min(int(epochs / chains), most)
    if streamed and each_chain == most:
        words += f"; a chain on streamed data has {most} at most"
    if each_chain < FEWEST_EPOCHS:
        words += f"; a chain takes at least {FEWEST_EPOCHS}, so this goes beyond the budget"
    each_chain = max(FEWEST_EPOCHS, each_chain)
    words = f"{each_chain} epochs a chain: {words}"
    logger.info("%s", words)
    settle = SETTLED if total.budget.stop_early else None
    return AutoHMC(epochs=each_chain, settle=settle, extend=total.budget.extend), words
