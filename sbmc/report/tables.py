"""Tables: a caption, headings with a scope, and the exact value of every number beside its text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sbmc.report.markup import Html, el, join
from sbmc.report.numbers import MISSING, short


@dataclass(frozen=True)
class Cell:
    """A cell.

    Attributes:
        text: what is read.
        value: what it is sorted by; the exact number.
        note: a class of style sheet, such as `"good"`.
    """

    text: object
    value: float | str | None = None
    note: str | None = None


def number(value: float | None, digits: int = 3) -> Cell:
    """A cell of a plain number."""
    if value is None or not math.isfinite(value):
        return Cell(MISSING)
    return Cell(short(value, digits), value)


@dataclass(frozen=True)
class Table:
    """A table as data; `table` makes it a part of a page.

    Attributes:
        headings: of the columns; the first column names the rows.
        rows: of cells: `Cell`, or anything that is shown as it is.
        curves: whether each row is a point of several curves, which readers have no need to sort.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    curves: bool = False

    def render(self, caption: str) -> Html:
        """The table as a part of a page."""
        return table(
            caption,
            self.headings,
            plain_rows(self.rows),
            sortable=not self.curves,
            class_="curves" if self.curves else None,
        )


def table(
    caption: object,
    headings: Sequence[object],
    groups: Iterable[Sequence[Sequence[object]]],
    *,
    sortable: bool = True,
    quiet: Sequence[int] = (1,),
    class_: str | None = None,
) -> Html:
    """A table whose rows come in groups that stay together when it is sorted.

    Args:
        caption: what it shows.
        headings: of the columns; the first column names the rows.
        groups: of rows of cells: `Cell`, or anything that is shown as it is.
        sortable: whether the script may let readers sort it.
        quiet: which rows of a group are in grey, such as the paper's below ours.
        class_: further classes.

    Returns:
        The table, in a box that scrolls sideways where it is too wide and that the keyboard
        reaches.
    """
    row_groups = [[list(cells) for cells in group] for group in groups]
    columns = len(headings)
    numeric = [_is_numeric(row_groups, column) for column in range(columns)]
    head = [
        el("th", each, scope="col", class_="number" if is_number else None)
        for each, is_number in zip(headings, numeric, strict=True)
    ]
    bodies = []
    for group in row_groups:
        rows = []
        for index, cells in enumerate(group):
            first, *others = cells
            start = first if isinstance(first, Cell) else Cell(first)
            row_cells = [_cell("th", start, scope="row")]
            row_cells += [_cell("td", c if isinstance(c, Cell) else Cell(c)) for c in others]
            row_cells += [el("td")] * (columns - len(cells))
            rows.append(el("tr", *row_cells, class_="quiet" if index in quiet else None))
        bodies.append(el("tbody", *rows))
    inner = el(
        "table",
        el("caption", caption),
        el("thead", el("tr", *head)),
        *bodies,
        class_=" ".join(filter(None, ("sortable" if sortable and len(bodies) > 1 else "", class_)))
        or None,
    )
    label = f"Table: {caption}" if not isinstance(caption, Html) else "Table"
    return el("div", inner, class_="scroll", tabindex="0", role="group", aria_label=label)


def _is_numeric(groups: Sequence[Sequence[Sequence[object]]], column: int) -> bool:
    """Whether a column, but for the first, has numbers in it and nothing else."""
    cells = [row[column] for group in groups for row in group[:1] if column < len(row)]
    kinds = [
        isinstance(c, Cell) and (isinstance(c.value, int | float) or c.text == MISSING)
        for c in cells
    ]
    return column > 0 and bool(kinds) and all(kinds)


def plain_rows(rows: Iterable[Sequence[object]]) -> list[list[Sequence[object]]]:
    """Each row a group of its own."""
    return [[row] for row in rows]


def facts(pairs: Iterable[tuple[object, object]]) -> Html:
    """A list of names and what belongs to them."""
    return el("dl", *(el("div", el("dt", name), el("dd", value)) for name, value in pairs))


def _cell(tag: str, cell: Cell, scope: str | None = None) -> Html:
    value = cell.value
    if isinstance(value, float) and not math.isfinite(value):
        value = None
    exact = None if value is None else value if isinstance(value, str) else repr(float(value))
    # A cell with an exact number needs no class to look like one: there are many of them.
    kind = "number" if value is None and cell.text == MISSING else None
    kind = "words" if isinstance(value, str) else kind
    classes = " ".join(filter(None, (kind if tag == "td" else None, cell.note))) or None
    return el(tag, _breakable(cell.text), scope=scope, class_=classes, data_v=exact)


def _breakable(text: object) -> object:
    """A mean and its error may stand below each other where a table is too wide."""
    if isinstance(text, Html) or not isinstance(text, str) or "±" not in text:
        return text
    mean, sign, error = text.partition("±")
    return join((mean, Html("<wbr>"), sign, error))
