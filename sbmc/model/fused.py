"""Layers rewritten over the particle axis: all particles in one pass, no `vmap`.

The module is traced once into a graph (`torch.fx`); each node is then carried out by a rule that
knows where the particle axis is. A value is a tensor with its particle axis at 0, at 1, or nowhere
(shared by all particles, as the inputs are): a first linear layer over all particles is then one
matrix product, and a first convolution one convolution.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from sbmc.model import stem
from sbmc.model.data import Inputs
from sbmc.model.functional import evaluation_copy
from sbmc.model.kernels.lowrank import Adjusted
from sbmc.model.parameters import ParameterSpace
from sbmc.model.rules import (
    FUNCTION_RULES,
    METHOD_RULES,
    MODULE_RULES,
    Unsupported,
    Value,
    Weights,
)
from sbmc.model.tracing import trace


class FusedForward:
    """Evaluate a model for many parameter vectors by layers that know the particle axis.

    Args:
        model: the network; a copy in evaluation mode is traced, the module itself is not touched.
        space: the parameters that vary between particles. The others, and the buffers, are the
            model's.

    Raises:
        Unsupported: the model has a part that no rule covers.
    """

    path = "fused"

    def __init__(self, model: nn.Module, space: ParameterSpace) -> None:
        copied = evaluation_copy(model, space)
        if type(copied) in MODULE_RULES:
            # A bare layer would be traced from the inside; in a sequence it is a node like others.
            copied = nn.Sequential(copied)
            space = ParameterSpace(tuple(f"0.{name}" for name in space.names), space.shapes)
        self._space = space
        self._modules = dict(copied.named_modules())
        self._nodes = _trace(copied)
        _refuse_shared_weights(self._modules, self._nodes, space)
        self._stem = stem.find(self._nodes, self._modules, space)
        self._releases = _last_uses(self._nodes)

    @property
    def space(self) -> ParameterSpace:
        """The sampled parameters, by their names in `layers`."""
        return self._space

    def layers(self) -> list[tuple[str, nn.Module]] | None:
        """Modules by name, if the model calls one after another and does nothing else."""
        middle = self._nodes[1:-1]
        before: list[fx.Node] = self._nodes[:-2]
        straight = all(
            node.op == "call_module" and node.args == (last,) and not node.kwargs
            for node, last in zip(middle, before, strict=True)
        )
        if not straight or self._nodes[-1].args != (self._nodes[-2],):
            return None
        return [(str(node.target), self._modules[str(node.target)]) for node in middle]

    def adjusted(self) -> Adjusted | None:
        """The layers, if the model is `base(x) + up(down(x))` of linear layers and no more."""
        inputs, output = self._nodes[0], self._nodes[-1].args[0]
        if len(self._nodes) != 6 or not isinstance(output, fx.Node) or output.kwargs:
            return None
        if output.target not in (operator.add, torch.add):
            return None
        ends = [self._linear_at(end) for end in output.args]
        direct = [end for end in ends if end is not None and end[0] is inputs]
        beyond = [end for end in ends if end is not None and end[0] is not inputs]
        if len(direct) != 1 or len(beyond) != 1:
            return None
        below = self._linear_at(beyond[0][0])
        if below is None or below[0] is not inputs:
            return None
        return Adjusted(base=direct[0][1:], down=below[1:], up=beyond[0][1:])

    def _linear_at(self, node: Any) -> tuple[Any, str, nn.Linear] | None:
        """What a linear layer is given, its name and itself, if that is what a node is."""
        if not isinstance(node, fx.Node) or node.op != "call_module":
            return None
        layer = self._modules[str(node.target)]
        if type(layer) is not nn.Linear or len(node.args) != 1 or node.kwargs:
            return None
        assert isinstance(layer, nn.Linear)  # for the type checker
        return node.args[0], str(node.target), layer

    def prepare(self, inputs: Inputs) -> Inputs:
        """What the first layer needs of the inputs, made once and not at every call."""
        if self._stem is None or not isinstance(inputs, Tensor):
            return inputs
        return self._stem.prepare(inputs)

    def prepared_bytes(self, inputs: Inputs) -> int:
        """Memory that `prepare` would take beyond the inputs."""
        if self._stem is None or not isinstance(inputs, Tensor):
            return 0
        return self._stem.prepared_bytes(inputs)

    def __call__(self, theta: Tensor, inputs: Inputs, *, stacked: bool = False) -> Tensor:
        """Outputs `(particles, examples, ...)` for `theta` and prepared inputs."""
        if not isinstance(inputs, Tensor):
            raise Unsupported("inputs other than one tensor")
        weights = Weights(self._space.split(theta), len(theta))
        first = Value(inputs, 0 if stacked else None)
        values: dict[fx.Node, Any] = {}
        for node in self._nodes:
            if node.op == "output":
                return _as_particle_outputs(
                    fx.node.map_arg(node.args[0], values.__getitem__), len(theta)
                )
            values[node] = self._run(node, values, weights, first)
            for done in self._releases.get(node, ()):
                del values[done]
        raise AssertionError("a traced graph ends in an output node")

    def _run(
        self, node: fx.Node, values: dict[fx.Node, Any], weights: Weights, first: Value
    ) -> Any:
        if node.op == "placeholder":
            return first
        if self._stem is not None and node in self._stem.skipped:
            return None
        if self._stem is not None and node is self._stem.output:
            return self._stem(weights, first)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        if node.op == "call_module":
            module = self._modules[str(node.target)]
            rule = MODULE_RULES.get(type(module))
            if rule is None:
                raise Unsupported(f"{type(module).__name__} ({node.target})")
            return rule(module, weights.of(str(node.target), module), *args, **kwargs)
        tables: dict[str, dict[Any, Any]] = {
            "call_function": FUNCTION_RULES,
            "call_method": METHOD_RULES,
        }
        rule = tables.get(node.op, {}).get(node.target)
        if rule is None:
            raise Unsupported(f"{node.op} {getattr(node.target, '__name__', node.target)}")
        return rule(*args, **kwargs)


def _trace(model: nn.Module) -> list[fx.Node]:
    try:
        graph = trace(model)
    except Exception as error:  # whatever a user's forward does with a symbolic value
        raise Unsupported(
            f"a forward that cannot be traced ({type(error).__name__}: {error})"
        ) from error
    nodes = list(graph.nodes)
    if sum(node.op == "placeholder" for node in nodes) != 1:
        raise Unsupported("a forward with more than one input")
    return nodes


def _refuse_shared_weights(
    modules: dict[str, nn.Module], nodes: list[fx.Node], space: ParameterSpace
) -> None:
    called = [str(node.target) for node in nodes if node.op == "call_module"]
    owned = [
        (f"{layer}.{name}" if layer else name, id(parameter))
        for layer in called
        for name, parameter in modules[layer].named_parameters(recurse=False)
    ]
    if len({name for name, _ in owned}) != len(owned):
        raise Unsupported("a layer with parameters that is used twice")
    if len({identity for _, identity in owned}) != len(owned):
        raise Unsupported("a parameter that two layers share")
    if not set(space.names) <= {name for name, _ in owned}:
        raise Unsupported("a sampled parameter outside the layers")


def _last_uses(nodes: list[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
    """Which values can be dropped after each node: activations must not pile up in prediction."""
    last: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        for used in node.all_input_nodes:
            last[used] = node
    releases: dict[fx.Node, list[fx.Node]] = {}
    for used, node in last.items():
        releases.setdefault(node, []).append(used)
    return releases


def _as_particle_outputs(value: Any, particles: int) -> Tensor:
    if not isinstance(value, Value):
        raise Unsupported("an output that is not one tensor")
    if value.axis is None:
        return value.tensor.expand(particles, *value.tensor.shape)
    return value.at(0)
