"""Rows of a request as a tensor: numbers in the shape of the inputs, or the cells of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import describe_value
from sbmc.datasets.files.encoding import Column, TableEncoding
from sbmc_serve.refusals import BREAKS_A_RULE, Refused, breaks, hint

ROWS = "inputs"


def read_numbers(rows: Sequence[Any], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Read rows of nested lists.

    Args:
        rows: each has numbers in lists, nested as `shape` says.
        shape: of one row.
        dtype: of the tensor.

    Returns:
        `(rows, *shape)`.

    Raises:
        Refused: a row has another shape, something else than numbers, or numbers that the dtype
            cannot hold; the argument says where.

    Examples:
        >>> read_numbers([[1, 2], [3, 4.5]], [2], torch.float32)
        tensor([[1.0000, 2.0000],
                [3.0000, 4.5000]])
        >>> read_numbers([[1, 2], [3]], [2], torch.float32)
        Traceback (most recent call last):
        ...
        sbmc_serve.refusals.Refused: `inputs[1]` must be a list of 2 numbers, but got a list of 1. \
Send rows in the shape [2].
    """
    values: Sequence[Any] = rows
    sizes = (len(rows), *shape)
    for axis, size in enumerate(shape):
        for index, value in enumerate(values):
            if type(value) is not list or len(value) != size:
                what = "numbers" if axis == len(shape) - 1 else "lists"
                raise _misshapen(_path(index, sizes[: axis + 1]), size, what, value, shape)
        values = list(chain.from_iterable(values))
    whole = not dtype.is_floating_point
    kinds = {int} if whole else {int, float}
    if not set(map(type, values)) <= kinds:
        index = next(i for i, value in enumerate(values) if type(value) not in kinds)
        rule = "a whole number" if whole else "a number"
        raise _no_number(_path(index, sizes), rule, values[index])
    try:
        array = np.array(values, dtype=np.int64 if whole else np.float64)
    except OverflowError:
        array = None
    if array is not None:
        tensor = torch.from_numpy(array).to(dtype)
        if bool((tensor.isfinite() if not whole else tensor == torch.from_numpy(array)).all()):
            return tensor.reshape(sizes)
    index = next(i for i, value in enumerate(values) if not _fits(value, dtype))
    name = str(dtype).removeprefix("torch.")
    raise breaks(
        _path(index, sizes),
        f"a number that {name} can hold",
        values[index],
        "Send numbers in the range of the training data; /info shows it.",
    )


def read_cells(rows: Sequence[Any], encoding: TableEncoding, dtype: torch.dtype) -> Tensor:
    """Read rows of a table.

    Args:
        rows: each is an object by the names of the columns, or a list in their order.
        encoding: of the table that the posterior was fitted to.
        dtype: of the tensor.

    Returns:
        `(rows, width)`: numbers as they are, and text as 0 and 1 for each of its values.

    Raises:
        Refused: a column is missing or unknown, a number is none or not finite, or a text is none
            of those that the training table had.

    Examples:
        >>> encoding = TableEncoding((Column("size"), Column("colour", ("blue", "red"))), "y", None)
        >>> read_cells([{"size": 2, "colour": "red"}, [3, "blue"]], encoding, torch.float32)
        tensor([[2., 0., 1.],
                [3., 1., 0.]])
    """
    columns = encoding.columns
    cells = np.zeros((len(rows), encoding.width))
    for number, row in enumerate(rows):
        where = f"{ROWS}[{number}]"
        start = 0
        for column, value in zip(columns, _in_order(row, columns, where), strict=True):
            name = f"{where}[{column.name!r}]"
            if column.levels:
                cells[number, start + _level(value, column, name)] = 1.0
            else:
                cells[number, start] = _number(value, name)
            start += column.width
    tensor = torch.from_numpy(cells).to(dtype)
    if not bool(tensor.isfinite().all()):
        number = int((~tensor.isfinite()).any(1).nonzero()[0])
        name = str(dtype).removeprefix("torch.")
        raise breaks(
            f"{ROWS}[{number}]",
            f"numbers that {name} can hold",
            rows[number],
            "Send numbers in the range of the training data; /info shows it.",
        )
    return tensor


def _in_order(row: Any, columns: Sequence[Column], where: str) -> list[Any]:
    names = [column.name for column in columns]
    shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    if isinstance(row, list):
        if len(row) != len(names):
            raise Refused(
                BREAKS_A_RULE,
                where,
                f"a list of {len(names)} cells",
                f"one of {len(row):,}",
                f"Send the cells of {shown}, in this order, or an object by these names.",
            )
        return row
    if not isinstance(row, dict):
        rule = "an object by the names of the columns, or a list in their order"
        raise breaks(where, rule, row, f"The columns are {shown}.")
    unknown = next((name for name in row if name not in names), None)
    if unknown is not None:
        raise breaks(
            where,
            f"an object with the columns {shown}",
            unknown,
            f"Leave it out.{hint(unknown, names)}",
        )
    lacking = next((name for name in names if name not in row), None)
    if lacking is not None:
        raise Refused(
            BREAKS_A_RULE,
            where,
            f"an object with the columns {shown}",
            f"one without {lacking!r}",
            "Missing values are not guessed: send all columns.",
        )
    return [row[name] for name in names]


def _level(value: Any, column: Column, name: str) -> int:
    if isinstance(value, str) and value in column.levels:
        return column.levels.index(value)
    known = ", ".join(map(repr, column.levels[:10])) + (", ..." if len(column.levels) > 10 else "")
    remedy = hint(value, column.levels) if isinstance(value, str) else " Send it as text."
    raise breaks(name, f"one of {known}", value, f"Training had no other values.{remedy}")


def _number(value: Any, name: str) -> float:
    if type(value) in (int, float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise _no_number(name, "a finite number", value)


def _no_number(where: str, rule: str, value: Any) -> Refused:
    remedy = f"Send {rule}."
    if value is None:
        remedy = f"Missing values are not guessed: send {rule}."
    elif isinstance(value, str):
        remedy = f"Send {rule}, without quotes."
    return breaks(where, rule, value, remedy)


def _misshapen(where: str, size: int, what: str, value: Any, shape: Sequence[int]) -> Refused:
    got = f"a list of {len(value):,}" if isinstance(value, list) else describe_value(value)
    return Refused(
        BREAKS_A_RULE,
        where,
        f"a list of {size:,} {what}",
        got,
        f"Send rows in the shape {list(shape)}.",
    )


def _path(index: int, sizes: Sequence[int]) -> str:
    """Where a value stands: `inputs[row][...]`, from its index among all of its level."""
    places = [int(place) for place in np.unravel_index(index, tuple(sizes))]
    return ROWS + "".join(f"[{place}]" for place in places)


def _fits(value: float, dtype: torch.dtype) -> bool:
    try:
        if dtype.is_floating_point:
            return bool(torch.tensor(float(value), dtype=torch.float64).to(dtype).isfinite())
        return int(torch.tensor(value, dtype=torch.int64).to(dtype)) == value
    except (OverflowError, RuntimeError, ValueError):
        return False
