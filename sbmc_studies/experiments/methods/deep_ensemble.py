"""Deep ensembles: networks trained from different initial weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbmc_studies.experiments.methods.contract import Method, Outcome, ensemble_outcome

if TYPE_CHECKING:
    from sbmc_studies.experiments.context import Context


def run(context: Context) -> Outcome:
    """Train particles × islands networks in one batch."""
    particles, islands = context.settings["particles"], context.settings["islands"]
    return ensemble_outcome(context.ensemble(particles * islands), particles, islands)


METHODS = (
    Method(
        name="de",
        label="deep ensemble",
        description="deep ensemble: particles × islands networks from different initial weights",
        cost="one training a member",
        run=run,
        uses=("particles", "islands"),
        fixed={"s": 0.0},
    ),
)
