"""What a fit makes of settling: leftovers for the next candidates, and a sentence at the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sbmc.fitting.request import FitRequest
from sbmc.log import logger
from sbmc.posterior.posterior import Posterior


class Leftovers:
    """Fits the candidates of a mixture one after another, within one budget.

    What the chains of a candidate leave of their epochs, since their predictions settled before, is
    shared by all chains of the candidates that follow. What a candidate was extended by is no part
    of the budget, and is taken from nobody. A candidate that fails leaves nothing.

    Args:
        requests: the candidates in the order in which they will be fitted, each with a sampler that
            has `epochs`.
        fit_one: makes a single posterior.
    """

    def __init__(
        self, requests: Sequence[FitRequest], fit_one: Callable[[FitRequest], Posterior]
    ) -> None:
        self._waiting = [_chains(request) for request in requests]
        self._fit_one = fit_one
        self.epochs = 0.0  # of all chains together, not spent yet by anybody

    def fit(self, request: FitRequest) -> Posterior:
        """Fit the next candidate; or the network itself, for s = 0, which costs nothing."""
        if request.s == 0 or not self._waiting:
            return self._fit_one(request)
        further = int(self.epochs / sum(self._waiting))
        chains = self._waiting.pop(0)
        sampler: Any = request.sampler
        if further:
            sampler = dataclasses.replace(sampler, epochs=sampler.epochs + further)
            self.epochs -= further * chains
            logger.info("%d epochs a chain more, which candidates before have left", further)
        posterior = self._fit_one(dataclasses.replace(request, sampler=sampler))
        spent = posterior.cost.epochs
        self.epochs += max(0.0, sampler.epochs - spent) * chains
        return posterior


def _chains(request: FitRequest) -> int:
    return request.particle_count * int(request.islands)


def settling_in_words(figures: Mapping[str, Any]) -> str:
    """Whether predictions had settled at the end of a run, as a sentence.

    Args:
        figures: of the posterior's health.

    Returns:
        The sentence; empty if nobody looked.

    Examples:
        >>> settling_in_words({"settling": 1.064, "unsettled": 0, "islands": 2})
        'Predictions have settled: the settling figure is 1.06.'
    """
    unsettled, figure = figures.get("unsettled"), figures.get("settling")
    if unsettled is None:
        return ""
    if not unsettled:
        return f"Predictions have settled: the settling figure is {figure:.2f}."
    shown = "not finite" if figure is None else f"{figure:.2f}"
    return (
        f"Predictions have not settled in {unsettled} of {figures['islands']} islands: the largest "
        f"settling figure is {shown}. More epochs would have helped: give a larger budget, or let "
        "it be extended (`extend=4` of sbmc.Budget or sbmc.AutoHMC)."
    )


def note_settling(posterior: Posterior) -> None:
    """Say in the log and in `posterior.settings` whether predictions have settled."""
    if words := settling_in_words(posterior.health.figures):
        posterior.settings["settling"] = words
        logger.info("%s", words)
