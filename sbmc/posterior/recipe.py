"""What a file needs beside its particles to be of use alone: the network, and how data are read."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, require
from sbmc.model.hidden_layers import hidden_network
from sbmc.posterior.units import Units, with_input_units

# Ways in which a file may have its network.
LAYERS, EXPORTED, REFERENCE = "layers", "exported", "reference"
ACTIVATIONS: dict[str, type[nn.Module]] = {"ReLU": nn.ReLU}
# The tensor of a file that has the bytes of an exported network.
GRAPH = "recipe.graph"
PARTS = ("network", "data")


@dataclass(frozen=True)
class Recipe:
    """How to make a network and its inputs again; `sbmc fit` stores it in a posterior's file.

    Attributes:
        network: plain values. Their `kind` is `"layers"`, for linear layers on standardised
            columns; `"exported"`, for a graph of `torch.export`; or `"reference"`, for code, of
            which only a name and a digest are stored.
        data: plain values that say how inputs are read; the commands' own.
        graph: the bytes of an exported network, `(bytes,)` uint8; None for others.
    """

    network: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict)
    graph: Tensor | None = None

    @property
    def kind(self) -> str:
        """How the file has its network."""
        return str(self.network["kind"])

    def build_network(self) -> nn.Module | None:
        """The network, untrained, which `sbmc.load` fills with particles; None for a reference.

        Raises:
            BadInput: it cannot be made from what is stored.
        """
        if self.kind == REFERENCE:
            return None
        try:
            return _exported(self.graph) if self.kind == EXPORTED else _layers(self.network)
        # Whatever is wrong with stored values, the file is at fault.
        except Exception as error:
            raise BadInput(
                "`path` must be a posterior file with a network that can be made again, but got "
                "one that cannot. Give the network as `model`."
            ) from error

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON, without the graph."""
        return {"network": self.network, "data": self.data}

    @classmethod
    def from_file(cls, content: Any, tensors: Mapping[str, Tensor]) -> Recipe:
        """The recipe that a file has.

        Args:
            content: what `as_dict` gave.
            tensors: of the file.

        Returns:
            The recipe.

        Raises:
            BadInput: it is no recipe.
        """
        parts = content if isinstance(content, dict) else {}
        network, data = (parts[name] if isinstance(parts.get(name), dict) else {} for name in PARTS)
        known = network.get("kind") in (LAYERS, EXPORTED, REFERENCE)
        require(known, "path", "a posterior file with a network that is described", Phrase("none"))
        return cls(network, data, tensors.get(GRAPH))


def describe_layers(
    hidden_layers: Any, inputs: Units, outputs: int, activation: str = "ReLU"
) -> dict[str, Any]:
    """Plain values for `Recipe.network` of linear layers on standardised columns.

    Args:
        hidden_layers: the width of each.
        inputs: shift and scale of each column, which JSON keeps to the last bit.
        outputs: of the network.
        activation: its name in `ACTIVATIONS`.

    Returns:
        The values.
    """
    return {
        "kind": LAYERS,
        "hidden_layers": [int(width) for width in hidden_layers],
        "outputs": int(outputs),
        "activation": activation,
        "shift": inputs.shift.double().tolist(),
        "scale": inputs.scale.double().tolist(),
    }


class ExportedNetwork(nn.Module):
    """An exported graph as a module like any other: copies of a graph alone lose its hooks."""

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """The outputs of the graph."""
        return self.graph(*arguments, **keywords)


def open_exported(content: bytes) -> nn.Module:
    """The network in a file of `torch.export.save`.

    Args:
        content: the bytes of the file.

    Returns:
        A module that can be called in evaluation mode, as it was exported.
    """
    module: Any = torch.export.load(io.BytesIO(content)).module()
    # An exported module has one mode, and refuses to be asked for it.
    for name in ("train", "eval"):
        vars(module).pop(name, None)
    # Inputs and outputs are tensors: without the trees around them, copies give no warnings.
    output = next(node for node in module.graph.nodes if node.op == "output")
    if len(output.args[0]) == 1:
        output.args = (output.args[0][0],)
        module.graph.set_codegen(torch.fx.graph.CodeGen())
        module.recompile()
        for name in ("_in_spec", "_out_spec"):
            vars(module).pop(name, None)
        # A hook compares inputs with such a tree; shapes are compared inside the graph.
        module._forward_pre_hooks.clear()
        module._forward_pre_hooks_with_kwargs.clear()
    return ExportedNetwork(module)


def graph_tensor(content: bytes) -> Tensor:
    """Bytes as a tensor, for a file of tensors."""
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())


def _layers(network: Mapping[str, Any]) -> nn.Module:
    shift, scale = (torch.tensor(network[name], dtype=torch.float64) for name in ("shift", "scale"))
    activation = ACTIVATIONS[network["activation"]]
    bare = hidden_network(len(shift), network["outputs"], network["hidden_layers"], activation)
    return with_input_units(bare, Units(shift, scale))


def _exported(graph: Tensor | None) -> nn.Module:
    assert graph is not None, "the graph is missing"
    return open_exported(graph.cpu().numpy().tobytes())
