"""Tensors of what users give: tensors, arrays, tables and lists of plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, describe_value, is_number, is_whole, require
from sbmc.storage.lazy_rows import ArrayReader, LazyRows
from sbmc.storage.mapped_arrays import mapped_root
from sbmc.storage.tables import without_table

# Memory-mapped arrays of more bytes are read in place where a caller can use them in parts.
IN_PLACE_BYTES = 2**28


def require_plain(value: Tensor, name: str) -> None:
    """Refuse tensors that are no blocks of real numbers."""
    require(not value.is_complex(), name, "real", Phrase(f"dtype {value.dtype}"))
    rule = "a dense tensor; value.to_dense() makes one"
    dense = value.layout == torch.strided and not value.is_nested and not value.is_mkldnn
    require(dense, name, rule, Phrase("a sparse or nested one"))
    rule = "a tensor of plain numbers; value.dequantize() makes one"
    require(not value.is_quantized, name, rule, Phrase(f"a quantised one, {value.dtype}"))
    shown = Phrase("one on the meta device, which has a shape alone")
    require(has_values(value), name, "a tensor with values", shown)


def has_values(tensor: Tensor) -> bool:
    """Whether a tensor has values: on torch's meta device there are shapes alone."""
    if not tensor.is_meta:
        return True
    try:
        # A kind of tensor of its own may say that it is there, and know its values all the same.
        tensor.detach().flatten()[:1].tolist()
    except (RuntimeError, NotImplementedError):
        return False
    return True


def as_tensor(value: Any, name: str, *, numbers: bool = False, in_place: bool = False) -> Tensor:
    """A tensor of what a user gave.

    Args:
        value: a tensor, an array, a list, or a table or column of pandas.
        name: what error messages call it.
        numbers: whether a single number will do, too.
        in_place: whether a large memory-mapped array may stay in its file, as `LazyRows`.

    Returns:
        The tensor, without a gradient.

    Raises:
        BadInput: it is none, or has no plain numbers.

    Examples:
        >>> as_tensor([[1, 2]], "inputs")
        tensor([[1, 2]])
    """
    value = without_table(value, name)
    if numbers and (is_number(value) or isinstance(value, bool)):
        small = is_whole(value) and abs(value) < 2**63
        # In float64, as numbers in lists are read.
        return (
            torch.tensor(int(value)) if small else torch.tensor(float(value), dtype=torch.float64)
        )
    if isinstance(value, Tensor):
        require_plain(value, name)
        # A tensor made in inference mode could not take part in a gradient.
        return value.clone() if value.is_inference() else value.detach()
    if isinstance(value, list) and any(isinstance(item, (Tensor, np.ndarray)) for item in value):
        # Would be stacked along an axis that only the caller knows. Default collation makes such
        # lists of samples that hold lists.
        raise BadInput(f"`{name}` must be a tensor or an array, but got a list of them.")
    if isinstance(value, list | tuple | range) or hasattr(value, "__array__"):
        return _from_array(value, name, in_place=in_place)
    raise BadInput(f"`{name}` must be a tensor or an array, but got {describe_value(value)}.")


def require_unmasked(value: Any, name: str) -> None:
    """Refuse an array of numpy with masked values, which others would read as numbers."""
    if isinstance(value, np.ma.MaskedArray):
        masked = int(np.ma.count_masked(value))
        rule = "without masked values: fill them in, or leave their rows out"
        require(masked == 0, name, rule, Phrase(f"{masked} that are masked"))


def _from_array(value: Any, name: str, *, in_place: bool = False) -> Tensor:
    require_unmasked(value, name)
    value = np.ma.getdata(value) if isinstance(value, np.ma.MaskedArray) else value
    try:
        array = np.asarray(value)
    except ValueError:
        raise BadInput(f"`{name}` must be rectangular, but got rows of unequal length.") from None
    require_numeric(array, name)
    if in_place and array.nbytes > IN_PLACE_BYTES and mapped_root(array) is not None:
        return LazyRows(ArrayReader(array), name)
    # torch knows neither foreign byte orders nor negative strides, and warns of read-only memory.
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    return torch.as_tensor(array if array.flags.writeable else array.copy())


def require_numeric(array: np.ndarray, name: str) -> None:
    """Refuse an array of numpy whose numbers torch does not know."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise BadInput(
            f"`{name}` must be numeric, but got dtype {array.dtype}.{_remedy(array, name)}"
        )


def _remedy(array: np.ndarray, name: str) -> str:
    """How to make numbers of texts and objects, as a sentence with a space before it."""
    if array.dtype.kind not in "OUS":
        return ""
    if name.endswith(("targets", "labels")):
        return " np.unique(labels, return_inverse=True)[1] numbers labels from 0."
    return " Make numbers of texts first; astype(float) does where they are written as numbers."


def as_floats(value: Any, name: str, *, numbers: bool = False) -> np.ndarray:
    """An array of float64 of what a user gave; see `as_tensor`."""
    return as_tensor(value, name, numbers=numbers).cpu().double().numpy()


def require_table(value: Any, name: str) -> None:
    """Refuse what is no array, data frame or list, where scikit-learn is to read a table.

    Arrays, data frames and lists that are no tables of numbers scikit-learn refuses itself, in
    words that its tests of estimators ask for.

    Args:
        value: a table, targets or weights.
        name: the argument.

    Raises:
        BadInput: it is something else, such as a dict or a loader, or has masked values.

    Examples:
        >>> require_table({"age": 3}, "X")
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `X` must be an array, a data frame or a list, but got {'age': 3}.
    """
    if isinstance(value, Tensor):
        require_plain(value, name)
    require_unmasked(value, name)
    kinds = ("__array__", "__dataframe__", "tocsr")
    good = isinstance(value, list | tuple | range) or any(hasattr(value, kind) for kind in kinds)
    good = good and not isinstance(value, type)
    require(good, name, "an array, a data frame or a list", value)
