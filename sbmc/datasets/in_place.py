"""Arrays that are read in place: rows are converted when they are used, and never all at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import is_number, require
from sbmc.storage.arrays import require_numeric, require_plain, require_unmasked
from sbmc.storage.lazy_rows import ArrayReader, LazyRows, RowReader, TensorReader


def rows_in_place(
    array: Any, *, dtype: torch.dtype = torch.float32, scale: float | None = None
) -> Tensor:
    """A tensor whose rows are read from an array, and converted, when they are used.

    Args:
        array: `(rows, ...)`, mapped from a file or in memory: an array of numpy, such as
            `np.load("x.npy", mmap_mode="r")`, or a tensor on the CPU. It must not change.
        dtype: of the rows as they are given.
        scale: what the converted numbers are multiplied by, such as 1/255 for pixels.

    Returns:
        Inputs for `fit`, `predict` and the others. Slices and selections of its rows are ordinary
        tensors.

    Raises:
        BadInput: it is no array of plain numbers with rows, or `dtype` or `scale` break their
            rules.

    Examples:
        >>> pixels = np.full((4, 2), 255, np.uint8)
        >>> rows_in_place(pixels, scale=1 / 255)[:1]
        tensor([[1., 1.]])
    """
    require(isinstance(dtype, torch.dtype), "dtype", "a torch.dtype", dtype)
    good = scale is None or (is_number(scale) and math.isfinite(scale))
    require(good, "scale", "a finite number", scale)
    rule = "left out where rows are not floating-point numbers"
    require(scale is None or dtype.is_floating_point, "scale", rule, scale)
    known = isinstance(array, Tensor | np.ndarray)
    require(known, "array", "an array of numpy or a tensor", array)
    reader: RowReader
    if isinstance(array, Tensor):
        require_plain(array, "array")
        require(array.device.type == "cpu", "array", "on the CPU", array.device.type)
        reader = TensorReader(array.detach())
    else:
        require_unmasked(array, "array")
        require_numeric(array, "array")
        reader = ArrayReader(np.asarray(array))
    good = len(reader.shape) > 0 and reader.shape[0] > 0
    require(good, "array", "one with rows", tuple(reader.shape))
    return LazyRows(reader, "inputs", dtype, None if scale is None else float(scale))
