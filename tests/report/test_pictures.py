"""Charts as picture files: matplotlib draws the numbers of the chart, and nothing is cut off."""

import math
import sys

import numpy as np
import pytest
from chart_examples import (
    BARS,
    CHARTS,
    DOTS,
    HEAT,
    LINES,
    SPIDER,
    TWO_AXES,
    assert_nothing_is_cut_off,
    figure,
)

from sbmc.checks import BadInput
from sbmc.report.charts import Curve, LineChart
from sbmc.report.charts.axis import Axis
from sbmc.report.charts.style import series_style
from sbmc.report.pictures import draw_picture, new_picture, write_picture
from sbmc.report.theme import light_theme


def axes_of(chart):
    return draw_picture([figure(chart)]).axes


def rgb(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def test_curves_guides_and_points_have_their_numbers():
    (axes,) = axes_of(LINES)
    first, second, diagonal, level, point = axes.get_lines()
    np.testing.assert_array_equal(first.get_ydata().astype(float), LINES.curves[0].y)
    np.testing.assert_array_equal(second.get_xdata(), LINES.curves[1].x)
    assert (diagonal.get_label(), list(diagonal.get_ydata())) == ("by chance", [0, 1])
    assert list(level.get_ydata()) == [0, 0]
    assert (point.get_xdata()[0], point.get_ydata()[0]) == (0.25, 0.75)
    assert first.get_color() == light_theme()["c0"]
    assert axes.get_xlim() == (0, 1)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y")


def test_two_axes_have_their_own_scale_and_named_ticks():
    left, right = axes_of(TWO_AXES)
    assert left.get_ylim() == (0, 1)
    assert right.get_ylim() == (1, 4)
    assert [text.get_text() for text in left.get_xticklabels()] == ["0.1", "0.25"]
    assert list(right.get_lines()[0].get_ydata()) == [2, 3]


def test_bars_stack_the_full_part_on_the_pale_one():
    (axes,) = axes_of(BARS)
    bars = [patch for container in axes.containers for patch in container]
    parts = [[bar.get_y(), bar.get_height()] for bar in bars]
    wanted = [[0, 0.5], [0.5, 0.25], [0, 0.1], [0.1, 0.2], [0, 1], [1, 2]]
    np.testing.assert_allclose(parts, wanted)
    # The two series stand side by side, and a series has its position in every group.
    left = [round(bar.get_x() + bar.get_width() / 2, 6) for bar in bars[::2]]
    assert left == [-0.21, 0.21, 1.21]
    (mark,) = [c for c in axes.collections if len(c.get_segments())]
    assert mark.get_segments()[0][0, 1] == 1.0
    assert [text.get_text() for text in axes.get_xticklabels()] == ["right", "wrong"]


def test_dots_heat_maps_and_spiders_have_their_numbers():
    (axes,) = axes_of(DOTS)
    assert list(axes.get_lines()[0].get_xdata()) == [0, 1]
    (axes,) = axes_of(HEAT)
    levels = [HEAT.level(value) for value, _ in HEAT.rows[0][1]]
    assert axes.get_images()[0].get_array().tolist() == [levels]
    assert [text.get_text() for text in axes.texts] == ["0.0", "0.5", "1.0", "nan"]
    (axes,) = axes_of(SPIDER)
    (line,) = axes.get_lines()
    assert list(line.get_ydata()) == [1, 0.5, 1, 0, 1]  # closed
    assert line.get_xdata()[1] == pytest.approx(math.pi / 2)


def test_panels_with_the_same_legend_share_it():
    picture = draw_picture([figure(LINES, caption="one"), figure(LINES, caption="two")], "Heading")
    (legend,) = picture.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["MAP: AUC 0.5", "HMC", "by chance"]
    assert picture.get_suptitle() == "Heading"
    assert [axes.get_title("left") for axes in picture.axes] == ["A title\none", "A title\ntwo"]


def test_what_is_the_same_in_all_captions_is_said_once():
    picture = draw_picture([figure(LINES), figure(LINES)], "Heading")
    assert picture.get_suptitle() == "Heading\nA caption."
    assert [axes.get_title("left") for axes in picture.axes] == ["A title", "A title"]


def lines_with(label, note):
    curve = Curve(series_style(0, label), [0.0, 1.0], [0.0, 1.0], note=note)
    return figure(LineChart([curve], Axis("x"), Axis("y")))


@pytest.mark.parametrize("other", [("MAP", "AUC 0.7"), ("HMC", "AUC 0.5")])
def test_a_label_or_a_style_with_two_meanings_gives_each_panel_its_legend(other):
    picture = draw_picture([lines_with("MAP", "AUC 0.5"), lines_with(*other)])
    assert picture.legends == []
    texts = [axes.get_legend().get_texts()[0].get_text() for axes in picture.axes]
    assert texts == ["MAP: AUC 0.5", f"{other[0]}: {other[1]}"]


@pytest.mark.parametrize("name", CHARTS)
def test_nothing_is_cut_off(name):
    picture = draw_picture([figure(CHARTS[name], caption="So many words. " * 20)] * 2, "Heading")
    assert_nothing_is_cut_off(picture)


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("SVG", b"<?xml")]
)
def test_the_ending_decides_about_the_format_and_the_date_about_nothing(tmp_path, ending, start):
    files = [tmp_path / "new" / f"{name}.{ending}" for name in "ab"]
    for file in files:
        assert write_picture(draw_picture([figure(SPIDER)]), file) == file
    assert files[0].read_bytes().startswith(start)
    assert len(list(files[0].parent.iterdir())) == 2
    if ending == "png":
        assert files[0].read_bytes() == files[1].read_bytes()


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"`out` must be a file that ends in \.png, \.pdf, \.svg"):
        write_picture(new_picture(1, 1), tmp_path / "picture.docx")
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_is_cut_off_is_noticed():
    picture = draw_picture([figure(LINES)], "A heading that is far too long for a picture " * 9)
    with pytest.raises(AssertionError, match="A heading"):
        assert_nothing_is_cut_off(picture)


def test_no_figure_and_no_matplotlib_are_refused(monkeypatch):
    with pytest.raises(BadInput, match="`figures` must be one or more"):
        draw_picture([])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BadInput, match=r"`matplotlib` must be installed .* 'sbmc\[plots\]'"):
        draw_picture([figure(LINES)])


def test_a_saved_picture_keeps_its_colours(tmp_path):
    from matplotlib.patches import Rectangle
    from PIL import Image

    picture = new_picture(3.0, 3.0)
    axes = picture.subplots()
    # Many greens and one small swatch of blue.
    blue = light_theme()["c0"]
    axes.imshow(np.linspace(0, 1, 256).reshape(16, 16), cmap="Greens")
    axes.add_patch(Rectangle((0, 0), 1, 1, color=blue))
    with Image.open(write_picture(picture, tmp_path / "picture.png")) as image:
        colours = np.array(image.convert("RGB")).reshape(-1, 3)
    assert (np.abs(colours - np.array(rgb(blue))).max(axis=1) <= 8).sum() > 50
