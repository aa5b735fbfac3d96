"""The figures of the meta-classifier show the numbers of the records, averaged as they say."""

import itertools

import numpy as np
import pytest
from confidence_records import GROUPS, arrays, write
from matplotlib.patches import Rectangle
from PIL import Image

from sbmc.checks import BadInput
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.figures import (
    confusion,
    entropies,
    reliability,
    risk_coverage,
    roc,
    spider,
    thresholds,
)
from sbmc_studies.figures.catalogue import FIGURES, NAMES, draw_file
from sbmc_studies.figures.looks import looks
from sbmc_studies.figures.measured import read, seed_mean
from sbmc_studies.figures.style import PALETTE, new_figure, save
from sbmc_studies.paper.claims.mnist7_confidence import ROWS

MNIST7 = get_experiment("mnist7")


@pytest.fixture
def records(tmp_path):
    write(tmp_path, "map", seed=0, level=-0.1)
    for seed in range(2):
        write(tmp_path, "s-hmc", seed=seed, islands=1, bend=3.0)
        write(tmp_path, "s-hmc", seed=seed, islands=8, bend=4.0 + 2 * seed, level=0.02 * seed)
    return tmp_path


def lines(axes):
    """Lines of a panel by their label, without the unnamed ones."""
    named = {line.get_label(): line for line in axes.get_lines()}
    return {label: line for label, line in named.items() if not label.startswith("_")}


def only(found, start):
    (line,) = [line for label, line in found.items() if label.startswith(start)]
    return line


def test_reading_leaves_out_what_has_no_record_and_says_how_many_seeds(records):
    found = read(MNIST7, records)
    labels = [row.label for row in found.rows]
    assert labels == ["MAP (1 seed)", "S-HMC∥, P = 1 (2 seeds)", "S-HMC∥, P = 8 (2 seeds)"]
    assert found.title("x").endswith("the paper's protocol, mean over the seeds of each")
    assert [row.label[:3] for row in read(MNIST7, records, methods=["map"]).rows] == ["MAP"]
    for seed in range(5):
        write(records, "de", seed=seed, islands=8)
    full = read(MNIST7, records, "clean", ["de"])
    assert full.rows[0].label == "deep ensemble, P = 8"
    assert full.title("x") == "mnist7: x\nthe clean protocol, mean over 5 seeds"


def test_metrics_and_arrays_are_those_of_the_protocol(records):
    paper, clean = read(MNIST7, records), read(MNIST7, records, "clean")
    name = "confidence.default.auc_roc"
    assert paper.metric(paper.rows[0], name) == pytest.approx(0.6)
    assert clean.metric(clean.rows[0], name) == pytest.approx(0.59)
    assert clean.metric(clean.rows[0], "accuracy") == pytest.approx(0.8)
    wanted = arrays(0, bend=3.0)["roc.true_positive_rate"]  # one above the paper protocol's 2
    np.testing.assert_allclose(clean.rows[0].arrays[0]["roc.true_positive_rate"], wanted)


def test_a_record_without_the_classifier_or_without_arrays_is_not_shown(records):
    write(records, "de", islands=1, confidence=False)
    write(records, "de", islands=8)
    for path in (records / "mnist7" / "de").rglob("confidence-clean.npz"):
        path.unlink()
    assert [row.method for row in read(MNIST7, records, "paper").rows] == [
        "map", "de", "s-hmc", "s-hmc",
    ]  # fmt: skip
    assert "de" not in [row.method for row in read(MNIST7, records, "clean").rows]


def test_what_cannot_be_read_is_refused(records, tmp_path):
    with pytest.raises(BadInput, match=r"`methods` must be of map, de, .*Did you mean 's-hmc'"):
        read(MNIST7, records, methods=["s-hcm"])
    with pytest.raises(BadInput, match=r"`protocol` must be one of paper, clean, but got 'tidy'"):
        read(MNIST7, records, "tidy")
    with pytest.raises(BadInput, match=r"`records` must be .* --confidence of de, but got"):
        read(MNIST7, records, methods=["de"])
    with pytest.raises(BadInput, match=r"`records` must be"):
        read(MNIST7, tmp_path / "nothing")


