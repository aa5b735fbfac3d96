"""The figures of the meta-classifier show the numbers of the records, averaged as they say."""

import numpy as np
import pytest
from chart_examples import assert_nothing_is_cut_off
from confidence_records import GROUPS, arrays, entropies_of, write

from sbmc.checks import BadInput
from sbmc.report.limits import Limits
from sbmc.report.pictures import draw_picture
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
from sbmc_studies.figures.comparison import MethodResult, read_comparison, seed_mean
from sbmc_studies.figures.method_styles import StyledRow, method_styles
from sbmc_studies.paper.claims.mnist7_confidence import ROWS
from sbmc_studies.paper.tables.confidence import confidence_rows, row_islands

MNIST7 = get_experiment("mnist7")
LIMITS = Limits(points=201)


@pytest.fixture
def records(tmp_path):
    write(tmp_path, "map", seed=0, level=-0.1)
    for seed in range(2):
        write(tmp_path, "s-hmc", seed=seed, islands=1, bend=3.0)
        write(tmp_path, "s-hmc", seed=seed, islands=8, bend=4.0 + 2 * seed, level=0.02 * seed)
    return tmp_path


def test_reading_leaves_out_what_has_no_record_and_says_how_many_seeds(records):
    found = read_comparison(MNIST7, records)
    labels = [row.style.label for row in found.rows]
    assert labels == ["MAP (1 seed)", "S-HMC∥, P = 1 (2 seeds)", "S-HMC∥, P = 8 (2 seeds)"]
    assert found.heading() == "mnist7: the paper's protocol, mean over the seeds of each"
    assert [
        row.style.label[:3] for row in read_comparison(MNIST7, records, methods=["map"]).rows
    ] == ["MAP"]
    for seed in range(5):
        write(records, "de", seed=seed, islands=8)
    full = read_comparison(MNIST7, records, "clean", ["de"])
    assert full.rows[0].style.label == "deep ensemble, P = 8"
    assert full.heading() == "mnist7: the clean protocol, mean over 5 seeds"


def test_metrics_and_arrays_are_those_of_the_protocol(records):
    paper, clean = read_comparison(MNIST7, records), read_comparison(MNIST7, records, "clean")
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
    assert [row.method for row in read_comparison(MNIST7, records, "paper").rows] == [
        "map", "de", "s-hmc", "s-hmc",
    ]  # fmt: skip
    assert "de" not in [row.method for row in read_comparison(MNIST7, records, "clean").rows]


def test_what_cannot_be_read_is_refused(records, tmp_path):
    with pytest.raises(BadInput, match=r"`methods` must be of map, de, .*Did you mean 's-hmc'"):
        read_comparison(MNIST7, records, methods=["s-hcm"])
    with pytest.raises(BadInput, match=r"`protocol` must be one of paper, clean, but got 'tidy'"):
        read_comparison(MNIST7, records, "tidy")
    with pytest.raises(BadInput, match=r"`records` must be .* --confidence of de, but got"):
        read_comparison(MNIST7, records, methods=["de"])
    with pytest.raises(BadInput, match=r"`records` must be"):
        read_comparison(MNIST7, tmp_path / "nothing")


def test_seed_mean_skips_what_is_not_a_number():
    stack = np.array([[1.0, 2.0], [3.0, np.nan]])
    assert seed_mean(stack).tolist() == [2.0, 2.0]


def build(module, records, **options):
    return module.build(read_comparison(MNIST7, records, **options), LIMITS)


def only(chart, start):
    """The curve whose label begins so."""
    (curve,) = [each for each in chart.curves if each.style.label.startswith(start)]
    return curve


def test_a_method_has_one_colour_and_the_largest_p_a_solid_line(records):
    write(records, "de", islands=1)
    found = [row.style for row in read_comparison(MNIST7, records).rows]
    # The third colour is that of S-SMC, which has no records here: a method keeps its own.
    assert [style.colour for style in found] == [0, 1, 3, 3]
    alone = [row.style for row in read_comparison(MNIST7, records, methods=["s-hmc"]).rows]
    assert alone == found[2:]
    assert [style.stroke for style in found[2:]] == [1, 0]
    assert found[3].dashes is None


