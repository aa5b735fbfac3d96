"""A device that is not there: tensors on it compute on the CPU, and refuse to meet the CPU's.

`ACCELERATOR` is the name of the device; torch knows it, and no code of ours treats it as the CPU.
Inside `pretended_accelerator()`, a tensor that is sent there, or made there, says that it is there.
Its numbers are computed by the CPU. An operation that mixes it with a tensor of the CPU raises
`MixedDevices`, under the rule of a GPU: only a CPU tensor without axes, which is a number, may take
part. So a run that ends has placed every tensor as a GPU needs it. Whether it is fast there, and
what its last bits are, only a GPU can say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

# Tensors on torch's `meta` device have no numbers; those of this module have them inside.
ACCELERATOR = torch.device("meta")
CPU = torch.device("cpu")

aten = torch.ops.aten
# They copy from one device to another by their nature.
COPIES = {aten.copy_.default, aten._to_copy.default}
# An index may be on the CPU, whatever it is an index into.
INDEXED = {
    aten.index.Tensor: 1,
    aten.index_put.default: 1,
    aten.index_put_.default: 1,
    aten._unsafe_index.Tensor: 1,
}


class MixedDevices(RuntimeError):
    """An operation has tensors on two devices, which a GPU refuses."""


class AcceleratorTensor(Tensor):
    """A tensor that says it is on `ACCELERATOR`, with its numbers in a tensor on the CPU."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> AcceleratorTensor:
        """Wrap numbers that are on the CPU."""
        made = Tensor._make_wrapper_subclass(
            cls,
            numbers.size(),
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            layout=numbers.layout,
            device=ACCELERATOR,
        )
        made.numbers = numbers
        return made

    def __repr__(self, **options: Any) -> str:
        """The numbers, and where they pretend to be."""
        return f"AcceleratorTensor({self.numbers!r})"

    def tolist(self) -> Any:
        """The numbers as a list; torch refuses it for a subclass, not for a device."""
        return self.numbers.tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """An operation outside the mode."""
        return _operate(function, args, kwargs or {})


class _Placement(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return _operate(function, args, kwargs or {})


class _Construction(TorchFunctionMode):
    """Tensors of given numbers, lists as indices too, are made on the CPU and sent.

    Torch would make them on its `meta` device itself, without the numbers.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = torch.device(kwargs["device"])
            source = args[0] if args else kwargs["data"]
            if device == ACCELERATOR and not isinstance(source, AcceleratorTensor):
                return function(*args, **{**kwargs, "device": CPU}).to(device)
        if function in (Tensor.__getitem__, Tensor.__setitem__):
            tensor, index, *value = args
            listed = [torch.tensor(index)] if isinstance(index, list) else [index]
            return function(tensor, *listed, *value)
        return function(*args, **kwargs)


def _operate(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Check where the tensors are, and compute on the CPU."""
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
    wrapped = [tensor for tensor in tensors if isinstance(tensor, AcceleratorTensor)]
    for tensor in tensors:
        if tensor.device == ACCELERATOR and not isinstance(tensor, AcceleratorTensor):
            raise AssertionError(f"{function} has a tensor that was made without its numbers")
    if wrapped and function not in COPIES:
        _refuse_mixture(function, args, kwargs)
    asked = kwargs.get("device")
    there = bool(wrapped) if asked is None else torch.device(asked) == ACCELERATOR
    plain_args, plain_kwargs = tree_map(_numbers_of, (args, kwargs))
    if asked is not None:
        plain_kwargs = {**plain_kwargs, "device": CPU}
    if plain_kwargs.get("pin_memory"):
        plain_kwargs = {**plain_kwargs, "pin_memory": False}
    if function is aten._to_copy.default:
        # A move to another device is a copy, even if nothing else changes.
        result = aten._to_copy.default(plain_args[0], **plain_kwargs)
    else:
        result = function(*plain_args, **plain_kwargs)
    if function is aten.copy_.default:
        there = isinstance(args[0], AcceleratorTensor)
    given = {id(plain): tensor for plain, tensor in _pairs(args, kwargs)}

    def placed(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) in given:  # an operation in place returns its argument
            return given[id(value)]
        return AcceleratorTensor(value) if there else value

    return tree_map(placed, result)


def _refuse_mixture(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    places = list(args)
    if function in INDEXED:
        places[INDEXED[function]] = None
    for leaf in tree_flatten((places, kwargs))[0]:
        if isinstance(leaf, Tensor) and not isinstance(leaf, AcceleratorTensor) and leaf.ndim:
            raise MixedDevices(f"{function} has a CPU tensor of shape {tuple(leaf.shape)}")
    if function in INDEXED and not isinstance(args[0], AcceleratorTensor):
        raise MixedDevices(f"{function} has an index that is not where the tensor is")


def _numbers_of(value: Any) -> Any:
    return value.numbers if isinstance(value, AcceleratorTensor) else value


def _pairs(args: Any, kwargs: Any) -> Iterator[tuple[Tensor, Tensor]]:
    for leaf in tree_flatten((args, kwargs))[0]:
        if isinstance(leaf, Tensor):
            yield _numbers_of(leaf), leaf


@contextmanager
def pretended_accelerator() -> Iterator[torch.device]:
    """Inside it, `ACCELERATOR` can be computed on; what mixes devices raises `MixedDevices`."""
    with _Construction(), _Placement():
        yield ACCELERATOR
