"""The encoding of a table: which numbers stand for its cells, learned once and kept in the file."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from sbmc.checks import BadInput, Phrase, require
from sbmc.datasets.files.rows import Rows, TargetUse
from sbmc.datasets.files.table import TextTable, row_numbers

# The target, if a column has one of these names and no other is given.
TARGETS = ("label", "target", "y")
# What stands for a value that is not known, in any case of letters.
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none"))
# A text column has at most so many different values: more are names or sentences.
MOST_LEVELS = 100
# Whole numbers with at most so many different values could be classes or numbers.
FEW_VALUES = 20
# Values in a message, at most.
_SHOWN = 5


class UnknownLevelWarning(UserWarning):
    """A text column has a value that the training table had not."""


@dataclass(frozen=True)
class Column:
    """A column of inputs.

    Attributes:
        name: of the column.
        levels: the values of a column of text, each of which is a number of its own, 0 or 1; empty
            for a column of numbers.
    """

    name: str
    levels: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers stand for a cell."""
        return len(self.levels) or 1


@dataclass(frozen=True)
class TableEncoding:
    """How the cells of a table become inputs and targets.

    Columns of numbers stay as they are; a column of text becomes a 0 or 1 for each of its values
    (one-hot). `learn` makes an encoding from the table to train on, and the same encoding reads
    every later table. Nothing is standardised here: `sbmc.SBMCClassifier` and `SBMCRegressor` do
    that, and remember it.

    Attributes:
        columns: of the inputs, in the order of the training table.
        target: the name of the target's column.
        classes: the names of the classes; None if targets are numbers.

    Examples:
        >>> cells = {"size": ("1", "2.5"), "colour": ("red", "blue"), "y": ("no", "yes")}
        >>> table = TextTable(cells, "things.csv")
        >>> encoding = TableEncoding.learn(table)
        >>> encoding.inputs(table)
        array([[1. , 0. , 1. ],
               [2.5, 1. , 0. ]])
        >>> encoding.classes, encoding.targets(table)
        (('no', 'yes'), array([0, 1]))
    """

    columns: tuple[Column, ...]
    target: str
    classes: tuple[str, ...] | None

    @classmethod
    def learn(
        cls,
        table: TextTable,
        *,
        target: str | None = None,
        classes: bool | None = None,
        drop: Collection[str] = (),
    ) -> TableEncoding:
        """Learn the encoding from the table to train on.

        Args:
            table: with the target among its columns.
            target: its name; if not given, `label`, `target` or `y`, whichever is there.
            classes: whether targets are classes. If not given, text is, and so are whole numbers
                in a column called `label`; numbers of more than 20 different values, or with
                decimals, are not.
            drop: columns to leave out.

        Returns:
            The encoding.

        Raises:
            BadInput: no such column; missing values; a text column with more than 100 different
                values; or few whole numbers as targets, which could be either.
        """
        name = _find_target(table, target)
        for each in drop:
            table.column(each, "drop")
        require(name not in drop, "drop", "columns other than the target", name)
        inputs = [each for each in table.names if each != name and each not in drop]
        shown = Phrase(f"{table.source}, which has the target {name!r} alone")
        require(bool(inputs), "data", "a table with columns to learn from", shown)
        columns = tuple(_learn_column(table, each) for each in inputs)
        return cls(columns, name, _learn_classes(table, name, classes))

    @property
    def width(self) -> int:
        """How many inputs a row has."""
        return sum(column.width for column in self.columns)

    @property
    def input_names(self) -> tuple[str, ...]:
        """A name for each input: that of its column, and for text its value behind it."""
        names: list[str] = []
        for column in self.columns:
            names += [f"{column.name}={level}" for level in column.levels] or [column.name]
        return tuple(names)

    def inputs(self, table: TextTable) -> np.ndarray:
        """The inputs `(rows, width)`, float64.

        A value of text that training had not has a 0 in all of its column's places, with a warning.

        Args:
            table: with all columns of the inputs; others are ignored.

        Returns:
            The numbers.

        Raises:
            BadInput: a column is missing, a cell is empty, or text stands where numbers were.
        """
        lacking = [each.name for each in self.columns if each.name not in table.columns]
        if lacking:
            missing = ", ".join(map(repr, lacking[:_SHOWN]))
            raise BadInput(
                "`data` must be a table with the columns that the posterior was fitted to, but got "
                f"{table.source}, which lacks {missing} and has "
                f"{', '.join(map(repr, table.names))}."
            )
        return np.concatenate([_encode(table, column) for column in self.columns], axis=1)

    def targets(self, table: TextTable) -> np.ndarray:
        """The targets `(rows,)`: the numbers of classes as int64, or numbers as float64.

        Raises:
            BadInput: no such column, an empty cell, or a class that training had not.
        """
        cells = table.column(self.target, "target")
        _require_present(table, self.target, cells)
        if self.classes is None:
            return _numbers(table, self.target, cells)
        index = {name: number for number, name in enumerate(self.classes)}
        names = [_class_text(cell, self.classes) for cell in cells]
        unknown = [row for row, name in enumerate(names) if name not in index]
        if unknown:
            raise BadInput(
                f"`data` must be of the classes {', '.join(self.classes[:MOST_LEVELS])}, but got "
                f"{names[unknown[0]]!r} in column {self.target!r} of {table.source} "
                f"({row_numbers(unknown)})."
            )
        return np.array([index[name] for name in names], dtype=np.int64)

    def rows(self, table: TextTable, *, target_use: TargetUse = "optional") -> Rows:
        """A table as tensors, with its targets if it has them.

        Args:
            table: to read.
            target_use: `"ignored"` does not look at targets, `"required"` refuses a table without.

        Returns:
            The rows: float64 inputs, and labels or numbers.

        Raises:
            BadInput: as for `inputs` and `targets`.
        """
        targets = None
        there = target_use == "optional" and self.target in table.columns
        if target_use == "required" or there:
            targets = torch.from_numpy(self.targets(table))
        names = [column.name for column in self.columns]

        def describe(index: int) -> str:
            return ", ".join(f"{name} {cell}" for name, cell in table.row(index, names).items())

        return Rows(
            torch.from_numpy(self.inputs(table)),
            targets,
            [str(index + 1) for index in range(len(table))],
            "row",
            table.source,
            describe,
            self.classes,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TableEncoding:
        """The encoding that `as_dict` described."""
        columns = tuple(
            Column(str(each["name"]), tuple(map(str, each["levels"])))
            for each in content["columns"]
        )
        classes = content["classes"]
        return cls(
            columns, str(content["target"]), None if classes is None else tuple(map(str, classes))
        )


def as_number(cell: str) -> float | None:
    """The number that a cell has, or None.

    Examples:
        >>> as_number("2.5e3"), as_number("1_000"), as_number("two")
        (2500.0, None, None)
    """
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _find_target(table: TextTable, target: str | None) -> str:
    if target is not None:
        table.column(target, "target")
        return target
    usual = [name for name in TARGETS if name in table.columns]
    if len(usual) == 1:
        return usual[0]
    known = ", ".join(map(repr, table.names))
    got = "several of these" if usual else "none of these"
    raise BadInput(
        f"`target` must be given unless one column is called {', '.join(TARGETS)}, but got {got} "
        f"in {table.source}. Give --target one of {known}."
    )


def _require_present(table: TextTable, name: str, cells: Sequence[str]) -> None:
    empty = [row for row, cell in enumerate(cells) if cell.lower() in MISSING]
    if empty:
        raise BadInput(
            f"`data` must be a table without missing values, but got {len(empty):,} in column "
            f"{name!r} of {table.source} ({row_numbers(empty)}). Fill them in, or leave out these "
            "rows or the column (--drop)."
        )


def _learn_column(table: TextTable, name: str) -> Column:
    cells = table.column(name)
    _require_present(table, name, cells)
    text = [row for row, cell in enumerate(cells) if as_number(cell) is None]
    if not text:
        _numbers(table, name, cells)
        return Column(name)
    levels = sorted(set(cells))
    if len(levels) > MOST_LEVELS:
        raise BadInput(
            f"`data` must be a table whose text columns have at most {MOST_LEVELS} different "
            f"values, but got {len(levels):,} in column {name!r} of {table.source} "
            f"({row_numbers(text[:1])}: {cells[text[0]][:60]!r}). Correct it, or leave it out: "
            f"--drop {name!r}."
        )
    return Column(name, tuple(levels))


def _numbers(table: TextTable, name: str, cells: Sequence[str]) -> np.ndarray:
    values = [as_number(cell) for cell in cells]
    text = [row for row, value in enumerate(values) if value is None]
    if text:
        raise BadInput(
            f"`data` must be numbers in column {name!r}, as the posterior was fitted to, but got "
            f"{cells[text[0]][:60]!r} in {table.source} ({row_numbers(text)})."
        )
    infinite = [row for row, value in enumerate(values) if not math.isfinite(value or 0.0)]
    if infinite:
        raise BadInput(
            f"`data` must be finite, but got {cells[infinite[0]]!r} in column {name!r} of "
            f"{table.source} ({row_numbers(infinite)})."
        )
    return np.array(values, dtype=np.float64)


def _encode(table: TextTable, column: Column) -> np.ndarray:
    cells = table.column(column.name)
    _require_present(table, column.name, cells)
    if not column.levels:
        return _numbers(table, column.name, cells)[:, None]
    encoded = np.array([[cell == level for level in column.levels] for cell in cells], dtype=float)
    unknown = [int(row) for row in np.flatnonzero(encoded.sum(axis=1) == 0)]
    if unknown:
        values = sorted({cells[row][:60] for row in unknown})
        more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
        warnings.warn(
            f"Column {column.name!r} of {table.source} has values that training had not: "
            f"{', '.join(map(repr, values[:_SHOWN]))}{more} ({row_numbers(unknown)}). They count "
            "as none of those that it had.",
            UnknownLevelWarning,
            stacklevel=3,
        )
    return encoded


def _learn_classes(table: TextTable, name: str, classes: bool | None) -> tuple[str, ...] | None:
    cells = table.column(name, "target")
    _require_present(table, name, cells)
    values = [as_number(cell) for cell in cells]
    distinct = len(set(cells))
    if classes is None:
        whole = all(value is not None and value.is_integer() for value in values)
        classes = None in values or (whole and name == "label")
        if whole and not classes and distinct <= FEW_VALUES:
            shown = ", ".join(sorted(set(cells))[:_SHOWN])
            raise BadInput(
                "`likelihood` must be given for a target of few whole numbers, but got nothing for "
                f"{name!r} of {table.source} ({shown}{', ...' if distinct > _SHOWN else ''}). Give "
                "--likelihood categorical if they are classes, --likelihood gaussian-network if "
                "they are numbers."
            )
    if not classes:
        text = [row for row, value in enumerate(values) if value is None]
        if text:
            raise BadInput(
                f"`likelihood` must be 'categorical' for a target of text, but got one of numbers "
                f"for {name!r} of {table.source} ({row_numbers(text[:1])}: "
                f"{cells[text[0]][:60]!r})."
            )
        _numbers(table, name, cells)
        return None
    names = {_class_text(cell, None) for cell in cells}
    shown = Phrase(f"{len(names)} in column {name!r} of {table.source}")
    require(len(names) > 1, "data", "of two classes or more", shown)
    if all(as_number(each) is not None for each in names):
        return tuple(sorted(names, key=float))
    return tuple(sorted(names))


def _class_text(cell: str, classes: Collection[str] | None) -> str:
    """The name of a class: text as it is, and whole numbers without decimals (`1.0` is `1`)."""
    if classes is not None and cell in classes:
        return cell
    value = as_number(cell)
    if value is not None and math.isfinite(value) and value.is_integer():
        return str(int(value))
    return cell
