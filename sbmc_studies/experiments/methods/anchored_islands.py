"""One anchor per island, from a deep ensemble of as many networks as there are islands."""

from __future__ import annotations

from sbmc_studies.experiments.methods.sampled import sampler_method

METHODS = tuple(
    sampler_method(
        kind,
        f"de-s-{kind}",
        f"DE-S-{kind.upper()}∥",
        f"DE-S-{kind.upper()}∥: S-{kind.upper()}∥ with another anchor for each island, "
        "from a deep ensemble",
        {"island_weights": "equal"} if kind == "smc" else {},
        anchor_per_island=True,
    )
    for kind in ("hmc", "smc")
)
