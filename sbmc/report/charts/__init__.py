"""Charts as data, apart from how they are drawn.

A chart says what is drawn: `LineChart`, `BarChart`, `DotChart`, `HeatMap` or `SpiderChart`. It also
makes its legend and its table. `svg` draws it for a page, and `matplotlib_axes` for a file.
"""

from sbmc.report.charts.bars import Bar, BarChart
from sbmc.report.charts.dots import Dot, DotChart
from sbmc.report.charts.heat_map import HeatMap
from sbmc.report.charts.lines import Curve, Guide, LineChart, Point
from sbmc.report.charts.spider import SpiderChart

Chart = LineChart | BarChart | DotChart | HeatMap | SpiderChart

__all__ = [
    "Bar",
    "BarChart",
    "Chart",
    "Curve",
    "Dot",
    "DotChart",
    "Guide",
    "HeatMap",
    "LineChart",
    "Point",
    "SpiderChart",
]
