"""Which parameters are sampled, and how a flat vector maps to named tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, describe_value, require
from sbmc.model.calling import require_weights

Selection = str | Callable[[str], bool]


@dataclass(frozen=True)
class ParameterSpace:
    """An ordered set of named parameters, and the flat vectors that stand for their values.

    Args:
        names: the parameters' names in the model, in the order of the flat vector.
        shapes: their shapes.
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of elements of each parameter."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def dim(self) -> int:
        """Length of the flat vector."""
        return sum(self.sizes)

    def flatten(self, model: nn.Module) -> Tensor:
        """The model's current values as a `(dim,)` vector (a copy)."""
        tensors = named_tensors(model)
        return torch.cat([tensors[name].detach().reshape(-1) for name in self.names])

    def split(self, theta: Tensor) -> dict[str, Tensor]:
        """Named views `(..., *shape)` of flat vectors `(..., dim)`."""
        parts = theta.split(self.sizes, dim=-1)
        return {
            name: part.reshape((*theta.shape[:-1], *shape))
            for name, part, shape in zip(self.names, parts, self.shapes, strict=True)
        }

    def write(self, theta: Tensor, model: nn.Module) -> None:
        """Copy one flat vector `(dim,)` into the model's parameters."""
        tensors = named_tensors(model)
        with torch.no_grad():
            for name, value in self.split(theta).items():
                tensors[name].copy_(value)


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name: members of an ensemble may differ in either."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def select_parameters(model: nn.Module, parameters: Selection = "all") -> ParameterSpace:
    """Choose the parameters to sample among the trainable ones.

    Args:
        model: the network.
        parameters: `"all"`; `"last"`, the final layer; a regular expression, searched for in the
            names; or a predicate on names.

    Returns:
        The chosen parameters' space.

    Raises:
        BadInput: nothing is trainable, nothing matches, or a weight is not finite.

    Examples:
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> select_parameters(net, "last").names
        ('2.weight', '2.bias')
    """
    require(isinstance(model, nn.Module), "model", "a torch.nn.Module", model)
    require_weights(model)
    trainable = {n: p for n, p in model.named_parameters() if p.requires_grad}
    rule = "a module with trainable parameters"
    require(bool(trainable), "model", rule, Phrase("none that require grad"))
    for name, parameter in model.named_parameters():
        finite = bool(torch.isfinite(parameter).all())
        require(finite, "model", "of finite weights", Phrase(f"NaN or infinity in {name}"))
    names = _matching(parameters, trainable)
    require(
        bool(names),
        "parameters",
        f"a selection that matches a trainable parameter (such as {next(iter(trainable))!r})",
        parameters,
    )
    for name in names:
        kind = Phrase(f"{trainable[name].dtype} in {name}")
        require(trainable[name].is_floating_point(), "parameters", "real floating point", kind)
    return ParameterSpace(tuple(names), tuple(trainable[n].shape for n in names))


def _matching(parameters: Selection, trainable: dict[str, nn.Parameter]) -> list[str]:
    rule = "'all', 'last', a regular expression or a predicate on names"
    if callable(parameters) and not isinstance(parameters, type | nn.Module):
        try:
            return [name for name in trainable if parameters(name)]
        except Exception as error:
            failed = Phrase(f"a function that fails for {next(iter(trainable))!r}")
            raise BadInput(f"`parameters` must be {rule}, but got {failed}.") from error
    require(isinstance(parameters, str), "parameters", rule, parameters)
    assert isinstance(parameters, str)
    if parameters == "all":
        return list(trainable)
    if parameters == "last":
        layer = next(reversed(trainable)).rpartition(".")[0]
        return [name for name in trainable if name.rpartition(".")[0] == layer]
    try:
        pattern = re.compile(parameters)
    except re.error as error:
        shown = describe_value(parameters)
        raise BadInput(f"`parameters` must be {rule}, but got {shown} ({error}).") from None
    return [name for name in trainable if pattern.search(name)]
