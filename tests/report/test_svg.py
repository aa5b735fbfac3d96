"""Charts as SVG: what is drawn stands where its numbers say, and tells its values."""

import math
import re

import pytest
from chart_examples import BARS, CHARTS, DOTS, HEAT, LINES, SPIDER, TWO_AXES, figure

from sbmc.report.charts.lines import HEIGHT
from sbmc.report.charts.style import COLOURS, series_styles
from sbmc.report.charts.svg import draw_svg
from sbmc.report.charts.svg.canvas import Scale, marker
from sbmc.report.charts.svg.legend import draw_legend
from sbmc.report.theme import light_theme, read_asset


def tips(picture):
    return re.findall(r"<title>([^<]*)</title>", picture)


def test_scales_are_linear_or_logarithmic_and_keep_to_their_ends():
    scale = Scale(0, 2, 10, 110)
    assert [scale(v) for v in (0, 1, 2, 5, -1)] == [10, 60, 110, 110, 10]
    log = Scale(1, 100, 0, 200, log=True)
    assert [log(v) for v in (1, 10, 100)] == [0, 100, 200]
    assert Scale(3, 3, 0, 10)(3) == 5


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_has_a_text_alternative(name):
    picture = draw_svg(CHARTS[name], "some <words>")
    assert picture.startswith("<svg ")
    assert 'role="img" aria-label="some &lt;words&gt;"' in picture


def test_a_curve_goes_through_its_points_and_leaves_gaps():
    picture = draw_svg(LINES, "words")
    path = re.search(r'<path d="([^"]*)"', picture)[1]
    bottom = HEIGHT - 44
    assert path == f"M50 {bottom}L219 30M388 {(bottom + 30) / 2:g}"
    assert 'data-hover="0.0 1.0 50 388 0"' in picture
    assert tips(picture) == ["HMC: 0.75 at 0.25"]


def test_curves_on_the_right_have_their_own_axis_and_say_so():
    picture = draw_svg(TWO_AXES, "words")
    assert "data-hover" not in picture
    assert tips(picture) == [
        *("MAP, accuracy: 90 % ± 10 at 0.1", "MAP, accuracy: 80 % at 0.25"),
        *("MAP, nats: 2 at 0.1", "MAP, nats: 3 ± 0.5 at 0.25"),
    ]
    heights = [float(y) for y in re.findall(r'<circle cx="[^"]*" cy="([^"]*)"', picture)]
    bottom, top = HEIGHT - 44, 30
    shares = [(bottom - y) / (bottom - top) for y in heights]
    assert shares == pytest.approx([0.9, 0.8, 1 / 3, 2 / 3], abs=0.001)


def test_bars_are_as_long_as_their_numbers():
    picture = draw_svg(BARS, "words")
    widths = [float(w) for w in re.findall(r'<rect x="[^"]*" width="([^"]*)"', picture)]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)
    across = Scale(0.0, BARS.axis.high, 10, 350)
    assert f'<line x1="{across(1.0)}"' in picture
    assert tips(picture)[0] == "MAP, right: aleatoric 0.500, epistemic 0.250"


def test_dots_stand_at_their_values_and_infinite_ones_are_left_out():
    picture = draw_svg(DOTS, "words")
    assert [float(x) for x in re.findall(r'cx="([^"]*)"', picture)] == [12, 384]
    assert tips(picture)[1] == "MAP, island 1: acceptance 1"


def test_cells_have_the_shade_of_their_value():
    levels = [int(level) for level in re.findall(r'class="h(\d)"', draw_svg(HEAT, "words"))]
    assert levels == [HEAT.level(value) for value, _ in HEAT.rows[0][1]]


def test_the_best_is_on_the_outer_ring_of_a_spider():
    picture = draw_svg(SPIDER, "words")
    line = re.search(r'points="([^"]*)" class="line s0"', picture)[1]
    corners = [tuple(map(float, each.split(","))) for each in line.split()]
    radii = [math.hypot(x - 200, y - 155) for x, y in corners]
    assert radii == pytest.approx([108, 54, 108, 0], abs=0.1)


def test_markers_differ_in_shape():
    styles = series_styles([str(number) for number in range(COLOURS)])
    shapes = {marker(style, 10, 10).replace(f"s{style.colour}", "") for style in styles}
    assert len(shapes) == COLOURS


@pytest.mark.parametrize("name", CHARTS)
def test_the_legend_has_an_entry_for_each_of_the_chart_s(name):
    key = CHARTS[name].key()
    legend = draw_legend(key)
    assert (legend or "").count("<li>") == len(key)
    assert "</svg><span>MAP <b>AUC 0.5</b>" in draw_legend(LINES.key())


def test_a_figure_has_a_caption_a_picture_and_its_data():
    markup = figure(BARS).render()
    assert "<h4>A title</h4><p>A caption.</p>" in markup
    assert "<summary>Data: A title</summary>" in markup
    assert markup.count("<tbody>") == 3


def test_the_style_sheet_has_a_colour_for_every_class_that_is_drawn():
    theme = light_theme()
    assert {f"c{n}" for n in range(COLOURS)} | {f"h{n}" for n in range(7)} <= set(theme)
    sheet = read_asset("report.css")
    for chart in CHARTS.values():
        drawn = draw_svg(chart, "words") + (draw_legend(chart.key()) or "")
        for classes in re.findall(r'class="([^"]*)"', drawn):
            for name in set(classes.split()) - {"plot", "spider", "heat", "bars", "cell"}:
                assert f".{name}" in sheet, name
