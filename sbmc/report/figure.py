"""A figure: heading, what to see in it, key, picture, and its data as a table."""

from __future__ import annotations

from collections.abc import Sequence

from sbmc.report.markup import Html, el
from sbmc.report.numbers import short
from sbmc.report.tables import number, plain_rows, table


def figure(
    title: str,
    caption: object,
    picture: Html,
    data: Html,
    *,
    legend: Html | None = None,
    wide: bool = False,
) -> Html:
    """Put a figure together.

    Args:
        title: what it shows.
        caption: how to read it, in a sentence.
        picture: with a text alternative of its own.
        data: the table of what is drawn.
        legend: the key, if there is more than one series.
        wide: whether it takes the whole width.

    Returns:
        The figure.
    """
    return el(
        "figure",
        el("figcaption", el("h4", title), el("p", caption)),
        legend,
        picture,
        el("details", el("summary", f"Data: {title}"), data),
        class_="wide" if wide else None,
    )


def grid(*figures: Html | None) -> Html:
    """Figures side by side where there is room."""
    return el("div", *figures, class_="figures")


def curve_table(
    caption: str,
    x: str,
    places: Sequence[float],
    columns: Sequence[tuple[str, Sequence[float]]],
) -> Html:
    """The table of curves over common places: what is drawn, and what the script reads off."""
    rows = [
        [number(place), *(number(float(values[index])) for _, values in columns)]
        for index, place in enumerate(places)
    ]
    headings = [x, *(label for label, _ in columns)]
    return table(caption, headings, plain_rows(rows), sortable=False, class_="curves")


def between(values: Sequence[float], digits: int = 3) -> str:
    """Words for an extent.

    Example:
        >>> between([0.25, 0.5]), between([0.25])
        ('0.25 to 0.5', '0.25')
    """
    low, high = short(min(values), digits), short(max(values), digits)
    return low if low == high else f"{low} to {high}"
