"""A pilot run: learn everything that adapts, then freeze it, so that the evidence is unbiased."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from torch import Tensor

from sbmc.checks import is_number, is_whole
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.smc.diagnostics import SMCRun
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.target import Target

if TYPE_CHECKING:
    from sbmc.samplers.smc.settings import SMC

_SERIES = ("temperatures", "step_sizes")
_NAMES = {*_SERIES, "mutations", "epochs", "forward_epochs"}


def learn(
    settings: SMC,
    target: Target,
    rng: IslandNoise,
    start: Tensor,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
) -> tuple[SMC, SMCRun]:
    """Run one island and freeze its temperatures, step sizes and numbers of mutations.

    The pilot's particles are discarded: the frozen settings must not depend on the particles that
    are weighted with them.

    Args:
        settings: settings that adapt.
        target: log likelihood, and gradient if the moves need it.
        rng: noise of one island, used for nothing else.
        start: draws from the prior, whitened, `(population, dim)`.
        checkpointer: is offered the snapshots of the pilot's run.

    Returns:
        Settings in which nothing adapts, and the pilot's run.

    Raises:
        RuntimeError: the pilot did not reach temperature 1.
    """
    (run,) = replace(settings, pilot=False).run(target, rng, start, checkpointer=checkpointer)
    if run.outcome != "completed":
        raise RuntimeError(f"the pilot run of SMC ended as {run.outcome}: {run.message}.")
    column = {name: tuple(each[name] for each in run.temperatures) for name in run.temperatures[0]}
    mutations = settings.mutations if settings.waste_free else column["mutations"]
    frozen = replace(
        settings,
        pilot=False,
        eta=None,
        temperatures=column["temperature"],
        step_sizes=column["step_size"],
        mutations=mutations,
    )
    return frozen, run


def check_learned(learned: Mapping[str, Any]) -> None:
    """Refuse values that a pilot cannot have learned, when a checkpoint is read.

    Args:
        learned: the values that were read, with lists for tuples.

    Raises:
        ValueError: the message says what is wrong.
    """
    if set(learned) != _NAMES:
        odd = ", ".join(sorted(set(learned) ^ _NAMES))
        raise ValueError(f"it has other values than a pilot's: {odd}")
    temperatures, mutations = learned["temperatures"], learned["mutations"]
    for name in _SERIES:
        good = isinstance(learned[name], list) and all(map(_is_positive, learned[name]))
        if not good or len(learned[name]) != len(temperatures):
            raise ValueError(f"its {name} are not one positive number for each temperature")
    rising = all(a < b for a, b in pairwise(temperatures))
    if not temperatures or temperatures[-1] != 1 or not rising:
        raise ValueError("its temperatures do not rise to 1")
    each = mutations if isinstance(mutations, list) else [mutations] * len(temperatures)
    if len(each) != len(temperatures) or not all(is_whole(m) and m >= 1 for m in each):
        raise ValueError("its mutations are not one positive integer for each temperature")


def _is_positive(value: Any) -> bool:
    return is_number(value) and 0 < value < math.inf
