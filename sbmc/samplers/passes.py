"""One pass over the data in mini-batches, from examples at hand or from a stream."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from itertools import islice

import torch
from torch import Tensor

from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.orders import BatchesInOrder, draw_orders
from sbmc.target.minibatch import MiniBatches
from sbmc.target.target import Evaluation

# positions (particles, dim) -> estimates of log likelihood and gradient
Estimate = Callable[[Tensor], Evaluation]


def draw_order(rng: IslandNoise, batches: MiniBatches) -> Tensor:
    """An order of the examples for each particle, or one for all that share a stream."""
    return draw_orders(rng if batches.stream is None else rng.shared(), len(batches))


def draw_seed(rng: IslandNoise, batches: MiniBatches) -> int:
    """The seed of what is random in a stream, which one island reads; 0 without a stream."""
    if batches.stream is None:
        return 0
    (generator,) = rng.generators
    return int(torch.randint(2**62, (1,), generator=generator))


def estimates_of_pass(
    batches: MiniBatches,
    parts: BatchesInOrder,
    size: int,
    *,
    seed: int,
    done: int,
    backwards: bool = False,
) -> Generator[Estimate, None, None]:
    """The estimates of one pass, a batch after another.

    Args:
        batches: evaluate mini-batches.
        parts: the examples of each; `(particles, batch)`, or `(1, batch)` of a stream.
        size: examples per batch.
        seed: of a stream.
        done: batches that are left out, since an earlier process has made their steps.
        backwards: whether the last batch comes first.
    """
    numbers = range(len(parts))[::-1] if backwards else range(len(parts))
    if batches.stream is None:
        for number in numbers[done:]:
            yield partial(batches, index=parts[number])
        return
    # A stream may have an order of its own, and its rows are checked: it is read from its start.
    order = (parts[number] for number in numbers)
    for batch in islice(batches.stream.read_pass(order, size, seed), done, None):
        yield partial(batches.shared, batch=batch)
