"""One rule per kind of layer: what it does when weights, and perhaps inputs, have particles."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Unsupported(Exception):
    """The model has a part that the fused path does not cover; `vmap` takes over."""


class Value(NamedTuple):
    """A tensor and the place of its particle axis: 0, 1 (after the examples), or None (shared)."""

    tensor: Tensor
    axis: int | None

    def at(self, axis: int) -> Tensor:
        """The tensor with its particle axis at `axis` (a view)."""
        return self.tensor if self.axis == axis else self.tensor.transpose(0, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the user's code sees: without the particle axis."""
        shape = tuple(self.tensor.shape)
        return shape if self.axis is None else shape[: self.axis] + shape[self.axis + 1 :]

    def map(self, function: Callable[[Tensor], Tensor]) -> Value:
        """The same axis, another tensor."""
        return Value(function(self.tensor), self.axis)


class Weights(NamedTuple):
    """The sampled parameters `(particles, *shape)` by name, and the number of particles."""

    sampled: dict[str, Tensor]
    particles: int

    def of(self, layer: str, module: nn.Module) -> dict[str, Tensor] | None:
        """A layer's weights with a particle axis, frozen ones expanded; None if none is sampled."""
        own = {
            name: self.sampled.get(f"{layer}.{name}" if layer else name)
            for name, _ in module.named_parameters(recurse=False)
        }
        if all(value is None for value in own.values()):
            return None
        frozen = dict(module.named_parameters(recurse=False))
        return {
            name: frozen[name].expand(self.particles, *frozen[name].shape)
            if value is None
            else value
            for name, value in own.items()
        }


def _merged(value: Value, function: Callable[[Tensor], Tensor]) -> Value:
    """Apply a function of `(examples, ...)` by merging the particle axis into the examples."""
    if value.axis is None:
        return value.map(function)
    lead = value.tensor.shape[:2]
    out = function(value.tensor.flatten(0, 1))
    return Value(out.unflatten(0, lead), value.axis)


def _pooled(value: Value, function: Callable[[Tensor], Tensor]) -> Value:
    """As `_merged`, where channels are treated alike: axis 1 merges into them without a copy."""
    if len(value.shape) != 4:
        raise Unsupported("pooling of inputs other than (examples, channels, height, width)")
    if value.axis == 1:
        lead = value.tensor.shape[1:3]
        return Value(function(value.tensor.flatten(1, 2)).unflatten(1, lead), 1)
    return _merged(value, function)


def _linear(module: nn.Linear, weights: dict[str, Tensor] | None, x: Value) -> Value:
    if weights is None:
        return x.map(lambda t: F.linear(t, module.weight, module.bias))
    weight, bias = weights["weight"], weights.get("bias")
    particles, out = weight.shape[:2]
    if x.axis is None:
        # One product for all particles, (particles * out, in) x (in, rows): the examples come out
        # contiguous, which is what makes a softmax over few classes fast.
        rows = x.tensor.flatten(0, -2)
        y = torch.mm(weight.reshape(particles * out, -1), rows.T).view(particles, out, -1)
        y = y if bias is None else y + bias.unsqueeze(-1)
        return Value(y.mT.unflatten(1, x.tensor.shape[:-1]), 0)
    h = x.at(0)
    rows = h.flatten(1, -2) if h.ndim > 3 else h if h.ndim == 3 else h.unsqueeze(1)
    # This way round the gradient of the weights is a product of few rows with many columns; the
    # other way it would be one of many rows with few columns, several times as slow.
    product = (
        torch.bmm(weight, rows.mT)
        if bias is None
        else torch.baddbmm(bias.unsqueeze(2), weight, rows.mT)
    )
    return Value(product.mT.reshape(*h.shape[:-1], out), 0)


