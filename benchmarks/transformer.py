"""A small transformer whose last layer and low-rank adapters are sampled; the rest is frozen.

Two blocks of attention and an inner layer, both on normalised inputs, as in GPT-2 but without a
mask; the mean over the tokens goes through the last layer. The adapters (LoRA) add a product of two
narrow matrices to the query and value projections of both blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BLOCKS = 2
ADAPTERS = ("down_q", "up_q", "down_v", "up_v")


def transform(
    sampled: Sequence[Tensor], ids: Tensor, frozen: Mapping[str, Tensor], heads: int
) -> Tensor:
    """Logits `(examples, classes)` of token ids `(examples, length)`.

    Args:
        sampled: four adapters of each block, then weight and bias of the last layer.
        ids: the tokens.
        frozen: the other weights, by name.
        heads: of attention.
    """
    hidden = frozen["tokens"][ids] + frozen["places"]
    examples, length, width = hidden.shape

    def split(x: Tensor) -> Tensor:
        return x.view(examples, length, heads, width // heads).transpose(1, 2)

    for block in range(BLOCKS):
        down_q, up_q, down_v, up_v = sampled[4 * block : 4 * block + 4]
        normal = F.layer_norm(hidden, (width,))
        q, k, v = F.linear(normal, frozen[f"{block}.qkv"]).chunk(3, -1)
        q = split(q + F.linear(F.linear(normal, down_q), up_q))
        v = split(v + F.linear(F.linear(normal, down_v), up_v))
        scores = (q @ split(k).transpose(-1, -2) / (width // heads) ** 0.5).softmax(-1)
        mixed = (scores @ v).transpose(1, 2).reshape(examples, length, width)
        hidden = hidden + F.linear(mixed, frozen[f"{block}.out"])
        inner = F.gelu(F.linear(F.layer_norm(hidden, (width,)), frozen[f"{block}.up"]))
        hidden = hidden + F.linear(inner, frozen[f"{block}.down"])
    return F.linear(F.layer_norm(hidden, (width,)).mean(1), sampled[-2], sampled[-1])


class Transformer(nn.Module):
    """The same as a module: frozen weights are buffers, sampled ones its parameters.

    Args:
        vocabulary: number of different tokens.
        length: tokens of an example.
        width: of the hidden layers.
        rank: of the adapters.
        classes: number of outputs.
        heads: of attention.
    """

    def __init__(
        self, vocabulary: int, length: int, width: int, rank: int, classes: int, heads: int
    ) -> None:
        super().__init__()
        self.heads = heads
        shapes = {"tokens": (vocabulary, width), "places": (length, width)}
        for block in range(BLOCKS):
            shapes |= {
                f"{block}.qkv": (3 * width, width),
                f"{block}.out": (width, width),
                f"{block}.up": (4 * width, width),
                f"{block}.down": (width, 4 * width),
            }
        self._names = list(shapes)
        for name, shape in shapes.items():
            self.register_buffer(_attribute(name), torch.randn(shape) / width**0.5)
        for block in range(BLOCKS):
            for name in ADAPTERS:
                shape = (rank, width) if name.startswith("down") else (width, rank)
                value = nn.Parameter(torch.randn(shape) / width**0.5)
                self.register_parameter(f"block{block}_{name}", value)
        self.last = nn.Linear(width, classes)

    def frozen(self) -> dict[str, Tensor]:
        """The weights that are not sampled."""
        return {name: getattr(self, _attribute(name)) for name in self._names}

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of token ids."""
        adapters = [
            getattr(self, f"block{block}_{name}") for block in range(BLOCKS) for name in ADAPTERS
        ]
        sampled = [*adapters, self.last.weight, self.last.bias]
        return transform(sampled, ids, self.frozen(), self.heads)


def _attribute(name: str) -> str:
    """Names of buffers hold no dots."""
    return "frozen_" + name.replace(".", "_")