def test_another_row_with_the_same_p_leaves_the_dashes_of_p_alone(records):
    for islands in (1, 8):
        write(records, "s-smc", islands=islands)
    write(records, "s-smc", islands=8, island_weights="equal")
    found = read_comparison(MNIST7, records)
    strokes = {row.style.label.split(" (")[0]: row.style.stroke for row in found.rows}
    assert strokes["S-SMC∥, P = 1"] == strokes["S-HMC∥, P = 1"] == 1
    assert strokes["S-SMC∥, by evidence, P = 8"] == 0
    assert strokes["S-SMC∥, equal weights, P = 8"] == 2


def test_roc_is_averaged_vertically_and_names_the_areas(records):
    (figure,) = build(roc, records)
    eight = only(figure.chart, "S-HMC∥, P = 8")
    x, y = np.array(eight.x), np.array(eight.y)
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    wanted = 1 - ((1 - x) ** 4 + (1 - x) ** 6) / 2
    # at the 101 points of the arrays exactly, between them by straight lines
    np.testing.assert_allclose(y[1::2], wanted[1::2], atol=1e-12)
    # areas 0.70 and 0.72: mean 0.71, error 0.01 / sqrt 2
    assert eight.note == "AUC 0.710 ± 0.007"
    assert only(figure.chart, "MAP (1 seed)").note == "AUC 0.600"
    assert [guide.label for guide in figure.chart.guides] == ["by chance"]


def with_arrays(records, found):
    """A method whose only seed has these arrays."""
    row = read_comparison(MNIST7, records, methods=["map"]).rows[0]
    return MethodResult(row.style, row.method, 1, row.pooled, (found,))


def test_roc_that_starts_straight_up_keeps_the_whole_step(records):
    steep = {"roc.false_positive_rate": [0.0, 0.0, 1.0], "roc.true_positive_rate": [0.0, 0.5, 1.0]}
    rates = roc.mean_roc(with_arrays(records, steep))
    np.testing.assert_allclose(rates, 0.5 + 0.5 * roc.FALSE_RATES)


def test_thresholds_show_the_mean_accuracy_and_the_optimal_threshold(records):
    (figure,) = build(thresholds, records)
    curve = only(figure.chart, "S-HMC∥, P = 8")
    np.testing.assert_allclose(curve.y, 0.5 + 0.2 * np.array(curve.x) + 0.005)
    points = [(point.x, point.y) for point in figure.chart.points]
    # MAP, P = 1 and P = 8: accuracy 0.65 + level, of which the mean is -0.1, 0 and 0.01
    assert points == [pytest.approx((0.25, y)) for y in (0.55, 0.65, 0.66)]
    assert figure.chart.points[2].style == curve.style


def test_confusion_rates_are_shares_of_each_line(records):
    default, optimal = (figure.chart for figure in build(confusion, records))
    cells = [[value for value, _ in cells] for _, cells in default.rows]
    assert len(cells) == 3
    # seeds 0 and 1 answer 80 and 81 of 100 right ones
    np.testing.assert_allclose(cells[2], [0.805, 0.195, 0.75, 0.25])
    np.testing.assert_allclose([value for value, _ in optimal.rows[2][1]], [0.6, 0.4, 0.25, 0.75])
    assert default.rows[2][1][0][1] == "0.81 ±0.00"  # 0.005 / sqrt 2
    assert default.rows[0][1][0][1] == "0.80"  # one seed has no error


def test_a_line_without_inputs_has_no_rates(records):
    empty = with_arrays(records, {"confusion.default": np.array([[3, 1], [0, 0]])})
    means, _ = confusion.confusion_rates(empty, "default")
    assert means[0].tolist() == [0.75, 0.25]
    assert np.isnan(means[1]).all()


