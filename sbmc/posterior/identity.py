"""Identifies a run by digests, for its checkpoint and for merging parts of one run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import sbmc
from sbmc.islands.island import Start, StartAtMembers
from sbmc.likelihoods import Likelihood
from sbmc.model.data import Examples
from sbmc.model.kernels import native
from sbmc.model.parameters import ParameterSpace
from sbmc.posterior.origin import fingerprint
from sbmc.posterior.posterior import Posterior
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.storage.digests import DIGITS, digest

# Settings in which two parts of one run may differ: which islands they have.
DIVISIBLE = ("islands", "first_island")
# Settings that only explain a choice; runs are not compared by them.
EXPLANATIONS = (
    "kernel_reason",
    "path_reason",
    "frozen_below",
    "likelihood_reason",
    "settling",
)


def identify(
    model: nn.Module,
    space: ParameterSpace,
    likelihood: Likelihood,
    anchors: Tensor,
    prior: AnchoredPrior,
    examples: Examples,
    start: Start,
) -> dict[str, Any]:
    """Digests of what islands must have in common to be parts of one posterior.

    Args:
        model: the network; only its weights that are not sampled count.
        space: the sampled parameters.
        likelihood: of its outputs.
        anchors: `(anchors, dim)`.
        prior: around the first of them.
        examples: the data.
        start: where particles begin.

    Returns:
        Digests by name.
    """
    members = start.members if isinstance(start, StartAtMembers) else None
    return {
        "model": fingerprint(model, space)[:DIGITS],
        "parameters": list(space.names),
        "likelihood": likelihood.describe(),
        "anchor": digest(anchors),
        "prior": digest(prior.mean, prior.scale),
        "data": digest(examples.inputs, examples.targets),
        "start": "" if members is None else digest(members),
    }


def software(model: nn.Module) -> dict[str, Any]:
    """What the last bits depend on besides: versions, and whether the C code is used."""
    convolutions = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    return {
        "sbmc": sbmc.__version__,
        "torch": torch.__version__.partition("+")[0],
        "native": bool(convolutions) and native.available(),
    }


def comparable(posterior: Posterior) -> dict[str, Any]:
    """Settings and identity, in which two posteriors must agree to be merged."""
    aside = {*DIVISIBLE, *EXPLANATIONS}
    return {name: value for name, value in posterior.settings.items() if name not in aside}
