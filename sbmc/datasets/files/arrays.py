"""Arrays in an `.npz` file: inputs and targets by their usual names, or by names that are given."""

from __future__ import annotations

import zipfile
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require, require_path
from sbmc.datasets.files.rows import Rows, TargetUse

# What people call them, in the order in which they are looked for.
USUAL_NAMES = (("inputs", "targets"), ("x", "y"), ("X", "y"))


class ArrayNames(NamedTuple):
    """What inputs and targets are called in a file."""

    inputs: str
    targets: str


def read_arrays(
    path: str | PathLike[str],
    *,
    inputs: str | None = None,
    targets: str | None = None,
    target_use: TargetUse = "optional",
) -> tuple[Rows, ArrayNames]:
    """Read inputs, and targets if there are any, from an `.npz` file.

    Args:
        path: the file.
        inputs: what the array of inputs is called; if not given, `inputs` or `x`.
        targets: what the array of targets is called; if not given, `targets` or `y`. A file
            without it has none.
        target_use: `"ignored"` does not look at targets, `"required"` refuses a file without.

    Returns:
        The rows, and what their arrays are called. Real numbers become torch's default dtype.

    Raises:
        BadInput: no such file or array, arrays that are no numbers or of different lengths.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/train.npz", x=np.zeros((4, 3)), y=np.arange(4))
        ...     rows, names = read_arrays(f"{folder}/train.npz")
        >>> rows.inputs.shape, rows.targets.dtype, names.inputs
        (torch.Size([4, 3]), torch.int64, 'x')
    """
    arrays = load_npz(path)
    names = _names(arrays, inputs, targets)
    _require_array(arrays, names.inputs, "inputs", inputs is not None)
    if target_use == "required":
        _require_array(arrays, names.targets, "targets", targets is not None)
    values = as_rows(arrays[names.inputs], names.inputs)
    looked_for = target_use != "ignored" and names.targets in arrays
    known = as_rows(arrays[names.targets], names.targets) if looked_for else None
    if known is not None:
        rule = f"of as many rows as {names.inputs!r}, {len(values):,}"
        require(len(known) == len(values), "targets", rule, Phrase(f"{len(known):,} rows"))
        finite = not known.is_floating_point() or bool(torch.isfinite(known).all())
        require(finite, "targets", "finite", Phrase("NaN or infinity"))
    numbers = [str(index + 1) for index in range(len(values))]
    return Rows(values, known, numbers, "row", Path(path).name), names


def load_npz(path: str | PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of an `.npz` file by name.

    Raises:
        BadInput: there is no such file, or it is damaged or of another kind.
    """
    file_path = require_path("data", path).expanduser()
    require(file_path.is_file(), "data", "an .npz file that exists", str(path))
    try:
        with np.load(file_path, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        # NumPy's own message advises to unpickle it.
        raise BadInput(f"`data` must be a readable .npz file, but got {str(path)!r}.") from error


def _names(arrays: dict[str, np.ndarray], inputs: str | None, targets: str | None) -> ArrayNames:
    usual = next((pair for pair in USUAL_NAMES if pair[0] in arrays), USUAL_NAMES[0])
    return ArrayNames(inputs or usual[0], targets or usual[1])


def _require_array(arrays: dict[str, np.ndarray], name: str, argument: str, given: bool) -> None:
    got = Phrase(f"{', '.join(map(repr, arrays)) or 'none'}; name it with --{argument}")
    rule = f"a file with an array {name!r}"
    require(name in arrays, argument if given else "data", rule, got)


def as_rows(array: np.ndarray, name: str) -> Tensor:
    """An array `(rows, ...)` of numbers as a tensor; real numbers get torch's default dtype.

    Args:
        array: to convert.
        name: what messages call it.

    Returns:
        The tensor.

    Raises:
        BadInput: it is empty or has no numbers.
    """
    good = array.ndim >= 1 and array.size > 0 and array.dtype.kind in "fiub"
    shown = Phrase(f"{name} of shape {array.shape} and dtype {array.dtype}")
    require(good, "data", "a file with arrays (rows, ...) of numbers", shown)
    if array.dtype.kind == "u" and array.dtype != np.uint8:
        array = array.astype(np.int64)
    values = torch.from_numpy(np.ascontiguousarray(array))
    return values.to(torch.get_default_dtype()) if array.dtype.kind == "f" else values
