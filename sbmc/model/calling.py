"""Errors of a user's network on a user's data, in words that name what does not fit."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from sbmc.checks import BadInput, Phrase, require
from sbmc.model.data import Inputs, leaves
from sbmc.storage.arrays import has_values
from sbmc.storage.lazy_rows import LazyRows

# Layers by the attribute that says what they take: the axis that has it, and its name.
_WIDTHS = {
    "in_features": (-1, "feature"),
    "in_channels": (1, "channel"),
    "num_features": (1, "feature"),
}
# Inputs with more numbers are not tried as a single example.
_LARGEST_EXAMPLE = 10_000_000


@contextmanager
def errors_in_words(model: nn.Module, inputs: Inputs, name: str = "data inputs") -> Iterator[None]:
    """Turn an error of a network on some inputs into one that names what does not fit.

    Args:
        model: the network that is called inside.
        inputs: what the caller gave, of which the network may have been called with a part.
        name: what the caller knows the inputs as.

    Raises:
        BadInput: instead of any error of the network, which is its cause.

    Examples:
        >>> with errors_in_words(nn.Linear(3, 1), torch.ones(2, 5)):
        ...     nn.Linear(3, 1)(torch.ones(2, 5))
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `data inputs` must be what the model takes: its layer of type Linear \
takes 3 features, but got a tensor of shape (2, 5) and dtype torch.float32. Reshape them, or \
change the network.
    """
    try:
        yield
    except (BadInput, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise BadInput(_diagnosis(model, inputs, name)) from error


def _diagnosis(model: nn.Module, inputs: Inputs, name: str) -> str:
    """What most likely does not fit, as a message."""
    if "forward" not in _defined(type(model)) and "forward" not in vars(model):
        return (
            f"`model` must be a module with a forward, but got a {type(model).__name__}, which "
            "has none. Put its parts into an nn.Sequential, or write a forward."
        )
    shown = describe_inputs(inputs)
    if isinstance(inputs, dict | tuple) and (mismatch := _signature_mismatch(model, inputs)):
        return (
            f"`{name}` must be the arguments of the model's forward: {mismatch}, but got {shown}. "
            "A tuple gives arguments by position and a dict by keyword; wrap a network that takes "
            "them in another way in a module of your own."
        )
    if not isinstance(inputs, dict | tuple) and (mismatch := _signature_mismatch(model, (inputs,))):
        return (
            f"`{name}` must be the arguments of the model's forward: {mismatch}, but got {shown}. "
            "Several come as a tuple, or as a dict of keywords."
        )
    integers = [t for t in leaves(inputs) if not t.is_floating_point()]
    embeds = any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in model.modules())
    if integers and not embeds:
        remedy = "inputs.float()."
        if any(isinstance(t, LazyRows) for t in integers):
            remedy = "sbmc.datasets.rows_in_place(array, dtype=torch.float32), as they are read."
        return (
            f"`{name}` must be floating-point numbers for this model, but got {shown}. Convert "
            f"them: {remedy}"
        )
    if embeds and not integers:
        return (
            f"`{name}` must be integers for the model's embedding, but got {shown}. Convert them: "
            "inputs.long()."
        )
    if _lacks_example_axis(model, inputs):
        return (
            f"`{name}` must be tensors with an example axis, but got {shown}, which is "
            "a single example for the model. Give it an axis of its own: inputs[None]."
        )
    if width := _wrong_width(model, inputs):
        return (
            f"`{name}` must be what the model takes: {width}, but got {shown}. Reshape them, or "
            "change the network."
        )
    return (
        f"`model` must be a network that can be called with the inputs, but got an error in the "
        f"forward of {type(model).__name__} with {shown}. The error is above; model(inputs) shows "
        "it alone."
    )


def describe_inputs(inputs: Inputs) -> str:
    """Shapes and dtypes of inputs, in words."""

    def one(tensor: Tensor) -> str:
        return f"a tensor of shape {tuple(tensor.shape)} and dtype {tensor.dtype}"

    if isinstance(inputs, Tensor):
        return one(inputs)
    if isinstance(inputs, dict):
        return "a dict with " + ", ".join(f"{key!r}: {one(value)}" for key, value in inputs.items())
    return f"a tuple of {len(inputs)}: " + ", ".join(map(one, inputs))


def _signature_mismatch(model: nn.Module, inputs: dict[str, Tensor] | tuple[Tensor, ...]) -> str:
    """Why the inputs are not the arguments of `forward`; nothing if they are."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # code that was compiled has none
        return ""
    try:
        if isinstance(inputs, dict):
            signature.bind(**inputs)
        else:
            signature.bind(*inputs)
    except TypeError:
        return f"it takes {signature}".replace("torch.Tensor", "Tensor")
    return ""