def test_seed_mean_skips_what_is_not_a_number():
    stack = np.array([[1.0, 2.0], [3.0, np.nan]])
    assert seed_mean(stack).tolist() == [2.0, 2.0]


def test_a_method_has_one_colour_and_the_largest_p_a_solid_line(records):
    write(records, "de", islands=1)
    found = looks(read(MNIST7, records))
    # The third colour is that of S-SMC, which has no records here: a method keeps its own.
    assert [look.colour for look in found] == [PALETTE[0], PALETTE[1], PALETTE[3], PALETTE[3]]
    assert looks(read(MNIST7, records, methods=["s-hmc"])) == found[2:]
    assert found[2].dashes != "-"
    assert found[3].dashes == "-"
    assert (found[2].hatch, found[3].hatch) == ("///", "")


def test_another_row_with_the_same_p_leaves_the_dashes_of_p_alone(records):
    for islands in (1, 8):
        write(records, "s-smc", islands=islands)
    write(records, "s-smc", islands=8, island_weights="equal")
    found = read(MNIST7, records)
    seen = {row.name: look for row, look in zip(found.rows, looks(found), strict=True)}
    assert seen["S-SMC∥, P = 1"].dashes == seen["S-HMC∥, P = 1"].dashes
    assert seen["S-SMC∥, by evidence, P = 8"].dashes == "-"
    other = seen["S-SMC∥, equal weights, P = 8"]
    assert other.dashes not in ("-", seen["S-HMC∥, P = 1"].dashes)
    assert other.hatch == "..."


def test_roc_is_averaged_vertically_and_names_the_areas(records):
    axes = roc.draw(read(MNIST7, records)).axes[0]
    found = lines(axes)
    eight = only(found, "S-HMC∥, P = 8")
    x, y = eight.get_data()
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    wanted = 1 - ((1 - x) ** 4 + (1 - x) ** 6) / 2
    # at the 101 points of the arrays exactly, between them by straight lines
    np.testing.assert_allclose(y[1::2], wanted[1::2], atol=1e-12)
    # areas 0.70 and 0.72: mean 0.71, error 0.01 / sqrt 2
    assert eight.get_label().endswith("AUC 0.710 ± 0.007")
    assert only(found, "MAP").get_label() == "MAP (1 seed): AUC 0.600"
    assert "by chance" in found


def test_roc_that_starts_straight_up_keeps_the_whole_step(records):
    row = read(MNIST7, records, methods=["map"]).rows[0]
    steep = {"roc.false_positive_rate": [0.0, 0.0, 1.0], "roc.true_positive_rate": [0.0, 0.5, 1.0]}
    sharp = type(row)(row.name, row.method, 1, row.pooled, (steep,))
    x, y = roc.mean_roc(sharp)
    assert (x[:2].tolist(), y[:2].tolist()) == ([0.0, 0.0], [0.0, 0.5])
    np.testing.assert_allclose(y[1:], 0.5 + 0.5 * x[1:])


def test_thresholds_show_the_mean_accuracy_and_the_optimal_threshold(records):
    axes = thresholds.draw(read(MNIST7, records)).axes[0]
    x, y = only(lines(axes), "S-HMC∥, P = 8").get_data()
    np.testing.assert_allclose(y, 0.5 + 0.2 * x + 0.005)
    colour = only(lines(axes), "S-HMC∥, P = 8").get_color()
    points = [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in axes.get_lines()
        if len(line.get_xdata()) == 1 and line.get_color() == colour
    ]
    # P = 1 and P = 8: accuracy 0.65 + level, of which the mean is 0 and 0.01
    assert points == [pytest.approx((0.25, 0.65)), pytest.approx((0.25, 0.66))]


