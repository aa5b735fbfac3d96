"""Identifies a run by digests, for its checkpoint and for merging parts of one run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import sbmc
from sbmc.islands.checkpoints.manifest import CODE
from sbmc.islands.island import Start, StartAtMembers
from sbmc.likelihoods import Likelihood
from sbmc.model.data import Examples
from sbmc.model.kernels import native
from sbmc.model.kernels.choice import COMPILED
from sbmc.model.kernels.native import planes, steps
from sbmc.model.kernels.native.build import code_of
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
        "data": examples.identity(),
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


def compiled_code(
    kernel: str | None, model: nn.Module, like: Tensor, sampler_settings: dict[str, Any]
) -> str | None:
    """Which compiled code a run uses; None for torch alone.

    Args:
        kernel: the name of the engine's kernel.
        model: the network, whose first convolution may be in C where the kernel is not.
        like: a tensor of the run's dtype and device.
        sampler_settings: samplers on mini-batches have `noise`, and make their steps in C.

    Returns:
        Its origin, instruction set, compiler and digest, such as
        `"shipped x86-64-v3, zig 0.17.0, 0123456789ab"`.
    """
    if kernel in COMPILED:
        return code_of(kernel)
    in_c = like.device.type == "cpu" and like.dtype == torch.float32
    convolutions = any(isinstance(layer, nn.Conv2d) for layer in model.modules())
    if in_c and convolutions and native.available():
        return code_of(planes.SOURCE.stem)
    if in_c and "noise" in sampler_settings and steps.available():
        return code_of(steps.SOURCE.stem)
    return None


def comparable(posterior: Posterior) -> dict[str, Any]:
    """Settings and identity, in which two posteriors must agree to be merged."""
    aside = {*DIVISIBLE, *EXPLANATIONS, CODE}
    return {name: value for name, value in posterior.settings.items() if name not in aside}
