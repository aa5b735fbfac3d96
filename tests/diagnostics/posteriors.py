"""Posteriors whose draws are known, for the tests of diagnostics."""

from __future__ import annotations

import torch
from torch import nn

from sbmc.islands.cost import Cost
from sbmc.islands.island import IslandReport
from sbmc.likelihoods import Categorical
from sbmc.model.parameters import select_parameters
from sbmc.posterior.posterior import Posterior


def make_net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 3)).double()


def posterior_of(values, **options):
    """A posterior with `values` `(islands, chains, draws, dim)`, stored as `fit` stores them."""
    islands, chains, draws, _ = values.shape
    # Draw after draw, each with all particles: what `torch.cat(run.draws)` makes.
    positions = torch.stack(
        [torch.cat([values[i, :, d] for d in range(draws)]) for i in range(islands)]
    )
    net = make_net()
    settings = {"particles": chains, "sampler_settings": {"draws": draws}, "start": "anchor"}
    settings |= options.pop("settings", {})
    reports = [
        IslandReport(i, "completed", epochs=9.0, acceptance=0.5 + 0.1 * i, step_size=0.01 * (i + 1))
        for i in range(islands)
    ]
    return Posterior(
        net,
        select_parameters(net),
        options.pop("likelihood", Categorical()),
        positions,
        log_evidence=options.pop("log_evidence", torch.zeros(islands, dtype=torch.float64)),
        islands=options.pop("reports", reports),
        cost=Cost(9.0, 0.0, 5.0, 100.0, 1.0),
        settings=settings,
        **options,
    )


def normal_values(islands, chains, draws, seed=0, dim=17):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(islands, chains, draws, dim, generator=rng, dtype=torch.float64)
