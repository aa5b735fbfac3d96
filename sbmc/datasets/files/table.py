"""Tables as text: CSV and TSV by Python's own reader, Parquet by pandas."""

from __future__ import annotations

import csv
import gzip
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from sbmc.checks import BadInput, Phrase, describe_value, nearest, require, require_path
from sbmc.storage.optional import load_pandas

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
# Rows in a message, at most.
_SHOWN = 5


@dataclass(frozen=True)
class TextTable:
    """A table whose cells are text, as they stand in the file.

    Attributes:
        columns: the cells of each column by its name, in the order of the file.
        source: the name of the file, for messages.

    Examples:
        >>> table = TextTable({"age": ("31", "45"), "label": ("yes", "no")}, "people.csv")
        >>> len(table), table.names
        (2, ('age', 'label'))
    """

    columns: Mapping[str, Sequence[str]]
    source: str

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    def column(self, name: str, argument: str = "data") -> Sequence[str]:
        """The cells of a column.

        Args:
            name: of the column.
            argument: what error messages call what was asked for.

        Returns:
            The cells.

        Raises:
            BadInput: there is no such column; the message lists those that there are.
        """
        if name not in self.columns:
            known = ", ".join(map(repr, self.names))
            hint = nearest(name, self.names)
            raise BadInput(
                f"`{argument}` must be a column of {self.source}, which has {known}, but got "
                f"{describe_value(name)}.{hint}"
            )
        return self.columns[name]

    def row(self, index: int, names: Iterable[str] | None = None) -> dict[str, str]:
        """The cells of a row by the names of their columns, those of `names` or all."""
        return {name: self.columns[name][index] for name in names or self.names}


def read_table(path: str | PathLike[str]) -> TextTable:
    """Read a table with a line of names at its top.

    Args:
        path: a file `.csv` or `.tsv`, perhaps with `.gz`, in UTF-8; or `.parquet`, which needs
            pandas. A `.csv` whose first line has no comma may have semicolons or tabs instead.

    Returns:
        The table. Its first row is number 1 in all messages; the line of names has no number.

    Raises:
        BadInput: there is no such file, it is of another kind, it has no rows, or a row has more or
            fewer cells than there are names.
    """
    file_path = require_path("data", path).expanduser()
    require(file_path.exists(), "data", "a file that exists", str(path))
    kind = file_path.name.lower()
    rule = f"a table that ends in {', '.join(TABLES)}"
    require(kind.endswith(TABLES) and file_path.is_file(), "data", rule, str(path))
    if kind.endswith(".parquet"):
        return _from_parquet(file_path)
    try:
        with _open(file_path) as file:
            lines = _lines(file, "\t" if ".tsv" in kind else ",")
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, csv.Error) as error:
        rule = "a table in UTF-8 with commas, semicolons or tabs"
        raise BadInput(f"`data` must be {rule}, but got {str(path)!r} ({error}).") from None
    return _table(lines, file_path)


def row_numbers(indices: Iterable[int]) -> str:
    """Rows as they are called in messages: their numbers from 1, the first few of them.

    Examples:
        >>> row_numbers([3]), row_numbers(range(7))
        ('row 4', 'rows 1, 2, 3, 4, 5 and 2 more')
    """
    numbers = [index + 1 for index in indices]
    if len(numbers) == 1:
        return f"row {numbers[0]}"
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"rows {', '.join(map(str, numbers[:_SHOWN]))}{more}"


def _open(path: Path) -> TextIO:
    # Spreadsheets write a mark before the first byte.
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _lines(file: TextIO, separator: str) -> list[list[str]]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    first = file.readline()
    if separator not in first:
        separator = next((each for each in ("\t", ";") if each in first), separator)
    lines = list(csv.reader([first], delimiter=separator, strict=True))
    lines += csv.reader(file, delimiter=separator, strict=True)
    return [[cell.strip() for cell in line] for line in lines if line]


def _table(lines: list[list[str]], path: Path) -> TextTable:
    require(bool(lines), "data", "a table with a line of names", Phrase(f"{path.name}, empty"))
    names, rows = lines[0], lines[1:]
    for name, times in Counter(names).items():
        shown = Phrase(f"{path.name}, where {times} columns are called {name!r}")
        require(times == 1, "data", "a table whose columns have different names", shown)
    shown = Phrase(
        f"{path.name}, whose column {names.index('') + 1 if '' in names else 0} has none"
    )
    require("" not in names, "data", "a table whose columns all have names", shown)
    require(bool(rows), "data", "a table with rows", Phrase(f"{path.name}, with names alone"))
    odd = [index for index, row in enumerate(rows) if len(row) != len(names)]
    if odd:
        shown = Phrase(f"{path.name}, where {row_numbers(odd)} has {len(rows[odd[0]])}")
        require(False, "data", f"a table with {len(names)} cells in every row", shown)
    columns = zip(*rows, strict=True)
    return TextTable(dict(zip(names, columns, strict=True)), path.name)


def _from_parquet(path: Path) -> TextTable:
    try:
        pandas = load_pandas()
        frame = pandas.read_parquet(path)
    except ImportError as error:
        raise BadInput(
            f"`data` must be a .csv or .tsv file where pandas and pyarrow are not installed, but "
            f"got {str(path)!r}. Install them: pip install 'sbmc[pandas]' pyarrow."
        ) from error
    except Exception as error:  # pyarrow has errors of its own for damaged files
        raise BadInput(f"`data` must be a readable table, but got {str(path)!r}.") from error
    names = [str(name) for name in frame.columns]
    cells = [[_cell(value) for value in frame[name].tolist()] for name in frame.columns]
    return _table([names, *map(list, zip(*cells, strict=True))], path)


def _cell(value: Any) -> str:
    if value is None or value != value or str(value) in ("NaT", "<NA>"):
        return ""
    return str(value)
