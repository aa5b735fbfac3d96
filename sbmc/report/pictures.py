"""Figures as picture files, drawn by matplotlib, which the extra `plots` installs."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput, require
from sbmc.report.charts import BarChart, HeatMap, LineChart, SpiderChart
from sbmc.report.charts.matplotlib_axes import BACKGROUND, DRAW, legend_handle
from sbmc.report.charts.style import KeyEntry
from sbmc.report.figure import Figure
from sbmc.storage.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

FORMATS = ("png", "pdf", "svg")
# Files of the same figure have the same bytes whenever they are made.
_UNDATED: dict[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
# A picture has few colours: with a palette of so many shades its file is a third as large.
_SHADES = 256
# In inches: a letter of a title and of a legend, a legend's sample with the gaps around it, and a
# line of a legend.
_TITLE_LETTER, _LETTER, _SAMPLE, _LINE = 0.09, 0.066, 0.65, 0.19


def draw_picture(figures: Sequence[Figure], heading: str = "") -> Picture:
    """Draw figures as the panels of one picture.

    Args:
        figures: one or more. They are drawn in two columns, in three if there are three, and
            below each other if they are wide.
        heading: a line above all panels.

    Returns:
        A matplotlib figure. It is not one of pyplot's, so that nothing global changes and no
        display is needed. A caption or a legend that fits all panels is drawn once.

    Raises:
        BadInput: if there is no figure, or matplotlib is not installed.
    """
    require(len(figures) > 0, "figures", "one or more", figures)
    wide = isinstance(figures[0].chart, BarChart | HeatMap)
    columns = 1 if wide else 3 if len(figures) == 3 else min(2, len(figures))
    # A panel that is alone has more room.
    scale = 1.3 if len(figures) == 1 else 1.0
    sizes = [(scale * width, scale * height) for width, height in map(_size, figures)]
    panel_width = max(width for width, _ in sizes)
    width = columns * panel_width
    rows = range(0, len(figures), columns)
    height = sum(max(height for _, height in sizes[i : i + columns]) for i in rows)
    captions = [figure.caption for figure in figures]
    if len(figures) > 1 and len(set(captions)) == 1:
        heading = "\n".join(filter(None, (heading, _wrap(captions[0], width))))
        captions = [""] * len(figures)
    keys = [figure.chart.key() for figure in figures]
    shared = _merge(keys)
    if shared is not None:
        per_line = _entries_per_line(shared, width)
        legend_lines = math.ceil(len(shared) / per_line)
    else:
        per_line = min(_entries_per_line(key, panel_width) for key in keys)
        legend_lines = len(rows) * math.ceil(max(map(len, keys)) / per_line)
    picture = new_picture(width, height + _LINE * (legend_lines + len(heading.splitlines())))
    picture.suptitle(heading, fontsize=11)
    for index, figure in enumerate(figures):
        polar = {"projection": "polar"} if isinstance(figure.chart, SpiderChart) else {}
        axes: Any = picture.add_subplot(len(rows), columns, index + 1, **polar)
        DRAW[type(figure.chart)](axes, figure.chart)
        room = panel_width - _names_width(figure)
        title = f"{figure.title}\n{_wrap(captions[index], room)}".strip()
        axes.set_title(title, fontsize=10, loc="left", pad=9)
        if shared is None and keys[index]:
            _add_legend(axes, keys[index], per_line, _below(axes, picture))
    if shared:
        _add_legend(picture, shared, per_line, {"loc": "outside lower center"})
    return picture


def new_picture(width: float, height: float) -> Picture:
    """An empty matplotlib figure of so many inches, which is not one of pyplot's.

    Raises:
        BadInput: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure as Picture
    except ImportError as error:
        raise BadInput(
            "`matplotlib` must be installed to draw the picture: pip install 'sbmc[plots]'."
        ) from error
    return Picture(figsize=(width, height), layout="constrained", facecolor=BACKGROUND)


