"""Scales, ticks and shapes: what is drawn stands where its numbers say."""

import itertools
import math
import re

import pytest

from sbmc.report.charts.bars import Bar, bar_chart
from sbmc.report.charts.dots import dot_chart
from sbmc.report.charts.frame import HEIGHT, Axis, Scale, nice_range, ticks
from sbmc.report.charts.heat import LEVELS, heat_map
from sbmc.report.charts.lines import Curve, line_chart, spread_evenly
from sbmc.report.charts.looks import COLOURS, Look, legend
from sbmc.report.charts.spider import spider_chart


def test_scales_are_linear_or_logarithmic_and_keep_to_their_ends():
    scale = Scale(0, 2, 10, 110)
    assert [scale(v) for v in (0, 1, 2, 5, -1)] == [10, 60, 110, 110, 10]
    log = Scale(1, 100, 0, 200, log=True)
    assert [log(v) for v in (1, 10, 100)] == [0, 100, 200]
    assert Scale(3, 3, 0, 10)(3) == 5


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


def test_a_curve_goes_through_its_points_and_leaves_gaps():
    curve = Curve(Look(0, "a"), [0.0, 0.5, 0.75, 1.0], [0.0, 1.0, math.nan, 0.5])
    picture = line_chart([curve], Axis("x"), Axis("y"), alt="words")
    path = re.search(r'<path d="([^"]*)"', picture)[1]
    bottom = HEIGHT - 44
    assert path == f"M50 {bottom}L219 30M388 {(bottom + 30) / 2:g}"
    assert 'data-hover="0.0 1.0 50 388 0"' in picture


def test_bars_are_as_long_as_their_numbers():
    bars = [Bar(Look(1, "a"), 0.5, 0.25, "tip", mark=1.0)]
    picture = bar_chart([("group", bars)], Axis("x", 0.0, 1.0), alt="words")
    widths = [float(w) for w in re.findall(r'<rect x="[^"]*" width="([^"]*)"', picture)]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)
    assert '<line x1="350.0"' in picture


def test_cells_are_darker_the_larger_their_value():
    cells = [(value, f"{value}") for value in (0.0, 0.5, 1.0, math.nan)]
    picture = heat_map([("row", cells)], "abcd", alt="words")
    levels = [int(level) for level in re.findall(r'class="h(\d)"', picture)]
    assert levels == [0, LEVELS // 2, LEVELS - 1, 0]


def test_dots_stand_at_their_values_and_others_are_left_out():
    dots = [(0.0, "low"), (1.0, "high"), (math.inf, "none")]
    picture = dot_chart([("row", dots)], Axis("x"), alt="words")
    assert [float(x) for x in re.findall(r'cx="([^"]*)"', picture)] == [12, 384]


def test_the_best_is_on_the_outer_ring_of_a_spider():
    picture = spider_chart([(Look(0, "a"), [1.0, 0.5, 1.0, 0.0])], list("abcd"), alt="words")
    line = re.search(r'points="([^"]*)" class="line s0"', picture)[1]
    corners = [tuple(map(float, each.split(","))) for each in line.split()]
    radii = [math.hypot(x - 200, y - 155) for x, y in corners]
    assert radii == pytest.approx([108, 54, 108, 0], abs=0.1)


def test_looks_differ_in_colour_shape_and_stroke():
    looks = [Look(number, f"{number}") for number in range(COLOURS)]
    marks = {look.marker(10, 10).replace(look.colour, "") for look in looks}
    assert len(marks) == len({look.colour for look in looks}) == COLOURS
    assert len({look.dashes for look in looks}) == COLOURS
    assert legend(looks).count("<li>") == COLOURS


def test_points_are_taken_evenly_with_both_ends():
    assert spread_evenly(100, 5) == [0, 25, 50, 74, 99]
    assert spread_evenly(4, 1) == [0]