def test_risk_is_averaged_where_all_seeds_have_a_coverage(records):
    figures = build(risk_coverage, records)
    for figure, slope in zip(figures, (1 / 10, 1 / 2), strict=True):
        curve = only(figure.chart, "S-HMC∥, P = 8")
        assert curve.x[0] == pytest.approx(0.11)  # the second seed begins there
        assert curve.x[-1] == 1
        np.testing.assert_allclose(curve.y, slope * np.array(curve.x))
    notes = [only(figure.chart, "MAP").note for figure in figures]
    assert notes == ["AURC 1.00\u00a0%", "AURC 20.00\u00a0%"]


def test_reliability_pools_the_examples_of_all_seeds(records):
    figures = build(reliability, records)
    assert len(figures) == 2
    for figure in figures:
        curve = only(figure.chart, "S-HMC∥, P = 8")
        # bins of 8 examples and of none are left out; 30 examples at 0.60, 40 at 0.61
        np.testing.assert_allclose(curve.x, [(30 * 0.6 + 40 * 0.61) / 70, 0.9])
        np.testing.assert_allclose(curve.y, [0.5, 0.805])
        assert figure.chart.guides[0].label == "calibrated"


def test_entropies_are_those_of_the_records_by_group_and_of_the_arrays_by_class(records):
    groups, classes = (figure.chart.groups for figure in build(entropies, records))
    assert [name for name, _ in groups[:3]] == [
        "test set, right",
        "test set, wrong",
        "out of domain: 8",
    ]
    # the mean over the seeds of P = 8, which are at 0 and 0.02
    wanted = entropies_of(0.01)
    for name, (_, bars) in zip(GROUPS, groups, strict=True):
        group = name if name in ("correct", "incorrect") else f"ood.{name}"
        parts = [wanted[f"entropy.{kind}.{group}"] for kind in ("aleatoric", "epistemic")]
        assert [bars[2].pale, bars[2].full] == pytest.approx(parts)
    np.testing.assert_allclose([bars[2].pale for _, bars in classes], [0.7, 1.4, 2.1])
    np.testing.assert_allclose([bars[2].full for _, bars in classes], [0.3, 0.6, 0.9])


def test_bars_have_the_papers_totals_in_its_own_protocol_only(records):
    def marks(protocol):
        figures = build(entropies, records, protocol=protocol)
        bars = [bar for _, bars in figures[0].chart.groups for bar in bars]
        return [bar.mark for bar in bars if bar.mark is not None]

    # the paper's MAP and S-HMC with P = 1: 8, 9, noise, perturbed
    assert marks("paper") == [0.9507, 1.091, 0.6157, 0.7567, 0.7703, 1.453, 0.7528, 0.8443]
    assert marks("clean") == []


def test_the_spider_puts_the_best_of_each_axis_at_one(records):
    (figure,) = build(spider, records)
    drawn = np.array([values for _, values in figure.chart.series])
    assert drawn.shape == (3, len(spider.AXES))
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
    return read_comparison(MNIST7, out)


@pytest.mark.parametrize("name", FIGURES)
def test_with_every_row_nothing_is_cut_off(every_row, name):
    assert len(every_row.rows) == len(ROWS)
    picture = draw_picture(FIGURES[name](every_row, LIMITS), every_row.heading())
    assert_nothing_is_cut_off(picture)


def test_the_papers_entropies_stand_at_its_own_rows_only(every_row):
    groups = entropies.build(every_row, LIMITS)[0].chart.groups
    marked = {bar.style.label for _, bars in groups for bar in bars if bar.mark is not None}
    names = ["MAP", "deep ensemble, P = 1", "S-SMC∥, P = 1", "S-HMC∥, P = 1"]
    assert marked == {f"{name} (1 seed)" for name in names}


@pytest.mark.parametrize("name", ["mnist7", "imdb", "cifar10"])
def test_no_two_rows_of_an_experiment_look_the_same(name):
    experiment = get_experiment(name)
    rows = [
        StyledRow(str(index), row.method, row_islands(experiment, row))
        for index, row in enumerate(confidence_rows(experiment))
    ]
    styles = method_styles(experiment, rows)
    assert len({(style.colour, style.stroke) for style in styles}) == len(rows) > 5