def write_picture(picture: Picture, path: Path) -> Path:
    """Write a picture, whole or not at all.

    Args:
        picture: from `draw_picture`.
        path: the file; its ending is one of `FORMATS`, and its folder is made if needed.

    Returns:
        The path.

    Raises:
        BadInput: if the ending is another.
    """
    check_format(path)
    kind = path.suffix[1:].lower()
    content = BytesIO()
    picture.savefig(content, format=kind, dpi=110, metadata=_UNDATED.get(kind))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_bytes(_with_palette(content) if kind == "png" else content.getvalue())
    return path


def check_format(path: Path) -> None:
    """Refuse a path whose ending is not that of a picture."""
    rule = f"a file that ends in .{', .'.join(FORMATS)}"
    require(path.suffix[1:].lower() in FORMATS, "out", rule, str(path))


def _with_palette(content: BytesIO) -> bytes:
    from PIL import Image  # matplotlib needs it too

    small = BytesIO()
    with Image.open(content) as image:
        # By coverage: the default merges rare colours, and a small blue swatch came out green.
        palette = Image.Quantize.MAXCOVERAGE
        reduced = image.convert("RGB").quantize(_SHADES, palette, dither=Image.Dither.NONE)
    reduced.save(small, "PNG", optimize=True)
    return small.getvalue()


def _size(figure: Figure) -> tuple[float, float]:
    """Width and height of a panel in inches."""
    chart = figure.chart
    if isinstance(chart, LineChart):
        return 5.6, chart.height / 65
    if isinstance(chart, BarChart):
        return 11.0, 3.9
    if isinstance(chart, SpiderChart):
        return 6.4, 5.2
    return (8.5 if isinstance(chart, HeatMap) else 5.6), 1.5 + 0.3 * len(chart.rows)


def _wrap(text: str, width: float) -> str:
    return "\n".join(textwrap.wrap(text, int(width / _TITLE_LETTER)))


def _names_width(figure: Figure) -> float:
    """Inches that the names of categories take, left of where a title begins."""
    names = figure.chart.y.names if isinstance(figure.chart, LineChart) else None
    return _TITLE_LETTER * max(map(len, names or ()), default=0)


def _merge(keys: Sequence[Sequence[KeyEntry]]) -> list[KeyEntry] | None:
    """One legend for all panels; None if they differ in what a label or a style stands for."""
    by_label: dict[str, KeyEntry] = {}
    by_sample: dict[tuple[object, ...], str] = {}
    for entry in (entry for key in keys for entry in key):
        style = entry.style
        look = (style.colour, style.stroke, style.marker) if style else (entry.dashes,)
        if by_label.setdefault(entry.label, entry) != entry:
            return None
        if by_sample.setdefault((entry.sample, *look), entry.label) != entry.label:
            return None
    return list(by_label.values())


def _text(entry: KeyEntry) -> str:
    return f"{entry.label}: {entry.note}" if entry.note else entry.label


def _entries_per_line(entries: Sequence[KeyEntry], width: float) -> int:
    longest = max((len(_text(entry)) for entry in entries), default=0)
    return max(1, min(4, len(entries), int(width / (_SAMPLE + _LETTER * (longest + 3)))))


def _below(axes: Any, picture: Picture) -> dict[str, Any]:
    """A place for a legend below a panel, its ticks and the name of its axis."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(-0.45, -0.5, picture.dpi_scale_trans)
    anchor = {"bbox_to_anchor": (0, 0), "bbox_transform": axes.transAxes + shift}
    return {"loc": "upper left", "borderaxespad": 0.0, **anchor}


def _add_legend(
    owner: Any, entries: Sequence[KeyEntry], columns: int, where: dict[str, Any]
) -> None:
    handles = [legend_handle(entry) for entry in entries]
    texts = [_text(entry) for entry in entries]
    owner.legend(handles, texts, ncols=columns, frameon=False, fontsize=8.5, **where)
