"""A pilot run: learn everything that adapts, then freeze it, so that the evidence is unbiased."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.smc.diagnostics import SMCRun
from sbmc.samplers.smc.settings import SMC
from sbmc.samplers.snapshot import NOTHING, Keeper
from sbmc.target.target import Target


def learn(
    settings: SMC,
    target: Target,
    rng: IslandNoise,
    start: Tensor,
    keeper: Keeper = NOTHING,
) -> tuple[SMC, SMCRun]:
    """Run one island and freeze its temperatures, step sizes and numbers of mutations.

    The pilot's own particles are thrown away: what is frozen must not depend on the particles that
    are weighted with it.

    Args:
        settings: what adapts.
        target: log likelihood, and gradient where the moves want it.
        rng: noise of one island, used for nothing else.
        start: draws from the prior, whitened, `(population, dim)`.
        keeper: is offered the places of the pilot's run, and of nothing else.

    Returns:
        Settings in which nothing adapts, and the pilot's run.

    Raises:
        RuntimeError: the pilot did not reach temperature 1.
    """
    (run,) = replace(settings, pilot=False).run(target, rng, start, keeper=keeper)
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
