"""Members trained one at a time, the module in training mode: BatchNorm, dropout and the like.

The batched paths run a model in evaluation mode, as samplers need it. Where that is another
function than the one to be trained, the module itself is called, by plain autograd.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from sbmc.model.data import Inputs, tree_map
from sbmc.model.functional import call_model
from sbmc.model.parameters import ParameterSpace


def training_mode_layers(model: nn.Module, space: ParameterSpace) -> list[str]:
    """Name the layers for which training mode is another function than evaluation mode.

    In a partly frozen model, the frozen part is a fixed feature map in evaluation mode: only
    normalisation layers whose own parameters are trained count, and dropout does not.

    Args:
        model: the network.
        space: the parameters to be trained.

    Returns:
        The names; empty if members can be trained in one batch. Functional dropout
        (`F.dropout(x, training=self.training)`) leaves no trace in the modules and is not found.
    """
    trained = set(space.names)
    whole = trained == {name for name, _ in model.named_parameters()}
    found = []
    for name, module in model.named_modules():
        own = {
            f"{name}.{key}" if name else key for key, _ in module.named_parameters(recurse=False)
        }
        if _differs(module) and (whole or own & trained):
            found.append(name or type(module).__name__)
    return found


def _differs(module: nn.Module) -> bool:
    if isinstance(module, _InstanceNorm):
        return module.track_running_stats
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, nn.RNNBase | nn.MultiheadAttention):
        return module.dropout > 0
    return isinstance(module, _BatchNorm | nn.RReLU)


def training_mode(module: nn.Module, space: ParameterSpace) -> None:
    """Put a module into training mode, but for its normalisation layers that are frozen.

    Args:
        module: the network; its mode is changed.
        space: the parameters to be trained.
    """
    module.train()
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm | _InstanceNorm) and _is_frozen(name, layer, space):
            layer.eval()


class ModuleForward:
    """One member's outputs with the module in training mode, its buffers moving as they do there.

    Args:
        model: the network; a copy is trained, the module itself is not touched.
        space: the parameters to be trained.
    """

    def __init__(self, model: nn.Module, space: ParameterSpace) -> None:
        self.space = space
        self._module = copy.deepcopy(model).requires_grad_(False)
        self._best = self._buffers()

    def learn(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs `(1, examples, ...)` in training mode for `theta` `(1, dim)`; inputs stacked."""
        training_mode(self._module, self.space)
        batch = tree_map(lambda t: t[0], inputs)
        return call_model(self._module, self.space.split(theta[0]), batch).unsqueeze(0)

    def evaluate(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs `(1, examples, ...)` in evaluation mode for `theta` `(1, dim)`."""
        self._module.eval()
        return call_model(self._module, self.space.split(theta[0]), inputs).unsqueeze(0)

    def keep(self) -> None:
        """Remember the buffers of now as those of the best epoch."""
        self._best = self._buffers()

    @property
    def best_buffers(self) -> dict[str, Tensor]:
        """The buffers that belong to the weights that were kept."""
        return self._best

    def _buffers(self) -> dict[str, Tensor]:
        return {name: buffer.clone() for name, buffer in self._module.named_buffers()}


def _is_frozen(name: str, module: nn.Module, space: ParameterSpace) -> bool:
    own = [f"{name}.{key}" if name else key for key, _ in module.named_parameters(recurse=False)]
    return bool(own) and not set(own) & set(space.names)


@contextmanager
def seeded(noise: torch.Generator, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators inside the block, and restore them after it.

    Layers such as dropout take no generator: this is the one place where the global ones are used.
    """
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(noise.initial_seed())
        yield
