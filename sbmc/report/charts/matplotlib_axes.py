"""Charts drawn into the axes of a matplotlib figure, in the light colours of the page."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sbmc.report.charts import BarChart, DotChart, HeatMap, LineChart, SpiderChart
from sbmc.report.charts.axis import Axis
from sbmc.report.charts.heat_map import LEVELS, is_dark
from sbmc.report.charts.spider import RINGS
from sbmc.report.charts.style import RIGHT_STROKE, KeyEntry, Style
from sbmc.report.theme import light_theme

_THEME = light_theme()
BACKGROUND, _INK, _SOFT, _GRID = (_THEME[name] for name in ("card", "ink", "soft", "grid"))
# The same shapes as in a page, by the number of a style's marker.
MARKERS = ("o", "s", "^", "D", "v", "<", ">", "p")
# Bars have no stroke, so those that share a colour are told apart by what fills them.
_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "|||", "+++", "ooo")
_LINE_WIDTH, _THIN = 1.8, 1.1
_PALE = 0.38


def colour(style: Style) -> str:
    """The colour of a series."""
    return _THEME[f"c{style.colour}"]


def _stroke(dashes: str | None) -> Any:
    """An SVG stroke, in units of the page's line width, as matplotlib takes it."""
    if dashes is None:
        return "-"
    return 0, tuple(float(length) / 2.2 for length in dashes.split())


def _draw_lines(axes: Any, chart: LineChart) -> None:
    right = axes.twinx() if chart.right else None
    for curve in chart.curves:
        errors = curve.errors if curve.marked else None
        dashes = RIGHT_STROKE if curve.right else curve.style.dashes
        (right if curve.right and right else axes).errorbar(
            curve.x,
            curve.y,
            errors,
            color=colour(curve.style),
            linestyle=_stroke(dashes) if curve.joined else "none",
            linewidth=_LINE_WIDTH,
            marker=MARKERS[curve.style.marker] if curve.marked else "none",
            markersize=5,
            capsize=3,
            elinewidth=_THIN,
            label=curve.style.label,
        )
    for guide in chart.guides:
        (x1, y1), (x2, y2) = guide.start, guide.end
        ink = colour(guide.style) if guide.style else _SOFT
        stroke = {"color": ink, "linestyle": _stroke(guide.dashes), "linewidth": _THIN}
        axes.plot([x1, x2], [y1, y2], label=guide.label, **stroke)
    for point in chart.points:
        shape = {"color": colour(point.style), "marker": MARKERS[point.style.marker]}
        axes.plot([point.x], [point.y], markersize=7, linestyle="none", **shape)
    _set_axis(axes, "x", chart.x)
    _set_axis(axes, "y", chart.y)
    _tidy(axes, "both")
    if right is not None and chart.right:
        _set_axis(right, "y", chart.right)
        right.spines["top"].set_visible(False)


def _draw_bars(axes: Any, chart: BarChart) -> None:
    styles = chart.styles
    width = 0.84 / max(len(styles), 1)
    for group, (_, bars) in enumerate(chart.groups):
        for bar in bars:
            at = group + (styles.index(bar.style) - (len(styles) - 1) / 2) * width
            fill = {"width": width, "color": colour(bar.style), "edgecolor": BACKGROUND}
            axes.bar(at, bar.pale, alpha=_PALE, **fill)
            axes.bar(at, bar.full, bottom=bar.pale, hatch=_HATCHES[bar.style.stroke], **fill)
            if bar.mark is not None:
                axes.hlines(bar.mark, at - width / 2, at + width / 2, color=_INK, linewidth=1.6)
    axes.set_xticks(
        range(len(chart.groups)), [name.replace(": ", ":\n") for name, _ in chart.groups]
    )
    _set_axis(axes, "y", chart.axis)
    _tidy(axes, "y")


def _draw_dots(axes: Any, chart: DotChart) -> None:
    if chart.band:
        axes.axvspan(*chart.band, color=_THEME["wash"])
    for row, (_, dots) in enumerate(chart.rows):
        values = [dot.value for dot in dots if math.isfinite(dot.value)]
        axes.plot(values, [row] * len(values), "o", color=_THEME["c0"], alpha=0.55)
    axes.set_yticks(range(len(chart.rows)), [name for name, _ in chart.rows])
    axes.set_ylim(len(chart.rows) - 0.5, -0.5)
    _set_axis(axes, "x", chart.axis)
    _tidy(axes, "both")