def test_confusion_rates_are_shares_of_each_line(records):
    figure = confusion.draw(read(MNIST7, records))
    images = [axes.get_images()[0].get_array() for axes in figure.axes]
    assert len(images) == 6  # two thresholds, three methods
    # seeds 0 and 1 answer 80 and 81 of 100 right ones
    np.testing.assert_allclose(images[2], [[0.805, 0.195], [0.75, 0.25]])
    np.testing.assert_allclose(images[5], [[0.6, 0.4], [0.25, 0.75]])
    for image in images:
        np.testing.assert_allclose(np.asarray(image).sum(axis=1), 1)
    texts = [text.get_text() for text in figure.axes[2].texts]
    assert texts[0] == "0.81\n±0.004"  # 0.005 / sqrt 2
    assert figure.axes[0].texts[0].get_text() == "0.80"  # one seed has no error
    assert figure.axes[3].get_ylabel() == "F1-optimal\nthreshold"


def test_a_line_without_inputs_has_no_rates(records):
    row = read(MNIST7, records, methods=["map"]).rows[0]
    empty = {"confusion.default": np.array([[3, 1], [0, 0]])}
    means, _ = confusion.confusion_rates(
        type(row)(row.name, row.method, 1, row.pooled, (empty,)), "default"
    )
    assert means[0].tolist() == [0.75, 0.25]
    assert np.isnan(means[1]).all()


def test_risk_is_averaged_where_all_seeds_have_a_coverage(records):
    figure = risk_coverage.draw(read(MNIST7, records))
    for axes, slope in zip(figure.axes, (1 / 10, 1 / 2), strict=True):
        x, y = only(lines(axes), "S-HMC∥, P = 8").get_data()
        assert x[0] == pytest.approx(0.11)  # the second seed begins there
        assert x[-1] == 1
        np.testing.assert_allclose(y, slope * x)
    label = only(lines(figure.axes[0]), "MAP").get_label()
    assert label == "MAP (1 seed): area 1.00 % in domain, 20.00 % mixed"


def test_reliability_pools_the_examples_of_all_seeds(records):
    figure = reliability.draw(read(MNIST7, records))
    assert len(figure.axes) == 2
    for axes in figure.axes:
        x, y = only(lines(axes), "S-HMC∥, P = 8").get_data()
        # bins of 8 examples and of none are left out; 30 examples at 0.60, 40 at 0.61
        np.testing.assert_allclose(x, [(30 * 0.6 + 40 * 0.61) / 70, 0.9])
        np.testing.assert_allclose(y, [0.5, 0.805])
        assert "calibrated" in lines(axes)


def test_bars_stack_epistemic_on_aleatoric_entropy(records):
    figure = entropies.draw(read(MNIST7, records))
    groups, classes = figure.axes
    assert [text.get_text() for text in groups.get_xticklabels()][:3] == GROUPS[:3]
    # containers: aleatoric and epistemic of each of the three methods
    below, above = groups.containers[4], groups.containers[5]
    wanted = np.arange(6) + 1.5
    wanted[1] = 2.0  # only seed 0 has incorrect predictions
    np.testing.assert_allclose([bar.get_height() for bar in below], 0.7 * wanted)
    np.testing.assert_allclose([bar.get_height() for bar in above], 0.3 * wanted)
    np.testing.assert_allclose([bar.get_y() for bar in above], 0.7 * wanted)
    np.testing.assert_allclose([b.get_height() for b in classes.containers[4]], [0.7, 1.4, 2.1])
    bars = [bar for container in groups.containers[::2] for bar in container]
    edges = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars)
    assert all(left[1] <= right[0] + 1e-9 for left, right in itertools.pairwise(edges))


def test_bars_have_the_papers_totals_in_its_own_protocol_only(records):
    def heights(protocol):
        axes = entropies.draw(read(MNIST7, records, protocol)).axes[0]
        return [
            segment[0, 1]
            for group in axes.collections
            for segment in group.get_segments()
            if len(segment)
        ]

    # the paper's MAP and S-HMC with P = 1: 8, 9, noise, perturbed
    wanted = [0.9507, 0.6157, 0.7703, 0.7528, 1.091, 0.7567, 1.453, 0.8443]
    shown = [height for height in heights("paper") if not np.isnan(height)]
    np.testing.assert_allclose(shown, wanted)
    assert heights("clean") == []


