"""The network of an estimator: hidden layers, or a module of the user's own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, require
from sbmc.estimators.defaults import ACTIVATION
from sbmc.model.calling import require_weights
from sbmc.model.hidden_layers import hidden_network

Module = nn.Module | Callable[[int, int], nn.Module]


def make_network(
    module: Module | None,
    hidden_layers: Sequence[int],
    inputs: Tensor,
    outputs: int,
    seed: int,
) -> nn.Module:
    """The network to train, whose weights are drawn with a seed where they are drawn here.

    Args:
        module: a module, which is copied and starts at its own weights; a callable
            `(n_inputs, n_outputs) -> nn.Module`; or None for hidden layers.
        hidden_layers: the widths.
        inputs: rows of the table, `(rows, columns)`, to try the network on.
        outputs: how many the likelihood asks for.
        seed: of the weights.

    Returns:
        The network.

    Raises:
        BadInput: `module` is neither, its outputs have another shape, or it fails in float64.
    """
    columns = inputs.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if module is None:
            return hidden_network(columns, outputs, hidden_layers, ACTIVATION)
        if isinstance(module, nn.Module):
            network: Any = copy.deepcopy(module)
        else:
            rule = "an nn.Module, or a callable (n_inputs, n_outputs) that makes one"
            require(callable(module), "module", rule, module)
            try:
                network = module(columns, outputs)
            except Exception as error:  # whatever a user's function meets
                raise BadInput(
                    f"`module` must be {rule}, but got a callable that fails. The error is above."
                ) from error
            require(isinstance(network, nn.Module), "module", rule, network)
    require_weights(network)
    rule = f"a network from {columns} columns to {outputs} outputs, in float32 and float64"
    few = inputs[:2]
    for dtype in (torch.float32, torch.float64):  # it is trained in one, and predicts in the other
        try:
            with torch.no_grad():
                found = copy.deepcopy(network).to(dtype).eval()(few.to(dtype))
        except Exception as error:  # whatever a user's network meets
            raise BadInput(
                f"`module` must be {rule}, but got one that fails in {dtype}. The error is above."
            ) from error
        require(isinstance(found, Tensor), "module", rule, found)
        good = found.shape == (len(few), outputs) and found.is_floating_point()
        got = Phrase(f"outputs of shape {tuple(found.shape)} and dtype {found.dtype}")
        require(good, "module", rule, got)
    return network
