"""Charts as data: ticks and ranges, legends and tables that follow from what is drawn."""

import itertools
import math

import pytest
from chart_examples import BARS, DOTS, HEAT, HMC, LINES, MAP, SPIDER, TWO_AXES

from sbmc.report.charts import Curve, LineChart
from sbmc.report.charts.axis import Axis, nice_range, ticks
from sbmc.report.charts.heat_map import LEVELS
from sbmc.report.charts.lines import spread_evenly
from sbmc.report.charts.style import COLOURS, series_styles
from sbmc.report.numbers import MISSING


def texts(table):
    """Headings and rows as they are read."""
    rows = [[str(getattr(cell, "text", cell)) for cell in row] for row in table.rows]
    return [list(table.headings), *rows]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.91, 0.934), (-70, 2), (1e-9, 3e-9), (0, 1e6)])
def test_ticks_are_inside_and_evenly_spaced(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 8
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in found)
    steps = [b - a for a, b in itertools.pairwise(found)]
    assert steps == pytest.approx([steps[0]] * len(steps))


def test_ranges_have_room_and_are_never_empty():
    assert nice_range([1.0, 2.0]) == pytest.approx((0.94, 2.06))
    assert nice_range([5.0], zero=True)[0] == 0
    for values in ([], [math.nan], [3.0, 3.0], [0.0]):
        low, high = nice_range(values)
        assert low < high
    assert nice_range([0.0, -1.0], log=True) == (0.1, 1.0)


def test_an_axis_marks_what_lies_on_it_and_names_categories():
    assert Axis("x", 4.0, 9.0, at=(2.0, 5.0, 8.0, 20.0)).marks() == [(5.0, "5"), (8.0, "8")]
    assert TWO_AXES.x.marks() == [(0.0, "0.1"), (1.0, "0.25")]
    assert Axis("share", percent=True).text(0.25) == "25 %"


def test_styles_differ_in_colour_stroke_and_marker():
    styles = series_styles([str(number) for number in range(COLOURS)])
    for name in ("colour", "dashes", "marker"):
        assert len({getattr(style, name) for style in styles}) == COLOURS


def test_points_are_taken_evenly_with_both_ends():
    assert spread_evenly(100, 5) == [0, 25, 50, 74, 99]
    assert spread_evenly(4, 1) == [0]


def test_the_legend_has_the_series_with_their_notes_and_the_named_guides():
    entries = [(e.label, e.sample, e.note, e.marked) for e in LINES.key()]
    assert entries == [
        ("MAP", "series", "AUC 0.5", False),
        ("HMC", "series", "", True),  # it has a single point
        ("by chance", "guide", "", False),
    ]
    assert [e.label for e in TWO_AXES.key()] == ["MAP", "accuracy (left)", "nats (right)"]
    assert [e.label for e in BARS.key()] == [
        *("MAP", "HMC", "pale: aleatoric (data)", "full: epistemic (ensemble)"),
        "line: the paper's",
    ]
    assert [e.label for e in SPIDER.key()] == ["MAP"]
    assert DOTS.key() == HEAT.key() == []


def test_curves_over_the_same_x_have_a_row_for_each_x():
    assert LINES.table().curves
    assert texts(LINES.table()) == [
        ["x", "MAP", "HMC"],
        ["0", "0", "0.1"],
        ["0.5", "1", "0.2"],
        ["0.75", MISSING, "0.3"],
        ["1", "0.5", "0.4"],
    ]


def test_a_curve_that_begins_straight_up_has_its_upper_end_in_the_table():
    step = LineChart([Curve(MAP, [0.0, 0.0, 1.0], [0.0, 0.4, 1.0])], Axis("x"), Axis("y"))
    assert texts(step.table())[1:] == [["0", "0.4"], ["1", "1"]]


def test_other_curves_have_a_row_for_each_point():
    curves = [Curve(MAP, [0.1], [0.2], [0.01], marked=True), Curve(HMC, [0.3], [0.4])]
    chart = LineChart(curves, Axis("x"), Axis("y"))
    assert not chart.is_shared
    assert texts(chart.table()) == [
        ["Setting", "x", "y", "±"],
        ["MAP", "0.1", "0.2", "0.01"],
        ["HMC", "0.3", "0.4", "0"],
    ]


def test_tables_have_all_that_is_drawn():
    assert texts(BARS.table()) == [
        ["Group", "Setting", "aleatoric", "epistemic", "total", "the paper's"],
        ["right", "MAP", "0.5", "0.25", "0.75", "1"],
        ["right", "HMC", "0.1", "0.2", "0.3", MISSING],
        ["wrong", "HMC", "1", "2", "3", MISSING],
    ]
    assert texts(DOTS.table())[1:3] == [["MAP", "island 0", "0"], ["MAP", "island 1", "1"]]
    assert texts(HEAT.table()) == [
        ["Setting", "right: in", "right: out", "wrong: in", "wrong: out"],
        ["MAP", "0", "0.5", "1", MISSING],
    ]
    assert texts(SPIDER.table()) == [
        ["Setting", "a", "b", "long name", "d"],
        ["MAP", "1", "0.5", "1", "0"],
    ]


def test_shades_are_darker_the_larger_the_value():
    assert [HEAT.level(v) for v in (0.0, 0.5, 1.0, 7.0, math.nan)] == [
        *(0, LEVELS // 2, LEVELS - 1, LEVELS - 1, 0)
    ]
