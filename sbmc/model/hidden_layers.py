"""Networks of linear layers with activations between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from sbmc.checks import is_whole, require


def hidden_network(
    inputs: int,
    outputs: int,
    hidden_layers: Sequence[int],
    activation: type[nn.Module] = nn.ReLU,
) -> nn.Sequential:
    """Linear layers with activations between them.

    Args:
        inputs: how many numbers a row has.
        outputs: of the network.
        hidden_layers: the width of each; none gives a linear model.
        activation: the class of what stands between the layers.

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
        layers += [nn.Linear(width, wider), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))
