"""The networks of the studies, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from sbmc.checks import BadInput, nearest, require
from sbmc.datasets import DataBundle
from sbmc.language.lora import RANK, LoraHead


def paper_cnn(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Build the paper's small convolutional network.

    One hidden layer of four 3 × 3 kernels with unit stride and padding, ReLU, 2 × 2 max pooling, a
    linear layer (paper, appendix "MNIST7 Classification Example"). On 28 × 28 inputs and eight
    classes it has the paper's d = 6,320 parameters. The softmax is the likelihood's affair.

    Args:
        input_shape: `(channels, height, width)` of one input, height and width even.
        classes: number of outputs.

    Returns:
        The network, with torch's own initial weights.

    Raises:
        BadInput: if the shape is not that of an image, or there is no class.

    Examples:
        >>> network = paper_cnn((1, 28, 28), 8)
        >>> sum(parameter.numel() for parameter in network.parameters())
        6320
    """
    is_image = len(input_shape) == 3 and all(size >= 1 for size in input_shape)
    require(is_image, "input_shape", "(channels, height, width)", tuple(input_shape))
    channels, height, width = input_shape
    require(height % 2 == 0 == width % 2, "input_shape", "of even height and width", input_shape)
    require(classes >= 1, "classes", "positive", classes)
    return nn.Sequential(
        nn.Conv2d(channels, 4, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * (height // 2) * (width // 2), classes),
    )


def linear_head(input_shape: tuple[int, ...], classes: int) -> nn.Linear:
    """Build one linear layer with a bias: the head on features of a frozen network.

    The paper's for IMDb (768 → 2, d = 1,538) and for CIFAR-10 (2,048 → 10, d = 20,490). It speaks
    of a ReLU before the layer; embeddings with negative values would lose by it, and features after
    a ReLU would not change, so there is none.

    Args:
        input_shape: `(features,)` of one input.
        classes: number of outputs.

    Returns:
        The layer, with torch's own initial weights.

    Raises:
        BadInput: if the inputs are no vectors, or there is no class.

    Examples:
        >>> sum(parameter.numel() for parameter in linear_head((768,), 2).parameters())
        1538
    """
    is_vector = len(input_shape) == 1 and input_shape[0] >= 1
    require(is_vector, "input_shape", "(features,)", tuple(input_shape))
    require(classes >= 1, "classes", "positive", classes)
    return nn.Linear(input_shape[0], classes)


def lora_head(
    input_shape: tuple[int, ...], classes: int, frozen: Mapping[str, Tensor] | None = None
) -> nn.Module:
    """Build a rank-50 adjustment of a language model's own output layer, which stays frozen.

    On 576 features and 2,500 classes it has 50 · (576 + 2,500) = 153,800 parameters.

    Args:
        input_shape: `(features,)` of one input.
        classes: number of outputs.
        frozen: `output`, the model's own output layer, `(classes, features)`.

    Returns:
        The layer, A random and B zero, so that it begins as the model's own; of lower rank where
        there are fewer features or classes.

    Raises:
        BadInput: if the frozen layer is missing or of another shape.
    """
    base = (frozen or {}).get("output")
    rule = f"one with a frozen output layer of shape {(classes, *input_shape)}"
    shape = None if base is None else tuple(base.shape)
    require(shape == (classes, *input_shape), "data", rule, shape)
    assert base is not None
    return LoraHead(base, min(RANK, *base.shape))


NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "cnn": paper_cnn,
    "linear": linear_head,
    "lora-head": lora_head,
}
# Those that are built around tensors of the data set.
_AROUND_FROZEN = ("lora-head",)


def build_network(
    name: str,
    input_shape: tuple[int, ...],
    classes: int,
    frozen: Mapping[str, Tensor] | None = None,
) -> nn.Module:
    """Build a network by its name in a study's configuration.

    Args:
        name: a key of `NETWORKS`.
        input_shape: the shape of one input.
        classes: number of outputs.
        frozen: the data set's tensors that a network may be built around.

    Returns:
        The untrained network.

    Raises:
        BadInput: if there is no such network.
    """
    if name not in NETWORKS:
        known = ", ".join(sorted(NETWORKS))
        raise BadInput(
            f"`network` must be one of {known}, but got {name!r}.{nearest(name, NETWORKS)}"
        )
    if name in _AROUND_FROZEN:
        return NETWORKS[name](input_shape, classes, frozen)
    return NETWORKS[name](input_shape, classes)


def untrained_network(settings: Mapping[str, Any], data: DataBundle) -> nn.Module:
    """Build the network of a run for the shapes of its data.

    Args:
        settings: resolved settings; `network` is its name.
        data: the data set.

    Returns:
        The untrained network.

    Raises:
        BadInput: if there is no such network, or it does not fit the data.
    """
    shape = tuple(data.train[0].shape[1:])
    return build_network(settings["network"], shape, data.classes, data.frozen)