def _lacks_example_axis(model: nn.Module, inputs: Inputs) -> bool:
    """Whether the inputs are one example, which the model takes once it has an axis."""
    if not isinstance(inputs, Tensor) or inputs.numel() > _LARGEST_EXAMPLE:
        return False
    try:
        with torch.no_grad():
            outputs = copy.deepcopy(model).eval()(inputs[None])
    except Exception:  # whatever the network meets with these inputs too
        return False
    return isinstance(outputs, Tensor) and outputs.ndim > 0 and len(outputs) == 1


def _wrong_width(model: nn.Module, inputs: Inputs) -> str:
    """Which layer takes another number of features than the inputs have, if it is the first."""
    if not isinstance(inputs, Tensor) or inputs.ndim < 2:
        return ""
    for layer in model.modules():
        for attribute, (axis, noun) in _WIDTHS.items():
            width = getattr(layer, attribute, None)
            if isinstance(width, int) and not isinstance(layer, nn.Bilinear):
                if inputs.ndim > 1 and inputs.shape[axis] == width:
                    return ""
                plural = "" if width == 1 else "s"
                return f"its layer of type {type(layer).__name__} takes {width} {noun}{plural}"
    return ""


def require_weights(model: nn.Module, name: str = "model") -> None:
    """Refuse a module whose weights are not there.

    Args:
        model: the module.
        name: what the caller knows it as.

    Raises:
        BadInput: it is lazy, or on the meta device.
    """
    lazy = next((weight for weight, each in model.named_parameters() if is_lazy(each)), None)
    require(lazy is None, name, "initialised (call it once)", Phrase(f"a lazy {lazy}"))
    if not all(map(has_values, model.parameters())):
        raise BadInput(
            f"`{name}` must be a network with weights, but got one on the meta device, which has "
            f"shapes alone. Move it with {name}.to_empty(device='cpu') and load its weights."
        )


def _defined(kind: type) -> set[str]:
    """Names that the classes of a module define below `nn.Module` itself."""
    return {name for each in kind.__mro__ if each not in nn.Module.__mro__ for name in vars(each)}


def require_rows(outputs: Tensor, inputs: Inputs) -> None:
    """Refuse outputs that are not one row for each example.

    Raises:
        BadInput: there are more rows, or fewer.
    """
    rows = len(leaves(inputs)[0])
    shape = Phrase(f"outputs of shape {tuple(outputs.shape)} for {rows} of them")
    good = outputs.ndim > 0 and len(outputs) == rows
    require(good, "model", "a module with a row of outputs for each example", shape)


def require_dependence(outputs: Tensor) -> None:
    """Refuse outputs of which torch knows no gradient.

    Raises:
        BadInput: they do not depend on the sampled parameters, as far as torch can see.
    """
    rule = "a network whose outputs depend on the sampled parameters"
    shown = (
        "outputs without a gradient: look for detach(), no_grad() or numpy in forward, or choose "
        "other `parameters`"
    )
    require(outputs.requires_grad, "model", rule, Phrase(shown))


def refuse_probabilities(
    outputs: Tensor,
    name: str = "model",
    remedy: str = 'Leave the softmax out; or say likelihood="categorical" if these are logits.',
) -> None:
    """Refuse outputs that are probabilities where logits are taken.

    Args:
        outputs: of the network, `(rows, classes)`.
        name: the argument that the network is.
        remedy: a sentence that says what to do.

    Raises:
        BadInput: no output is negative and those of each row sum to one.
    """
    sums = outputs.double().sum(-1)
    likely = bool((outputs >= 0).all()) and bool(torch.isclose(sums, torch.ones_like(sums)).all())
    # Float16 sums of many classes round by more than that, and are then taken for logits.
    if likely and outputs.ndim == 2 and outputs.shape[-1] > 1:
        raise BadInput(
            f"`{name}` must be a network that returns logits, but got outputs that sum to one, as "
            f"after a softmax, which would be taken twice. {remedy}"
        )
