"""What an evaluation takes at least: floating-point operations and bytes, by formula.

Counted is one log likelihood and its gradient over all examples for all particles: every matrix
product of the forward pass once; in the backward pass the gradient of every sampled weight once,
and of every input of a layer below which there is something sampled. A multiplication and an
addition are two operations. Activations, softmax, biases and pooling are left out: they are few
beside the products. The inputs never change and are below everything sampled, so the first layer
has no input gradient. Where max pooling follows a convolution, one position in four has won, and
the weight's gradient has terms from the winners alone.

Bytes are the data once, for all particles together, and each particle's parameters in and gradient
out. Everything between them can stay in cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

FLOAT = 4  # bytes


class Operations(NamedTuple):
    """Of one evaluation of all particles over all examples."""

    flops: float
    bytes: float

    def seconds(self, flops_per_second: float, bytes_per_second: float) -> float:
        """The time that they take at least, if both rates can be had at once."""
        return max(self.flops / flops_per_second, self.bytes / bytes_per_second)


def linear(examples: int, particles: int, features: int, classes: int) -> Operations:
    """A linear head: logits, and the weight's gradient.

    Softmax only knows differences between classes: one class less will do.

    Example:
        >>> linear(25_000, 80, 768, 2).flops == 2 * (2 * 25_000 * 80 * 768)
        True
    """
    product = 2 * features * (classes - 1)
    dim = (features + 1) * classes
    return _total(examples, particles, 2 * product, features, dim)


def mlp(examples: int, particles: int, features: int, hidden: int, classes: int) -> Operations:
    """Two linear layers; the second passes a gradient to its inputs."""
    first, second = 2 * features * hidden, 2 * hidden * classes
    dim = (features + 1) * hidden + (hidden + 1) * classes
    return _total(examples, particles, 2 * first + 3 * second, features, dim)


def deep_mlp(examples: int, particles: int, widths: Sequence[int]) -> Operations:
    """Linear layers between these widths; all but the first pass a gradient to their inputs.

    Example:
        >>> deep_mlp(7, 2, (20, 64, 2)) == mlp(7, 2, 20, 64, 2)
        True
    """
    products = [2 * inputs * outputs for inputs, outputs in pairwise(widths)]
    dim = sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))
    return _total(examples, particles, 3 * sum(products) - products[0], widths[0], dim)


def cnn(examples: int, particles: int, *, side: int, channels: int, classes: int) -> Operations:
    """The MNIST7 network: 3 × 3 convolution of one channel, 2 × 2 max pooling, linear layer."""
    convolution = 2 * 9 * channels * side**2
    features = channels * (side // 2) ** 2
    head = 2 * features * classes
    dim = 10 * channels + (features + 1) * classes
    each = convolution + convolution // 4 + 3 * head
    return _total(examples, particles, each, side**2, dim)


def strided(examples: int, particles: int, *, side: int, classes: int) -> Operations:
    """Two 5 × 5 convolutions with stride 2 (3 → 8 → 16 channels), average pooling, linear layer."""
    first = 2 * 3 * 25 * 8 * (side // 2) ** 2
    second = 2 * 8 * 25 * 16 * (side // 4) ** 2
    features = 16 * (side // 8) ** 2
    head = 2 * features * classes
    dim = 8 * (3 * 25 + 1) + 16 * (8 * 25 + 1) + (features + 1) * classes
    return _total(examples, particles, 2 * first + 3 * second + 3 * head, 3 * side**2, dim)


def transformer(
    examples: int, particles: int, length: int, width: int, rank: int, classes: int
) -> Operations:
    """Two blocks with frozen weights and sampled adapters, and the sampled last layer.

    Frozen weights have no gradient of their own: two products for each, forward and to the inputs.
    The first block's frozen projections give the same for all particles, who share them; nothing
    that is sampled lies below them or below its keys.
    """
    project = 2 * length * width * width  # one frozen projection of an example
    attend = 2 * length * length * width  # scores, or their product with the values
    narrow = 2 * length * width * rank  # one of the two products of an adapter
    rest = 2 * project + 2 * 8 * project + 5 * attend
    # Adapters of queries and values: two products each, and their weights' gradients; gradients to
    # the inputs of both products, of which the first block needs those of the second alone.
    first = rest + 2 * (2 + 2 + 1) * narrow
    second = rest + attend + 2 * 3 * project + 2 * (2 + 2 + 2) * narrow
    each = first + second + 3 * 2 * width * classes
    dim = 2 * 4 * rank * width + (width + 1) * classes
    shared = 3 * project  # the first block's frozen projections
    total = _total(examples, particles, each, length * width, dim)
    return Operations(total.flops + examples * shared, total.bytes)


def _total(examples: int, particles: int, each: float, features: int, dim: int) -> Operations:
    moved = examples * features + 2 * particles * dim
    return Operations(float(examples * particles * each), float(FLOAT * moved))
