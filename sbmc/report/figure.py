"""A figure: its title, how to read it, a chart, and the data of the chart as a table."""

from __future__ import annotations

from dataclasses import dataclass

from sbmc.report.charts import Chart
from sbmc.report.charts.svg import draw_svg
from sbmc.report.charts.svg.legend import draw_legend
from sbmc.report.markup import Html, el
from sbmc.report.tables import Table


@dataclass(frozen=True)
class Figure:
    """A figure, apart from how it is drawn: `render` for a page, `draw_picture` for a file.

    Attributes:
        title: what it shows.
        caption: how to read it, in a sentence or two.
        chart: what is drawn.
        alt: what can be seen in it, for readers who cannot see it.
        data: the table below it, if it is not the chart's own.

    Examples:
        >>> from sbmc.report.charts import Curve, LineChart
        >>> from sbmc.report.charts.axis import Axis
        >>> from sbmc.report.charts.style import series_style
        >>> curve = Curve(series_style(0, "S-HMC"), x=[0.0, 0.5, 1.0], y=[0.0, 0.8, 1.0])
        >>> chart = LineChart([curve], Axis("false positives"), Axis("true positives"))
        >>> figure = Figure("ROC", "Higher is better.", chart, alt="A curve above the diagonal.")
        >>> figure.render()[:46]
        '<figure><figcaption><h4>ROC</h4><p>Higher is b'
    """

    title: str
    caption: str
    chart: Chart
    alt: str
    data: Table | None = None

    def render(self) -> Html:
        """The figure as a part of a page."""
        data = self.data or self.chart.table()
        return el(
            "figure",
            el("figcaption", el("h4", self.title), el("p", self.caption)),
            draw_legend(self.chart.key()),
            draw_svg(self.chart, self.alt),
            el("details", el("summary", f"Data: {self.title}"), data.render(self.title)),
        )


def render_figures(*figures: Figure | None) -> Html:
    """Figures side by side where there is room; None is left out."""
    return el("div", *(each.render() for each in figures if each), class_="figures")
