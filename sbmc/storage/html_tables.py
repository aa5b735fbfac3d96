"""Small tables in HTML for notebooks: escaped, without scripts, in the notebook's own colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

# Notebooks align cells to the right, which suits numbers and not sentences.
_LEFT = ' style="text-align:left"'


def html_table(
    rows: Iterable[Sequence[str]],
    *,
    caption: str,
    headings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """A table in HTML.

    Args:
        rows: the cells of each row, as text.
        caption: what the table is about.
        headings: of the columns; without them the first cell of a row is its heading.
        notes: sentences below the table.

    Returns:
        The table, with every text escaped; without rows, caption and notes alone.

    Examples:
        >>> html_table([["s", "0.1"]], caption="run").count("<th")
        1
    """
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    rows = list(rows)
    if not rows:  # the caption of an empty table would be as narrow as that
        return f"<p>{escape(caption)}</p>{below}"
    lines = [f"<caption{_LEFT}>{escape(caption)}</caption>"]
    if headings:
        lines.append(_row([("th", each) for each in headings]))
    for first, *others in rows:
        cells = [("td" if headings else "th", first), *(("td", each) for each in others)]
        lines.append(_row(cells))
    return f"<table>{''.join(lines)}</table>{below}"


def _row(cells: Iterable[tuple[str, str]]) -> str:
    inner = "".join(f"<{tag}{_LEFT}>{escape(text)}</{tag}>" for tag, text in cells)
    return f"<tr>{inner}</tr>"
