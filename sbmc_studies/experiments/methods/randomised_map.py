"""Randomised MAP sampling: an ensemble, each member anchored at another draw from the prior."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbmc_studies.experiments.methods.contract import Method, Outcome, ensemble_outcome

if TYPE_CHECKING:
    from sbmc_studies.experiments.context import Context


def run(context: Context) -> Outcome:
    """Train particles × islands networks in one batch."""
    particles, islands = context.settings["particles"], context.settings["islands"]
    trained = context.ensemble(particles * islands, anchored=True)
    return ensemble_outcome(trained, particles, islands)


METHODS = (
    Method(
        name="rms",
        label="RMS",
        description="randomised MAP sampling: an ensemble whose members are drawn to prior draws",
        cost="one training a member",
        run=run,
        uses=("particles", "islands"),
        fixed={"s": 0.0},
    ),
)
