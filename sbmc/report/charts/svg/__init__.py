"""Charts as inline SVG, whose colours come from the style sheet of the page."""

from __future__ import annotations

from sbmc.report.charts import BarChart, Chart, DotChart, HeatMap, LineChart
from sbmc.report.charts.svg.bars import draw_bars
from sbmc.report.charts.svg.dots import draw_dots
from sbmc.report.charts.svg.heat_map import draw_heat_map
from sbmc.report.charts.svg.lines import draw_lines
from sbmc.report.charts.svg.spider import draw_spider
from sbmc.report.markup import Html


def draw_svg(chart: Chart, alt: str) -> Html:
    """Draw a chart for a page.

    Args:
        chart: any kind.
        alt: what the picture shows, for readers who cannot see it.

    Returns:
        An `svg` element, 400 units wide.

    Examples:
        >>> from sbmc.report.charts import SpiderChart
        >>> from sbmc.report.charts.style import series_style
        >>> chart = SpiderChart([(series_style(0, "MAP"), [1.0, 0.5, 1.0])], ["a", "b", "c"])
        >>> draw_svg(chart, "One series.")[:42]
        '<svg viewBox="0 0 400 310" role="img" aria'
    """
    if isinstance(chart, LineChart):
        return draw_lines(chart, alt)
    if isinstance(chart, BarChart):
        return draw_bars(chart, alt)
    if isinstance(chart, DotChart):
        return draw_dots(chart, alt)
    if isinstance(chart, HeatMap):
        return draw_heat_map(chart, alt)
    return draw_spider(chart, alt)