def test_the_spider_puts_the_best_of_each_axis_at_one(records):
    found = read(MNIST7, records)
    figure = spider.draw(found)
    assert spider.NORMALISATION in figure.get_suptitle()
    drawn = np.array([line.get_ydata() for line in lines(figure.axes[0]).values()])
    assert drawn.shape == (3, len(spider.AXES) + 1)
    np.testing.assert_allclose(drawn[:, 0], drawn[:, -1])  # closed
    np.testing.assert_allclose(drawn.max(axis=0), 1)
    at = [name for name, _, _ in spider.AXES]
    # MAP against S-HMC, P = 8: more accuracy is better, less NLL is
    assert drawn[0, at.index("accuracy")] == pytest.approx(0.8 / 0.91)
    assert drawn[0, at.index("nll")] == pytest.approx(0.19 / 0.3)
    assert drawn[1, at.index("nll")] == pytest.approx(0.19 / 0.2)
    assert drawn[0, at.index("ece")] == 1


@pytest.mark.parametrize(
    ("values", "more", "wanted"),
    [
        ([2.0, 4.0, 3.0], True, [0.5, 1.0, 0.75]),
        ([2.0, 4.0, 8.0], False, [1.0, 0.5, 0.25]),
        ([0.0, 0.5], False, [1.0, 0.0]),
        ([0.0, 0.0], True, [1.0, 1.0]),
        ([0.0, 0.0], False, [1.0, 1.0]),
        ([0.0, 0.5], True, [0.0, 1.0]),
    ],
)
def test_relative_to_best(values, more, wanted):
    assert spider.relative_to_best(np.array(values), more).tolist() == wanted


def test_negative_values_have_no_ratio():
    with pytest.raises(BadInput, match="`values` must be non-negative"):
        spider.relative_to_best(np.array([-1.0, 1.0]), True)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_becomes_a_file(records, name):
    target = records / "pictures" / f"{name}.png"
    assert draw_file(name, MNIST7, records, target, protocol="clean") == target
    assert target.read_bytes().startswith(b"\x89PNG")
    assert name in NAMES


@pytest.fixture(scope="module")
def every_row(tmp_path_factory):
    out = tmp_path_factory.mktemp("records")
    for row in ROWS:
        write(out, row.method, islands=row.islands, preset=row.preset, **row.overrides)
    return read(MNIST7, out)


@pytest.mark.parametrize("name", FIGURES)
def test_with_every_row_nothing_is_cut_off(every_row, name):
    assert len(every_row.rows) == len(ROWS)
    figure = FIGURES[name](every_row)
    figure.draw_without_rendering()
    width, height = figure.bbox.size
    for part in [*figure.legends, figure._suptitle]:
        box = part.get_window_extent()
        assert 0 <= box.x0 <= box.x1 <= width, part
        assert 0 <= box.y0 <= box.y1 <= height, part


def test_the_papers_entropies_stand_at_its_own_rows_only(every_row):
    marked = {
        row.name
        for row in every_row.rows
        if not np.isnan(entropies.paper_totals(every_row, row, ["8"])).all()
    }
    assert marked == {"MAP", "deep ensemble, P = 1", "S-SMC∥, P = 1", "S-HMC∥, P = 1"}


def test_a_saved_picture_keeps_its_colours(tmp_path):
    figure = new_figure(3.0, 3.0)
    axes = figure.subplots()
    # Many greens and one small swatch of blue.
    axes.imshow(np.linspace(0, 1, 256).reshape(16, 16), cmap="Greens")
    axes.add_patch(Rectangle((0, 0), 1, 1, color=PALETTE[0]))
    with Image.open(save(figure, tmp_path / "new" / "picture.png")) as picture:
        colours = np.array(picture.convert("RGB")).reshape(-1, 3)
    blue = np.array([int(PALETTE[0][i : i + 2], 16) for i in (1, 3, 5)])
    assert (np.abs(colours - blue).max(axis=1) <= 8).sum() > 50
