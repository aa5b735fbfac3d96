"""Write a network with BatchNorm in terms of the running statistics of another one.

Samplers have one set of buffers for all particles, those of the network that was given. In
evaluation mode a normalisation layer is affine,

    y = γ (x − μ) / σ + β,   with σ² = variance + ε,

so that a network with running statistics μ', σ' of its own is also one with those of another,
μ and σ, and with the gains and shifts

    γ'' = γ' σ / σ',   β'' = β' + γ' (μ − μ') / σ'.

The functions are the same; only the coordinates differ.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from sbmc.model.parameters import ParameterSpace
from sbmc.training.module import training_mode_layers


def can_share_statistics(model: nn.Module, space: ParameterSpace) -> bool:
    """Whether every layer whose training moves buffers has a gain and a shift that are sampled."""
    modules = dict(model.named_modules())
    for name in training_mode_layers(model, space):
        # A model that is itself a layer is named by its type.
        layer = modules.get(name, model)
        keeps_buffers = next(layer.buffers(recurse=False), None) is not None
        if keeps_buffers and not _can_be_rewritten(name if name in modules else "", layer, space):
            return False
    return True


def with_statistics_of(reference: nn.Module, model: nn.Module) -> nn.Module:
    """The same function in evaluation mode, with the running statistics of another network.

    Args:
        reference: has the statistics.
        model: of the same architecture; it is not changed.

    Returns:
        A copy in evaluation mode, whose normalisation layers have other gains and shifts.
    """
    rewritten = copy.deepcopy(model).eval()
    theirs = dict(reference.named_modules())
    for name, layer in rewritten.named_modules():
        if isinstance(layer, _BatchNorm | _InstanceNorm) and layer.running_var is not None:
            _rewrite(layer, theirs[name])
    return rewritten


def _can_be_rewritten(name: str, layer: nn.Module, space: ParameterSpace) -> bool:
    if not isinstance(layer, _BatchNorm | _InstanceNorm):
        return False
    prefix = f"{name}." if name else ""
    return layer.affine and {f"{prefix}weight", f"{prefix}bias"} <= set(space.names)


def _rewrite(layer: Any, other: nn.Module) -> None:
    mean, spread = _statistics(layer)
    their_mean, their_spread = _statistics(other)
    with torch.no_grad():
        gain = layer.weight.double()
        layer.bias.copy_(layer.bias + gain * (their_mean - mean) / spread)
        layer.weight.copy_(gain * their_spread / spread)
        for name, buffer in layer.named_buffers(recurse=False):
            buffer.copy_(other.get_buffer(name))


def _statistics(layer: Any) -> tuple[Tensor, Tensor]:
    """Running mean μ and spread σ, float64."""
    return layer.running_mean.double(), (layer.running_var.double() + layer.eps).sqrt()
