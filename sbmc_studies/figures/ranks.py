"""Average ranks of the methods of the gauntlet, and which the test does not tell apart.

The picture of Demšar (2006), "Statistical Comparisons of Classifiers over Multiple Data Sets": each
method at its average rank, and a bar over each group of methods whose ranks differ by less than the
critical difference.
"""

from __future__ import annotations

from sbmc.report.charts import Curve, LineChart
from sbmc.report.charts.axis import Axis
from sbmc.report.charts.style import Style, series_style
from sbmc.report.figure import Figure
from sbmc_studies.gauntlet.comparison import Ranking

# In the units of a chart, for each line of it.
LINE_HEIGHT, MARGIN = 17, 60
# Room between the worst rank and the end of the axis.
ROOM = 0.25


def build(ranking: Ranking, part: str) -> Figure:
    """The picture of a ranking.

    Args:
        ranking: two methods or more.
        part: of the pairs, for the title.

    Returns:
        A line for each method, the best on top, and the bars below.
    """
    ranks, groups = ranking.ranks, ranking.groups()
    lines = len(ranks) + max(len(groups), 1)
    # The best method is on the top line, and bars are on the lines below all methods.
    heights = {method: float(lines - place) for place, method in enumerate(ranks)}
    methods = Curve(
        series_style(0, "average rank"),
        list(ranks.values()),
        list(heights.values()),
        marked=True,
        joined=False,
    )
    told = f"not told apart: ranks less than {ranking.critical:.2f} apart"
    bar = Style(told, colour=1, stroke=0, marker=1)
    bars = [
        Curve(bar, [ranks[group[0]], ranks[group[-1]]], [float(len(groups) - place)] * 2)
        for place, group in enumerate(groups)
    ]
    chart = LineChart(
        [methods, *bars],
        Axis("average rank in NLL (1 is the best)", 1 - ROOM, len(ranks) + ROOM),
        Axis("", 0.5, lines + 0.5, at=tuple(heights.values()), names=tuple(ranks)),
        height=MARGIN + LINE_HEIGHT * lines,
    )
    caption = f"{part.capitalize()} pairs, {ranking.sets} data sets; Nemenyi's test at 0.05."
    listed = ", ".join(f"{method} {rank:.2f}" for method, rank in ranks.items())
    return Figure("Ranks over data sets", caption, chart, alt=f"Average ranks: {listed}.")
