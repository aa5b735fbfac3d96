"""The network of an estimator: hidden layers, or a module of the user's own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, is_whole, require
from sbmc.estimators.defaults import ACTIVATION
from sbmc.model.calling import require_weights

Module = nn.Module | Callable[[int, int], nn.Module]


def hidden_network(inputs: int, outputs: int, hidden_layers: Sequence[int]) -> nn.Sequential:
    """Linear layers with activations between them.

    Args:
        inputs: columns of the table.
        outputs: of the network.
        hidden_layers: the width of each; none gives a linear model.

    Returns:
        The network.

    Raises:
        BadInput: a width is not a positive integer.

    Examples:
        >>> len(hidden_network(5, 1, (16, 16)))
        5
    """
    good = isinstance(hidden_layers, (Sequence, torch.Size)) or hasattr(hidden_layers, "tolist")
    good = good and not isinstance(hidden_layers, str) and getattr(hidden_layers, "ndim", 1) == 1
    rule = "a sequence of positive integers, the width of each layer"
    require(
        good and all(is_whole(w) and w > 0 for w in hidden_layers),
        "hidden_layers",
        rule,
        hidden_layers,
    )
    widths = [inputs, *map(int, hidden_layers)]
    layers: list[nn.Module] = []
    for width, wider in pairwise(widths):
        layers += [nn.Linear(width, wider), ACTIVATION()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


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
            return hidden_network(columns, outputs, hidden_layers)
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
