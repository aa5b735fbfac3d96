"""A deep ensemble as a posterior: the mixture of its members, without sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sbmc.checks import is_whole, require
from sbmc.islands.cost import Cost
from sbmc.islands.island import IslandReport
from sbmc.likelihoods import Likelihood
from sbmc.model.parameters import ParameterSpace
from sbmc.posterior.posterior import Posterior

if TYPE_CHECKING:
    from sbmc.training import Ensemble


def ensemble_posterior(ensemble: Ensemble, likelihood: Likelihood, islands: int = 1) -> Posterior:
    """A deep ensemble as a posterior with equal weights, its members dealt out to islands in order.

    Members with buffers of their own (the running statistics of BatchNorm) keep them: the buffers
    are then part of the positions.
    """
    members = len(ensemble.positions)
    good = is_whole(islands) and islands >= 1 and members % islands == 0
    require(good, "islands", f"a divisor of the {members} members", islands)
    particles = members // islands
    space, positions = _with_buffers(ensemble)
    epochs = float(ensemble.epochs)
    reports = [IslandReport(i, "completed", epochs=epochs) for i in range(islands)]
    return Posterior(
        ensemble.member_with_noise(0),
        space,
        likelihood,
        positions.view(islands, particles, -1),
        log_evidence=torch.zeros(islands, dtype=torch.float64),
        islands=reports,
        cost=Cost(epochs, 0.0, 0.0, epochs * members, None),
        settings={"s": 0.0, "particles": particles, "islands": islands, "sampler": "ensemble"},
    )


def _with_buffers(ensemble: Ensemble) -> tuple[ParameterSpace, Tensor]:
    space, positions = ensemble.space, ensemble.positions
    first = ensemble.buffers[0]
    names = tuple(name for name, value in first.items() if value.is_floating_point())
    if not names:
        return space, positions
    extra = [
        torch.cat([buffers[name].reshape(-1) for name in names]) for buffers in ensemble.buffers
    ]
    wider = ParameterSpace(space.names + names, space.shapes + tuple(first[n].shape for n in names))
    return wider, torch.cat([positions, torch.stack(extra).to(positions.dtype)], dim=1)
