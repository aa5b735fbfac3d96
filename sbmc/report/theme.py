"""Colours, which the page's style sheet states once for pages and for pictures."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources


def read_asset(name: str) -> str:
    """The text of a file that belongs to the page: its template, style sheet or script."""
    return resources.files("sbmc.report").joinpath(name).read_text("utf-8")


@cache
def light_theme() -> dict[str, str]:
    """The colours of the light theme, which pictures are drawn in.

    Returns:
        Name in the style sheet, without its hyphens, to colour: `c0` to `c7` are those of series,
        `h0` to `h6` the shades of heat maps.

    Examples:
        >>> light_theme()["c0"]
        '#0072b2'
    """
    sheet = read_asset("report.css")
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", sheet[: sheet.index("@media")]))
