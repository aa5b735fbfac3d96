"""The orders in which particles go through the data, of any length.

Up to `MOST_HELD` examples, a particle's order is a permutation that is drawn and held. A longer one
would take gigabytes for a few particles. It is computed as it is used, by a Feistel network: the
number i = (l, r) of two halves of h bits goes through rounds

    (l, r) ← (r, l ⊕ f(r, key))

which are a permutation of 0 ... 2^{2h} − 1 whatever f is. What is not below the number of examples
goes through the rounds again, until it is (cycle walking), so that the examples are permuted among
themselves. The keys, one a round, are all that a particle holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

from sbmc.samplers.noise import IslandNoise

# By the examples alone, so that an island's noise does not depend on which others run with it.
MOST_HELD = 2**21
ROUNDS = 6
_MIX = 0x2545F4914F6CDD1D


def draw_orders(rng: IslandNoise, count: int) -> Tensor:
    """An order of `count` examples for each particle.

    Args:
        rng: the islands' noise.
        count: the number of examples.

    Returns:
        Permutations `(particles, count)`, or keys `(particles, ROUNDS)` if there are many examples.
    """
    return rng.permutations(count) if count <= MOST_HELD else rng.keys(ROUNDS)


class BatchesInOrder(Sequence[Tensor]):
    """The mini-batches of one pass, each particle's in its own order; the last may be short.

    Args:
        orders: from `draw_orders`.
        count: the number of examples.
        size: examples per batch.

    Examples:
        >>> batches = BatchesInOrder(torch.tensor([[2, 0, 1]]), 3, 2)
        >>> [batch.tolist() for batch in batches]
        [[[2, 0]], [[1]]]
    """

    def __init__(self, orders: Tensor, count: int, size: int) -> None:
        self._orders, self._count, self._size = orders, count, size

    def __len__(self) -> int:
        return -(-self._count // self._size)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | Sequence[Tensor]:
        """The examples of a batch, `(particles, examples)`."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        start = range(len(self))[index] * self._size
        stop = min(start + self._size, self._count)
        if self._count <= MOST_HELD:
            return self._orders[:, start:stop]
        places = torch.arange(start, stop, device=self._orders.device)
        return permuted(self._orders, places, self._count)


def permuted(keys: Tensor, places: Tensor, count: int) -> Tensor:
    """Which examples are at some places of each particle's order.

    Args:
        keys: `(particles, rounds)` int64.
        places: `(places,)`, each from 0 to `count` − 1.
        count: the number of examples.

    Returns:
        `(particles, places)` int64; over all places, every example once.

    Examples:
        >>> keys = torch.tensor([[3, 1, 4, 1, 5, 9]])
        >>> sorted(permuted(keys, torch.arange(5), 5)[0].tolist())
        [0, 1, 2, 3, 4]
    """
    half = max(1, -(-(count - 1).bit_length() // 2))
    values = places.expand(len(keys), -1)
    values = _rounds(keys, values, half)
    while bool((outside := values >= count).any()):
        values = torch.where(outside, _rounds(keys, values, half), values)
    return values


def _rounds(keys: Tensor, values: Tensor, half: int) -> Tensor:
    mask = (1 << half) - 1
    left, right = values >> half, values & mask
    for key in keys.unbind(1):
        left, right = right, left ^ (_mixed(right + key.unsqueeze(1)) & mask)
    return left << half | right


def _mixed(values: Tensor) -> Tensor:
    """A hash of 64-bit integers, whose low bits depend on all bits of the value."""
    for _ in range(2):
        values = (values ^ (values >> 29)) * _MIX
    return values ^ (values >> 32)
