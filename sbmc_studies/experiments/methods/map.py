"""The MAP: one network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbmc_studies.experiments.methods.contract import Method, Outcome, network_outcome

if TYPE_CHECKING:
    from sbmc_studies.experiments.context import Context


def run(context: Context) -> Outcome:
    """Train the anchor, and make it a posterior of one."""
    return network_outcome(context.anchor())


METHODS = (
    Method(
        name="map",
        label="MAP",
        description="the network that maximises the posterior: no uncertainty but the softmax",
        cost="one training (about 175 on mnist7)",
        run=run,
        fixed={"s": 0.0, "particles": 1, "islands": 1},
    ),
)
