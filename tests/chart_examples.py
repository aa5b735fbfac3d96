"""One chart of each kind, with numbers that are easy to find again in a drawing."""

import math

from sbmc.report.charts import (
    Bar,
    BarChart,
    Curve,
    Dot,
    DotChart,
    Guide,
    HeatMap,
    LineChart,
    Point,
    SpiderChart,
)
from sbmc.report.charts.axis import Axis
from sbmc.report.charts.style import series_style
from sbmc.report.figure import Figure

MAP, HMC = series_style(0, "MAP"), series_style(1, "HMC")
CURVES = [
    Curve(MAP, [0.0, 0.5, 0.75, 1.0], [0.0, 1.0, math.nan, 0.5], note="AUC 0.5"),
    Curve(HMC, [0.0, 0.5, 0.75, 1.0], [0.1, 0.2, 0.3, 0.4]),
]
LINES = LineChart(
    CURVES,
    Axis("x"),
    Axis("y"),
    guides=[Guide((0, 0), (1, 1), "by chance"), Guide((0, 0), (1, 0))],
    points=[Point(HMC, 0.25, 0.75)],
)
TWO_AXES = LineChart(
    [
        Curve(MAP, [0.0, 1.0], [0.9, 0.8], [0.1, 0.0], marked=True),
        Curve(MAP, [0.0, 1.0], [2.0, 3.0], [0.0, 0.5], marked=True, right=True),
    ],
    Axis("s", -0.5, 1.5, at=(0.0, 1.0), names=("0.1", "0.25")),
    Axis("accuracy", percent=True),
    right=Axis("nats", 1.0, 4.0),
)
BARS = BarChart(
    [("right", [Bar(MAP, 0.5, 0.25, mark=1.0), Bar(HMC, 0.1, 0.2)]), ("wrong", [Bar(HMC, 1, 2)])],
    "entropy, nats",
    ("aleatoric (data)", "epistemic (ensemble)"),
    "the paper's",
)
DOTS = DotChart(
    [("MAP", [Dot("island 0", 0.0), Dot("island 1", 1.0), Dot("island 2", math.inf)])],
    Axis("acceptance"),
    band=(0.6, 0.8),
)
HEAT = HeatMap(
    [("MAP", [(value, f"{value:.1f}") for value in (0.0, 0.5, 1.0, math.nan)])],
    ("in", "out", "in", "out"),
    above=(("right", 2), ("wrong", 2)),
)
SPIDER = SpiderChart([(MAP, [1.0, 0.5, 1.0, 0.0])], ["a", "b", "long\nname", "d"])
CHARTS = {
    "lines": LINES,
    "two axes": TWO_AXES,
    "bars": BARS,
    "dots": DOTS,
    "heat map": HEAT,
    "spider": SPIDER,
}


def assert_nothing_is_cut_off(picture):
    """Legends and the heading lie inside a matplotlib figure."""
    picture.draw_without_rendering()
    width, height = picture.bbox.size
    legends = [axes.get_legend() for axes in picture.axes if axes.get_legend()]
    for part in [*picture.legends, *legends, picture._suptitle]:
        box = part.get_window_extent()
        assert 0 <= box.x0 <= box.x1 <= width, part
        assert 0 <= box.y0 <= box.y1 <= height, part


def figure(chart, title="A title", caption="A caption."):
    """A figure of a chart."""
    return Figure(title, caption, chart, alt="What can be seen.")
