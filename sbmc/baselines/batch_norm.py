"""Running statistics of BatchNorm for weights that were not trained with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import update_bn

from sbmc.model.data import Examples, Inputs
from sbmc.model.functional import call_model
from sbmc.model.parameters import ParameterSpace
from sbmc.training.module import training_mode, training_mode_layers


def has_running_statistics(model: nn.Module, space: ParameterSpace) -> bool:
    """Whether training `space` moves the running statistics of a BatchNorm layer."""
    return bool(_layers(model, space))


def refresh_statistics(
    module: nn.Module, space: ParameterSpace, examples: Examples, batch_size: int
) -> None:
    """Replace running statistics by means over one pass of the examples, as `update_bn` does.

    Averaged or sampled weights have no running statistics of their own (Izmailov et al., 2018).
    Layers that are frozen, and models without BatchNorm, are left as they are.

    Args:
        module: the network; its buffers are changed, and it is in evaluation mode afterwards.
        space: the parameters that were trained.
        examples: the training data.
        batch_size: examples in a batch.
    """
    layers = _layers(module, space)
    if not layers:
        return
    training_mode(module, space)
    update_bn(_batches(examples, batch_size), _Listed(layers, module))
    module.eval()


def _layers(model: nn.Module, space: ParameterSpace) -> list[nn.Module]:
    layers = (model.get_submodule(name) for name in _names(model, space))
    return [x for x in layers if isinstance(x, _BatchNorm) and x.track_running_stats]


def _names(model: nn.Module, space: ParameterSpace) -> list[str]:
    # A model that is itself a layer is named by its type.
    names = dict(model.named_modules())
    return [name if name in names else "" for name in training_mode_layers(model, space)]


def _batches(examples: Examples, size: int) -> Iterator[list[Inputs]]:
    for start in range(0, len(examples), size):
        yield [examples.slice(start, start + size)[0]]


class _Listed(nn.Module):
    """Calls the entire network, but has only the layers to be refreshed as its modules."""

    def __init__(self, layers: list[nn.Module], network: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self._network = [network]  # in a list, which hides it from `modules()`

    @torch.no_grad()
    def forward(self, inputs: Any) -> None:
        call_model(self._network[0], {}, inputs)