def _conv2d(module: nn.Conv2d, weights: dict[str, Tensor] | None, x: Value) -> Value:
    if module.padding_mode != "zeros":
        raise Unsupported(f"Conv2d with padding_mode={module.padding_mode!r}")
    if len(x.shape) != 4:
        raise Unsupported("Conv2d on inputs without an example axis")
    options: dict[str, Any] = {
        "stride": module.stride,
        "padding": module.padding,
        "dilation": module.dilation,
    }
    groups = module.groups
    if weights is None:
        return _merged(
            x, lambda t: F.conv2d(t, module.weight, module.bias, groups=groups, **options)
        )
    weight, bias = weights["weight"], weights.get("bias")
    particles, out = weight.shape[:2]
    if x.axis is None:
        # One convolution with particles * out channels; with groups, channels go group by group.
        grouped = weight.view(particles, groups, out // groups, *weight.shape[2:]).transpose(0, 1)
        flat = grouped.reshape(particles * out, *weight.shape[2:])
        y = F.conv2d(x.tensor, flat, None, groups=groups, **options)
        y = y.view(y.shape[0], groups, particles, out // groups, *y.shape[2:]).transpose(1, 2)
        y = y.reshape(y.shape[0], particles, out, *y.shape[4:])
    else:
        # One group per particle (times the layer's own groups).
        h = x.at(1).flatten(1, 2)
        flat = weight.reshape(particles * out, *weight.shape[2:])
        y = F.conv2d(h, flat, None, groups=particles * groups, **options)
        y = y.view(y.shape[0], particles, out, *y.shape[2:])
    if bias is not None:
        y = y + bias[:, :, None, None]
    return Value(y, 1)


def _normalised(
    x: Value, weights: dict[str, Tensor] | None, feature_dims: int, trailing: int
) -> Value:
    """Scale and shift by per-particle weights whose axes end `trailing` axes before the last."""
    if weights is None:
        return x
    h = x.tensor if x.axis is None else x.at(0)
    lead = h.ndim - (0 if x.axis is None else 1) - feature_dims - trailing

    def shaped(w: Tensor) -> Tensor:
        return w.view(w.shape[0], *[1] * lead, *w.shape[1:], *[1] * trailing)

    if x.axis is None:
        h = h.unsqueeze(0)
    h = h * shaped(weights["weight"])
    if "bias" in weights:
        h = h + shaped(weights["bias"])
    return Value(h, 0)


def _layer_norm(module: nn.LayerNorm, weights: dict[str, Tensor] | None, x: Value) -> Value:
    shape = list(module.normalized_shape)
    if weights is None:
        return x.map(lambda t: F.layer_norm(t, shape, module.weight, module.bias, module.eps))
    plain = x.map(lambda t: F.layer_norm(t, shape, eps=module.eps))
    return _normalised(plain, weights, len(shape), 0)


def _batch_norm(module: Any, weights: dict[str, Tensor] | None, x: Value) -> Value:
    if module.running_mean is None:
        raise Unsupported("BatchNorm without running statistics")
    if weights is None:
        return _merged(x, module)

    def fixed(t: Tensor) -> Tensor:
        return F.batch_norm(t, module.running_mean, module.running_var, eps=module.eps)

    return _normalised(_merged(x, fixed), weights, 1, len(x.shape) - 2)


def _flatten(x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    dims = len(x.shape)
    start, end = start_dim % dims, end_dim % dims
    if start == 0:
        raise Unsupported("flattening the example axis")
    shift = 0 if x.axis is None else 1
    return x.map(lambda t: t.flatten(start + shift, end + shift))


def _reshape(x: Value, *shape: Any) -> Value:
    sizes = (
        tuple(shape[0])
        if len(shape) == 1 and isinstance(shape[0], (tuple, list, torch.Size))
        else shape
    )
    examples = x.shape[0]
    if sizes[0] == -1 and len(sizes) > 1 and -1 not in sizes[1:]:
        kept = math.prod(sizes[1:]) == math.prod(x.shape[1:])
        sizes = (examples if kept else -1, *sizes[1:])
    if sizes[0] != examples:
        raise Unsupported("a reshape that mixes examples")
    if x.axis is None:
        return x.map(lambda t: t.reshape(sizes))
    particles = x.tensor.shape[x.axis]
    lead = (particles, examples) if x.axis == 0 else (examples, particles)
    return x.map(lambda t: t.reshape(*lead, *sizes[1:]))


def _size(x: Value, dim: int | None = None) -> Any:
    return torch.Size(x.shape) if dim is None else x.shape[dim]


def _getattr(x: Any, name: str) -> Any:
    if isinstance(x, Value) and name == "shape":
        return torch.Size(x.shape)
    raise Unsupported(f"attribute {name}")


def _getitem(x: Any, key: Any) -> Any:
    if isinstance(x, Value):
        raise Unsupported("indexing a tensor")
    return x[key]


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def rule(a: Any, b: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise Unsupported(f"arguments {sorted(kwargs)}")
        if not isinstance(a, Value) and not isinstance(b, Value):
            return function(a, b)
        if isinstance(a, Value) and isinstance(b, Value):
            if len(a.shape) != len(b.shape):
                raise Unsupported("arithmetic between tensors of different rank")
            if a.axis is None and b.axis is None:
                return Value(function(a.tensor, b.tensor), None)
            left, right = (v.tensor.unsqueeze(0) if v.axis is None else v.at(0) for v in (a, b))
            return Value(function(left, right), 0)
        if isinstance(a, Value):
            _require_number(b)
            return a.map(lambda t: function(t, b))
        _require_number(a)
        return b.map(lambda t: function(a, t))

    return rule


def _require_number(value: Any) -> None:
    if not isinstance(value, (int, float)):
        raise Unsupported(f"arithmetic with {type(value).__name__}")


def _elementwise(function: Callable[..., Tensor]) -> Callable[..., Value]:
    def rule(x: Value, *args: Any, **kwargs: Any) -> Value:
        if args not in ((), (False,), (True,)):
            raise Unsupported(f"arguments {args}")
        kwargs.pop("inplace", None)
        return x.map(lambda t: function(t, **kwargs))

    return rule


def _pooling(function: Callable[..., Tensor]) -> Callable[..., Value]:
    return lambda x, *args, **kwargs: _pooled(x, lambda t: function(t, *args, **kwargs))


def _pool_module(module: nn.Module, _: Any, x: Value) -> Value:
    if getattr(module, "return_indices", False):
        raise Unsupported("pooling that returns indices")
    return _pooled(x, module)


def _out_of_place(module: nn.Module, _: Any, x: Value) -> Value:
    # An in-place activation would overwrite a value that another branch may still read.
    if getattr(module, "inplace", False):
        setattr(module, "inplace", False)  # noqa: B010 (unknown to the type of a module)
    return x.map(module)


def _identity(module: nn.Module, _: Any, x: Value) -> Value:
    return x


def _dropout(x: Value, p: float = 0.5, training: bool = True, inplace: bool = False) -> Value:
    if training:
        raise Unsupported("dropout that is active in evaluation mode")
    return x


MODULE_RULES: dict[type[nn.Module], Callable[..., Any]] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv2d,
    nn.LayerNorm: _layer_norm,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.Flatten: lambda module, _, x: _flatten(x, module.start_dim, module.end_dim),
    **dict.fromkeys(
        (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout), _identity
    ),
    **dict.fromkeys(
        (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d), _pool_module
    ),
    **dict.fromkeys(
        (
            nn.ReLU,
            nn.GELU,
            nn.Tanh,
            nn.Sigmoid,
            nn.SiLU,
            nn.ELU,
            nn.LeakyReLU,
            nn.Softplus,
            nn.ReLU6,
        ),
        _out_of_place,
    ),
}

_ADD, _SUB, _MUL, _DIV = (
    _binary(f) for f in (operator.add, operator.sub, operator.mul, operator.truediv)
)

FUNCTION_RULES: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add), _ADD),
    **dict.fromkeys((operator.sub, operator.isub, torch.sub), _SUB),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul), _MUL),
    **dict.fromkeys((operator.truediv, torch.div), _DIV),
    **dict.fromkeys((F.relu, torch.relu), _elementwise(F.relu)),
    **dict.fromkeys((torch.tanh, F.tanh), _elementwise(torch.tanh)),
    **dict.fromkeys((torch.sigmoid, F.sigmoid), _elementwise(torch.sigmoid)),
    F.gelu: _elementwise(F.gelu),
    F.silu: _elementwise(F.silu),
    F.max_pool2d: _pooling(F.max_pool2d),
    F.avg_pool2d: _pooling(F.avg_pool2d),
    F.adaptive_avg_pool2d: _pooling(F.adaptive_avg_pool2d),
    F.dropout: _dropout,
    torch.flatten: _flatten,
    torch.reshape: lambda x, shape: _reshape(x, shape),
    getattr: _getattr,
    operator.getitem: _getitem,
}

METHOD_RULES: dict[str, Callable[..., Any]] = {
    "flatten": _flatten,
    "view": _reshape,
    "reshape": _reshape,
    "size": _size,
    "add": _ADD,
    "sub": _SUB,
    "mul": _MUL,
    "relu": _elementwise(F.relu),
    "tanh": _elementwise(torch.tanh),
    "sigmoid": _elementwise(torch.sigmoid),
    "contiguous": lambda x: x,
}