def _draw_heat_map(axes: Any, chart: HeatMap) -> None:
    from matplotlib.colors import ListedColormap

    shades = ListedColormap([_THEME[f"h{level}"] for level in range(LEVELS)])
    levels = [[chart.level(value) for value, _ in cells] for _, cells in chart.rows]
    axes.imshow(levels, cmap=shades, vmin=-0.5, vmax=LEVELS - 0.5, aspect="auto")
    for row, (_, cells) in enumerate(chart.rows):
        for column, (_, text) in enumerate(cells):
            ink = _THEME["over"] if is_dark(levels[row][column]) else _INK
            axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=9)
    headings = [heading.replace(": ", ":\n") for heading in chart.headings()]
    axes.set_xticks(range(len(headings)), headings, fontsize=8.5)
    axes.set_yticks(range(len(chart.rows)), [name for name, _ in chart.rows], fontsize=8.5)
    axes.tick_params(length=0, top=False, labeltop=False)
    axes.set_xticks([column + 0.5 for column in range(len(headings) - 1)], minor=True)
    axes.set_yticks([row + 0.5 for row in range(len(chart.rows) - 1)], minor=True)
    axes.grid(which="minor", color=BACKGROUND, linewidth=2)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)


def _draw_spider(axes: Any, chart: SpiderChart) -> None:
    angles = [2 * math.pi * index / len(chart.axes) for index in range(len(chart.axes))]
    for style, values in chart.series:
        line = {"color": colour(style), "linestyle": _stroke(style.dashes), "clip_on": False}
        around = [*values, values[0]]
        axes.plot([*angles, angles[0]], around, markersize=4, marker=MARKERS[style.marker], **line)
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    axes.set_xticks(angles, chart.axes)
    axes.tick_params(axis="x", pad=9)
    for angle, label in zip(angles, axes.get_xticklabels(), strict=True):
        # Names stand beside the circle, not across it.
        side = round(math.sin(angle), 6)
        label.set_horizontalalignment("center" if side == 0 else "left" if side > 0 else "right")
    axes.set_ylim(0, 1)
    axes.set_rlabel_position(202.5)  # between two axes
    axes.set_yticks(RINGS)
    axes.grid(color=_GRID)
    axes.spines["polar"].set_color(_GRID)


def _set_axis(axes: Any, name: str, axis: Axis) -> None:
    """Give the x or the y axis of a panel its label, ends and marked values."""
    axes.set(**{f"{name}label": axis.label})
    if axis.log:
        axes.set(**{f"{name}scale": "log"})
    values, texts = zip(*axis.marks(), strict=True) if axis.marks() else ((), ())
    (axes.set_xticks if name == "x" else axes.set_yticks)(values, texts)
    axes.minorticks_off()
    axes.set(**{f"{name}lim": (axis.low, axis.high)})


def _tidy(axes: Any, grid: str) -> None:
    """A light grid, and no frame above and to the right."""
    axes.grid(axis=grid, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def legend_handle(entry: KeyEntry) -> Any:
    """What stands beside an entry of the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if entry.sample in ("pale", "full"):
        return Patch(color=_THEME["c6"], alpha=_PALE if entry.sample == "pale" else 1.0)
    if entry.style is None:
        ink = _SOFT if entry.sample == "guide" else _INK
        return Line2D([], [], color=ink, linewidth=_THIN, linestyle=_stroke(entry.dashes))
    if entry.sample == "bar":
        hatch = _HATCHES[entry.style.stroke]
        return Patch(facecolor=colour(entry.style), edgecolor=BACKGROUND, hatch=hatch)
    return Line2D(
        [],
        [],
        color=colour(entry.style),
        linewidth=_LINE_WIDTH,
        linestyle=_stroke(entry.style.dashes),
        marker=MARKERS[entry.style.marker] if entry.marked else "none",
        markersize=5,
    )


DRAW: dict[type, Callable[[Any, Any], None]] = {
    LineChart: _draw_lines,
    BarChart: _draw_bars,
    DotChart: _draw_dots,
    HeatMap: _draw_heat_map,
    SpiderChart: _draw_spider,
}
