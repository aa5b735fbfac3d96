"""Which rule of the prior a parameter follows: by the type of the layer that it belongs to.

A weight is one of `fan_in` numbers whose products with the inputs are added up, so its variance is
c / fan_in: outputs then have the same scale whatever the width. Other parameters are not summed
over (biases, tables of embeddings) or multiply what comes in (the gains of normalisation layers),
and have rules of their own. `layer_rules` is a `functools.singledispatch` function of the layer: a
layer of one's own is taught to it by `@layer_rules.register`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.modules.instancenorm import _InstanceNorm

from sbmc.model.parameters import ParameterSpace


@dataclass(frozen=True)
class Rule:
    """What the type of a layer says about one of its parameters.

    Args:
        words: for the table that a person reads.
        scale: which number of `ByLayer` the variance is made of: `"weights"`, `"biases"`, `"gains"`
            or `"embeddings"`; `"unit"` for 1.
        fan_in: what that number is divided by; None for nothing.
        centre: of the prior.
        factor: what the variance is multiplied by besides.
        guessed: whether the layer's type is unknown, so that the shape had to decide.
    """

    words: str
    scale: str
    fan_in: int | None = None
    centre: float = 0.0
    factor: float = 1.0
    guessed: bool = False


BIAS = Rule("bias", "biases")
GAIN = Rule("norm gain", "gains", centre=1.0)
EMBEDDING = Rule("embedding", "embeddings")


def weight_rule(words: str, fan_in: int) -> Rule:
    """The rule c / fan_in."""
    return Rule(words, "weights", fan_in=max(1, int(fan_in)))


@singledispatch
def layer_rules(layer: nn.Module) -> dict[str, Rule]:
    """Rules for the parameters of a layer, by their names inside it.

    Args:
        layer: any module.

    Returns:
        The rules; empty for a type that is not known. A module that is made of others may have
        rules for their parameters as well, which then hold instead of those of the parts.

    Examples:
        >>> layer_rules(nn.Conv2d(8, 16, kernel_size=3, groups=2))["weight"].fan_in
        36
        >>> class Scaled(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.weight = nn.Parameter(torch.zeros(3, 5))
        >>> @layer_rules.register
        ... def rules_of_scaled(layer: Scaled):
        ...     return {"weight": weight_rule("scaled", fan_in=5)}
        >>> layer_rules(Scaled())["weight"].words
        'scaled'
    """
    return {}


@layer_rules.register
def _(layer: nn.Linear) -> dict[str, Rule]:
    return {"weight": weight_rule("weight", layer.in_features), "bias": BIAS}


@layer_rules.register
def _(layer: nn.Bilinear) -> dict[str, Rule]:
    return {"weight": weight_rule("weight", layer.in1_features * layer.in2_features), "bias": BIAS}


@layer_rules.register
def _(layer: _ConvNd) -> dict[str, Rule]:
    fan_in = layer.in_channels // layer.groups * math.prod(layer.kernel_size)
    return {"weight": weight_rule("convolution", fan_in), "bias": BIAS}


@layer_rules.register
def _(layer: _ConvTransposeNd) -> dict[str, Rule]:
    # With a stride, an output is touched by a part of the kernel only.
    reach = [math.ceil(k / step) for k, step in zip(layer.kernel_size, layer.stride, strict=True)]
    fan_in = layer.in_channels // layer.groups * math.prod(reach)
    return {"weight": weight_rule("convolution", fan_in), "bias": BIAS}


@layer_rules.register
def _(layer: nn.MultiheadAttention) -> dict[str, Rule]:
    inputs = {"in_proj": layer.embed_dim, "q_proj": layer.embed_dim}
    inputs |= {"k_proj": layer.kdim, "v_proj": layer.vdim}
    rules = {f"{name}_weight": weight_rule("attention", size) for name, size in inputs.items()}
    return rules | dict.fromkeys(("in_proj_bias", "bias_k", "bias_v"), BIAS)


@layer_rules.register(nn.RNNBase)
@layer_rules.register(nn.RNNCellBase)
def _(layer: nn.Module) -> dict[str, Rule]:
    # weight_ih has a column for each input, weight_hh for each hidden value, weight_hr (of a
    # projection) for each hidden value: the second axis is the fan-in of all three.
    return {
        name: BIAS if name.startswith("bias") else weight_rule("recurrent", parameter.shape[1])
        for name, parameter in layer.named_parameters(recurse=False)
    }


@layer_rules.register(nn.Embedding)
@layer_rules.register(nn.EmbeddingBag)
def _(layer: nn.Module) -> dict[str, Rule]:
    return {"weight": EMBEDDING}


@layer_rules.register(nn.LayerNorm)
@layer_rules.register(nn.GroupNorm)
@layer_rules.register(nn.RMSNorm)
@layer_rules.register(_BatchNorm)
@layer_rules.register(_InstanceNorm)
def _(layer: nn.Module) -> dict[str, Rule]:
    return {"weight": GAIN, "bias": BIAS}


@layer_rules.register
def _(layer: nn.PReLU) -> dict[str, Rule]:
    return {"weight": Rule("slope", "gains", centre=layer.init)}


def lora_rules(rank: int, inputs: int, scaling: float = 1.0) -> tuple[Rule, Rule]:
    """Rules for the factors of ΔW = scaling · B A, such that ΔW has the variance c / inputs.

    An entry of ΔW is a sum over the rank of products, so its variance is scaling² · rank · v_A v_B.
    With v_A = 1 / inputs, A gives inner values of order one; v_B = c / (rank · scaling²) does the
    rest. B is zero when training begins, and is centred there.

    Args:
        rank: rows of A, columns of B.
        inputs: columns of A.
        scaling: what the product is multiplied by (α / rank in peft).

    Returns:
        The rules of A and of B.

    Examples:
        >>> a, b = lora_rules(rank=8, inputs=768, scaling=2.0)
        >>> (a.fan_in, a.scale), (b.fan_in, b.scale, b.factor)
        ((768, 'unit'), (8, 'weights', 0.25))
    """
    shrink = 1 / scaling**2 if scaling else 1.0
    return (
        Rule("LoRA A", "unit", fan_in=max(1, inputs)),
        Rule("LoRA B", "weights", fan_in=max(1, rank), factor=shrink),
    )


def rules_of_model(model: nn.Module, space: ParameterSpace) -> list[dict[str, Rule]]:
    """The rules that apply to each sampled parameter, by the names under which layers use it.

    Args:
        model: the network.
        space: the sampled parameters.

    Returns:
        For each parameter of the space its rules: one, or several if layers share it (tied).

    Examples:
        >>> from sbmc.model.parameters import select_parameters
        >>> net = nn.ModuleDict({"table": nn.Embedding(9, 4), "out": nn.Linear(4, 9, bias=False)})
        >>> net["out"].weight = net["table"].weight
        >>> (rules,) = rules_of_model(net, select_parameters(net))
        >>> {name: rule.words for name, rule in rules.items()}
        {'table.weight': 'embedding', 'out.weight': 'weight'}
    """
    by_path: dict[str, Rule] = {}
    for prefix, layer in model.named_modules(remove_duplicate=False):
        for name, rule in _rules_of(layer).items():
            # Modules come before their parts: what a module says of its parts holds.
            by_path.setdefault(f"{prefix}.{name}" if prefix else name, rule)
    uses: dict[int, dict[str, Rule]] = {}
    for path, parameter in model.named_parameters(remove_duplicate=False):
        rule = by_path.get(path) or rule_by_shape(parameter.shape)
        uses.setdefault(id(parameter), {})[path] = rule
    tensors = dict(model.named_parameters())
    return [uses[id(tensors[name])] for name in space.names]


def rule_by_shape(shape: torch.Size) -> Rule:
    """The rule for a parameter of a layer whose type is not known.

    Vectors, and tensors that are broadcast over a first axis of length one (class tokens, tables of
    positions), are taken for biases; others for weights with their outputs on the first axis.

    Examples:
        >>> rule_by_shape(torch.Size([10, 3, 5])).fan_in, rule_by_shape(torch.Size([4])).scale
        (15, 'biases')
    """
    if len(shape) < 2 or (len(shape) > 2 and shape[0] == 1):
        return Rule("by shape: bias", "biases", guessed=True)
    fan_in = max(1, math.prod(shape[1:]))
    return Rule("by shape: weight", "weights", fan_in=fan_in, guessed=True)


def _rules_of(layer: nn.Module) -> dict[str, Rule]:
    """Rules of layers that torch does not know come from their structure, the others by type."""
    return {**_other_libraries(layer), **layer_rules(layer), **dict(_adapters(layer))}


def _other_libraries(layer: nn.Module) -> dict[str, Rule]:
    """Layers of transformers, which are known by the names of their classes."""
    kind, weight = type(layer).__name__, getattr(layer, "weight", None)
    if not isinstance(weight, Tensor):
        return {}
    if kind == "Conv1D" and weight.ndim == 2:
        return {"weight": weight_rule("weight", weight.shape[0]), "bias": BIAS}
    if "norm" in kind.lower() and weight.ndim == 1:
        # Some add 1 to the weight (Gemma's): it then stands near 0, where it began.
        near_one = bool(weight.detach().double().mean() >= 0.5)
        return {"weight": Rule(GAIN.words, GAIN.scale, centre=float(near_one)), "bias": BIAS}
    return {}


def _adapters(layer: Any) -> Iterator[tuple[str, Rule]]:
    """The factors of LoRA, as peft (one pair for each adapter) and loralib (one pair) name them."""
    for kind in ("lora_", "lora_embedding_"):
        downs, ups = getattr(layer, f"{kind}A", None), getattr(layer, f"{kind}B", None)
        scaling = getattr(layer, "scaling", 1.0)
        if isinstance(downs, (nn.ModuleDict, nn.ParameterDict)) and isinstance(ups, type(downs)):
            for adapter in sorted(downs.keys() & ups.keys()):
                factor = scaling.get(adapter, 1.0) if isinstance(scaling, dict) else scaling
                end = f".{adapter}" + (".weight" if isinstance(downs, nn.ModuleDict) else "")
                down, up = _pair(kind, downs[adapter], factor)
                yield from ((f"{kind}A{end}", down), (f"{kind}B{end}", up))
        elif isinstance(downs, nn.Parameter) and isinstance(ups, nn.Parameter):
            down, up = _pair(kind, downs, scaling)
            yield from ((f"{kind}A", down), (f"{kind}B", up))


def _pair(kind: str, down: Any, scaling: float) -> tuple[Rule, Rule]:
    shape = down.shape if isinstance(down, Tensor) else down.weight.shape
    # An embedding picks a column of A, so that nothing is summed over its inputs.
    inputs = 1 if "embedding" in kind else math.prod(shape[1:])
    return lora_rules(shape[0], inputs, float(scaling))
