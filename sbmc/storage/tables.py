"""Numbers of pandas' tables and columns, without importing pandas."""

from __future__ import annotations

from typing import Any

import numpy as np

from sbmc.checks import BadInput, Phrase, require

# Names in a message, at most.
_SHOWN = 5


def is_table(value: Any) -> bool:
    """Whether it is a DataFrame or a Series: of pandas, or of a package with the same methods."""
    return hasattr(value, "to_numpy") and not isinstance(value, type)


def without_table(value: Any, name: str) -> Any:
    """The numbers of a DataFrame or a Series as an array that torch takes; all else as it is.

    Rows are taken in their order, whatever the index says. Integers stay integers if all columns
    have them. Missing values become NaN.

    Args:
        value: what a user gave.
        name: what error messages call it.

    Returns:
        `(rows, columns)` of a DataFrame, `(rows,)` of a Series.

    Raises:
        BadInput: columns that are no numbers; the message has their names.

    Examples:
        >>> import pandas
        >>> without_table(pandas.DataFrame({"age": [31, 45], "member": [True, False]}), "inputs")
        array([[31,  1],
               [45,  0]])
    """
    if not is_table(value):
        return value
    if not hasattr(value, "columns"):
        _require_numbers([(getattr(value, "name", None), value)], name, "pandas.factorize(it)[0]")
        return _numbers(value)
    if not hasattr(value, "items"):  # a table of another package
        return value.to_numpy()
    columns = list(value.items())
    _require_numbers(columns, name, "pandas.get_dummies(frame, dtype=float)")
    require(bool(columns), name, "a table with columns", Phrase("none"))
    return np.stack([_numbers(column) for _, column in columns], axis=1)


def _require_numbers(columns: list[tuple[Any, Any]], name: str, remedy: str) -> None:
    others = [(key, each.dtype) for key, each in columns if _kind(each) not in "biuf"]
    if others:
        shown = ", ".join(
            f"{'one without a name' if key is None else repr(key)} ({dtype})"
            for key, dtype in others[:_SHOWN]
        )
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        raise BadInput(
            f"`{name}` must be numeric, but got columns that are not: {shown}{more}. Leave them "
            f"out, or make numbers of them, for example by {remedy}."
        )


def _kind(column: Any) -> str:
    """The letter that numpy has for a kind of dtype; pandas' own dtypes have it too."""
    return getattr(column.dtype, "kind", None) or column.to_numpy().dtype.kind


def _numbers(column: Any) -> np.ndarray:
    values = column.to_numpy()
    if values.dtype.kind == "O":
        # Columns that may have missing values, such as "boolean", are objects for numpy.
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return _writeable(values)


def _writeable(values: np.ndarray) -> np.ndarray:
    # torch warns of memory that it must not write to, as that of `column.to_numpy()` is.
    return values if values.flags.writeable else values.copy()
