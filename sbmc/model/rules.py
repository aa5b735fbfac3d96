"""One rule per kind of operation: what it does when some of its tensors have a particle axis.

An operation that reads shared values alone is carried out as it stands. A first linear layer over
all particles is one matrix product, and a first convolution one convolution. What has no rule here
is a function of single numbers, goes along axes that it names, or is left to `torch.func.vmap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sbmc.model.particle_axis import (
    ALONG_AXES,
    Call,
    Value,
    along_axes,
    apply,
    as_values,
    by_vmap,
    expand,
    merged,
    names_axes,
    pointwise,
    reshape,
    values_of,
    with_axis,
)
from sbmc.model.recording import Unsupported, operator

# Convolutions of at least so many outputs are done one particle after another: torch has no fast
# code for many groups. Below it, calls are what costs.
LARGE_CONVOLUTION = 2**17

Rule = Callable[[Call], Any]


def run(call: Call) -> Any:
    """The result of an operation: a value, or a list of them.

    Args:
        call: the operation; its tensors are values.

    Returns:
        What torch's operator gives for each particle.

    Raises:
        Unsupported: neither a rule nor `vmap` can do it.
    """
    name = call.name.rpartition(".")[0].removeprefix("aten.")
    plain = all(value.axis is None for value in values_of(call))
    rule = PLAIN_RULES.get(name) if plain else RULES.get(name)
    if rule is not None:
        return rule(call)
    function: Any = operator(call.name)
    if plain:
        return as_values(apply(function, call, lambda value: value.tensor), None)
    if torch.Tag.pointwise in function.tags:
        return pointwise(call)
    if name in ALONG_AXES and names_axes(call):
        return along_axes(call)
    return by_vmap(call)


def _linear(call: Call) -> Value:
    x, weight, bias = call.arguments
    if weight.axis is None:
        return _linear_of_shared_weights(x, weight.tensor, bias, call.particles)
    particles, out = call.particles, weight.shape[0]
    w = weight.at(0)
    b = None if bias is None else with_axis(bias, particles)
    if x.axis is None:
        # One product for all particles, (particles * out, in) x (in, rows): the examples come out
        # contiguous, which is what makes a softmax over few classes fast.
        rows = x.tensor.flatten(0, -2)
        y = torch.mm(w.reshape(particles * out, -1), rows.T).view(particles, out, -1)
        y = y if b is None else y + b.unsqueeze(-1)
        return Value(y.mT.unflatten(1, x.tensor.shape[:-1]), 0)
    h = x.at(0)
    rows = h.flatten(1, -2) if h.ndim > 3 else h if h.ndim == 3 else h.unsqueeze(1)
    # This way round the gradient of the weights is a product of few rows with many columns; the
    # other way it would be one of many rows with few columns, several times as slow.
    product = torch.bmm(w, rows.mT) if b is None else torch.baddbmm(b.unsqueeze(2), w, rows.mT)
    return Value(product.mT.reshape(*h.shape[:-1], out), 0)


def _linear_of_shared_weights(
    x: Value, weight: Tensor, bias: Value | None, particles: int
) -> Value:
    if bias is None or bias.axis is None:
        return x.map(lambda t: F.linear(t, weight, None if bias is None else bias.tensor))
    product = F.linear(x.tensor if x.axis is None else x.at(0), weight)
    shift = bias.at(0)
    return Value(product + shift.view(particles, *[1] * (len(x.shape) - 1), -1), 0)


def _matmul(call: Call) -> Any:
    a, b = call.arguments
    ranks = len(a.shape), len(b.shape)
    if min(ranks) < 2:
        return by_vmap(call)
    if ranks[1] == 2 and a.axis is not None and b.axis is not None:
        # A matrix for each particle: broadcasting would repeat it for each example.
        left = a.at(0)
        product = torch.bmm(left.flatten(1, -2) if left.ndim > 3 else left, b.at(0))
        return Value(product.view(*left.shape[:-1], -1), 0)
    rank = max(ranks)

    def aligned(value: Value) -> Tensor:
        if value.axis is None:
            return value.tensor
        return value.at(0)[(slice(None), *[None] * (rank - len(value.shape)))]

    return Value(torch.matmul(aligned(a), aligned(b)), 0)


def _bmm(call: Call) -> Value:
    a, b = (with_axis(value, call.particles) for value in call.arguments)
    return Value(torch.bmm(a.flatten(0, 1), b.flatten(0, 1)).unflatten(0, a.shape[:2]), 0)


def _attention(call: Call) -> Any:
    query, key, value, mask, *rest = call.arguments
    if any(len(each.shape) != 4 for each in (query, key, value)):
        return by_vmap(call)
    if mask is not None and (mask.axis is not None or len(mask.shape) not in (2, 4)):
        return by_vmap(call)
    particles = call.particles
    heads = [with_axis(v, particles).flatten(0, 1) for v in (query, key, value)]
    hidden = None if mask is None else mask.tensor
    if hidden is not None and hidden.ndim == 4 and len(hidden) > 1:
        hidden = hidden.expand(particles, *hidden.shape).flatten(0, 1)
    attend: Any = F.scaled_dot_product_attention
    out = attend(*heads, hidden, *rest, **call.keywords)
    return Value(out.unflatten(0, (particles, -1)), 0)


def _conv2d(call: Call) -> Any:
    x, weight, bias, stride, padding, dilation, groups = call.arguments
    if len(x.shape) != 4:
        return by_vmap(call)
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    if weight.axis is None and (bias is None or bias.axis is None):
        b = None if bias is None else bias.tensor
        return merged(x, lambda t: F.conv2d(t, weight.tensor, b, groups=groups, **options))
    particles, out = call.particles, weight.shape[0]
    assert call.shape is not None
    if x.axis is not None and math.prod(call.shape) >= LARGE_CONVOLUTION:
        parts = (with_axis(each, particles) for each in (x, weight))
        shifts = [None] * particles if bias is None else with_axis(bias, particles).unbind()
        made = [
            F.conv2d(h, w, b, groups=groups, **options)
            for h, w, b in zip(*(part.unbind() for part in parts), shifts, strict=True)
        ]
        return Value(torch.stack(made), 0)
    w = with_axis(weight, particles)
    if x.axis is None:
        # One convolution with particles * out channels; with groups, channels go group by group.
        grouped = w.reshape(particles, groups, out // groups, *w.shape[2:]).transpose(0, 1)
        flat = grouped.reshape(particles * out, *w.shape[2:])
        y = F.conv2d(x.tensor, flat, None, groups=groups, **options)
        y = y.view(y.shape[0], groups, particles, out // groups, *y.shape[2:]).transpose(1, 2)
        y = y.reshape(y.shape[0], particles, out, *y.shape[4:])
    else:
        # One group per particle (times the layer's own groups).
        h = x.at(1).flatten(1, 2)
        flat = w.reshape(particles * out, *w.shape[2:])
        y = F.conv2d(h, flat, None, groups=particles * groups, **options)
        y = y.view(y.shape[0], particles, out, *y.shape[2:])
    if bias is not None:
        y = y + with_axis(bias, particles)[:, :, None, None]
    return Value(y, 1)


def _normalised(x: Value, gains: Sequence[Value | None], trailing: int, particles: int) -> Value:
    """Scale and shift by weights, of which some have particles.

    Args:
        x: the values.
        gains: the scale and the shift; their axes end `trailing` axes before the last of `x`.
        trailing: see there.
        particles: how many there are.
    """
    h = x.tensor.unsqueeze(0) if x.axis is None else x.at(0)

    def shaped(value: Value) -> Tensor:
        w = with_axis(value, particles)
        lead = len(x.shape) - trailing - (w.ndim - 1)
        return w.reshape(len(w), *[1] * lead, *w.shape[1:], *[1] * trailing)

    scale, shift = gains
    h = h if scale is None else h * shaped(scale)
    return Value(h if shift is None else h + shaped(shift), 0)


def _layer_norm(call: Call) -> Value:
    x, shape, weight, bias, eps, _ = call.arguments
    gains = [weight, bias]
    if all(gain is None or gain.axis is None for gain in gains):
        w, b = (None if gain is None else gain.tensor for gain in gains)
        return x.map(lambda t: F.layer_norm(t, shape, w, b, eps))
    plain = x.map(lambda t: F.layer_norm(t, shape, eps=eps))
    return _normalised(plain, gains, 0, call.particles)


def _batch_norm(call: Call) -> Value:
    x, weight, bias, mean, variance, training, _, eps, _ = call.arguments
    if training or mean is None or mean.axis is not None or variance.axis is not None:
        raise Unsupported("BatchNorm without running statistics")
    fixed = mean.tensor, variance.tensor
    gains = [weight, bias]
    if all(gain is None or gain.axis is None for gain in gains):
        w, b = (None if gain is None else gain.tensor for gain in gains)
        return merged(x, lambda t: F.batch_norm(t, *fixed, w, b, eps=eps))
    plain = merged(x, lambda t: F.batch_norm(t, *fixed, eps=eps))
    return _normalised(plain, gains, len(x.shape) - 2, call.particles)


def _pooled(call: Call) -> Value:
    x, *rest = call.arguments
    function = operator(call.name)
    if len(x.shape) != 4:
        return by_vmap(call)
    if x.axis == 1:  # channels are treated alike, so that particles merge into them without a copy
        lead = x.tensor.shape[1:3]
        return Value(function(x.tensor.flatten(1, 2), *rest).unflatten(1, lead), 1)
    return merged(x, lambda t: function(t, *rest))


def _embedding(call: Call) -> Value:
    weight, index, padding, by_frequency, _ = call.arguments
    if weight.axis is None:
        return index.map(lambda t: operator(call.name)(weight.tensor, t, *call.arguments[2:]))
    if by_frequency:
        return by_vmap(call)
    table, rows = weight.at(0), with_axis(index, call.particles)
    if padding >= 0:  # a row without gradient, of every particle
        parts = zip(rows.unbind(), table.unbind(), strict=True)
        return Value(torch.stack([F.embedding(i, w, padding) for i, w in parts]), 0)
    return Value(F.embedding(_row_numbers(rows, table), table.flatten(0, 1)), 0)


def _row_numbers(rows: Tensor, table: Tensor) -> Tensor:
    """Where rows `(particles, ...)` are, if the tables of all particles are one."""
    first = torch.arange(len(table), device=rows.device) * table.shape[1]
    return rows + first.view(-1, *[1] * (rows.ndim - 1))


def _embedding_bag(call: Call) -> list[Value]:
    weight, index, offsets, by_frequency, mode, sparse, scales, last, padding = call.arguments
    if by_frequency or sparse or scales is not None or last or padding not in (None, -1):
        raise Unsupported("EmbeddingBag with weights or other options")
    particles = call.particles
    table, rows, begins = (with_axis(each, particles) for each in (weight, index, offsets))
    first = torch.arange(particles, device=rows.device).view(-1, 1) * rows.shape[1]
    bags = torch.embedding_bag(
        table.flatten(0, 1),
        _row_numbers(rows, table).flatten(),
        (begins + first).flatten(),
        mode=mode,
    )[0]
    return [Value(bags.unflatten(0, (particles, -1)), 0)]


def _folded(call: Call) -> Any:
    """A convolution or linear layer, and the BatchNorm that follows it, as one layer.

    gain · (w x + b − mean) / √(variance + eps) + shift has the weights w' = scale · w and the bias
    (b − mean) · scale + shift, with scale = gain / √(variance + eps).
    """
    x, weight, bias, *options = call.arguments[:-5]
    gain, shift, mean, variance, eps = call.arguments[-5:]
    scale = variance.map(lambda t: (t + eps).rsqrt())
    scale = scale if gain is None else _with(call, "mul", gain, scale)
    rank = len(weight.shape)
    columns = scale.map(lambda t: t.reshape(*t.shape, *[1] * (rank - 1)))
    moved = mean.map(torch.neg) if bias is None else _with(call, "sub", bias, mean)
    moved = _with(call, "mul", moved, scale)
    moved = moved if shift is None else _with(call, "add", moved, shift)
    kind = "aten.linear.default" if rank == 2 else "aten.conv2d.default"
    inner = call._replace(
        name=kind, arguments=(x, _with(call, "mul", weight, columns), moved, *options)
    )
    return run(inner)


def _with(call: Call, name: str, a: Value, b: Value) -> Value:
    return run(call._replace(name=f"aten.{name}.Tensor", arguments=(a, b), keywords={}))


RESHAPING = ("view", "_unsafe_view", "reshape", "flatten", "unflatten")
FOLDED = "folded"

PLAIN_RULES: dict[str, Rule] = {**dict.fromkeys(RESHAPING, reshape), FOLDED: _folded}

RULES: dict[str, Rule] = {
    **PLAIN_RULES,
    "expand": expand,
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "bmm": _bmm,
    "scaled_dot_product_attention": _attention,
    "conv2d": _conv2d,
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
    "max_pool2d": _pooled,
    "avg_pool2d": _pooled,
    "adaptive_avg_pool2d": _pooled,
    "embedding": _embedding,
    "embedding_bag": _embedding_bag,
    "detach": lambda call: call.arguments[0].map(torch.detach),
    "_to_copy": lambda call: call.arguments[0].map(
        lambda t: operator(call.name)(t, **call.keywords)
    ),
    "t": lambda call: Value(call.arguments[0].at(0).mT, 0),
}


def known_by_rule(name: str) -> bool:
    """Whether an operation is done for all particles at once without `vmap`."""
    kind = name.rpartition(".")[0].removeprefix("aten.")
    function: Any = operator(name)
    return kind in RULES or kind in ALONG_AXES or torch.Tag.pointwise in function.tags
