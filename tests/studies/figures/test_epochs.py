import pytest

from sbmc.checks import BadInput
from sbmc.report.limits import Limits
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.figures.catalogue import draw_file
from sbmc_studies.figures.epochs import PANELS, build, curve_row, find_series
from sbmc_studies.paper.numbers import gold_standards
from sbmc_studies.records.finding import RunsInFolder
from sbmc_studies.records.record import Record, write_record

MNIST7 = get_experiment("mnist7")
CURVES = MNIST7.curves["epochs"]


def write(out, curve, epochs, seed, accuracy):
    row = curve_row(curve, epochs)
    record = Record(
        experiment="mnist7",
        method=row.method,
        settings=resolve(MNIST7, get_method(row.method), row.preset, row.overrides),
        seed=seed,
        data={"name": "mnist7", "checksum": "0"},
        cost=dict.fromkeys(
            ("epochs", "forward_epochs", "anchor_epochs", "total_epochs", "wall_seconds"), 1.0
        ),
        metrics={panel.metric: accuracy for panel in PANELS},
        islands=[],
        outcome="completed",
    )
    write_record(out, record)


@pytest.fixture
def records(tmp_path):
    for seed, accuracy in ((0, 0.8), (1, 0.9)):
        write(tmp_path, CURVES[0], 50, seed, accuracy)
        write(tmp_path, CURVES[0], 800, seed, accuracy + 0.05)
        write(tmp_path, CURVES[2], 100, seed, accuracy)
    return tmp_path


def read_series(records):
    return find_series(MNIST7, RunsInFolder(records, "mnist7"))


def test_settings_follow_the_budget():
    paper, _, ours = (curve_row(curve, 400) for curve in CURVES)
    assert paper.overrides["steps"] == 400
    assert (ours.overrides["epochs"], ours.overrides["scout"]) == (400, 200)
    for curve in CURVES:
        for epochs in curve["epochs"]:
            row = curve_row(curve, epochs)
            resolve(MNIST7, get_method(row.method), row.preset, row.overrides)  # refuses nonsense


def test_series_have_the_points_that_have_records(records):
    first, second = read_series(records)
    assert first.label == CURVES[0]["label"]
    assert first.epochs == (50, 800)
    assert first.values("accuracy") == pytest.approx([0.85, 0.90])
    assert first.errors("accuracy") == pytest.approx([0.05 / 2**0.5] * 2)
    assert second.epochs == (100,)


def test_the_figure_has_these_points_and_the_papers_long_chains(records):
    figures = build("mnist7", read_series(records), Limits())
    chart = figures[0].chart
    paper = chart.curves[0]
    assert paper.style.label == f"{CURVES[0]['label']} (2 seeds)"
    assert list(paper.x) == [50, 800]
    assert paper.y == pytest.approx([15.0, 10.0])
    assert paper.errors == pytest.approx([5 / 2**0.5] * 2)
    gold = [100 - 100 * row.values["accuracy"] for row in gold_standards("mnist7")]
    assert [guide.start[1] for guide in chart.guides] == pytest.approx(gold)
    assert [each.title for each in figures] == [panel.title for panel in PANELS]


def test_a_metric_that_no_record_has_is_no_figure(records):
    series = read_series(records)
    for each in series:
        for point in each.points:
            del point.values["nll"]
    titles = [each.title for each in build("mnist7", series, Limits())]
    assert titles == [panel.title for panel in PANELS if panel.metric != "nll"]


def test_the_legend_says_how_many_seeds_there_are(records):
    write(records, CURVES[0], 800, 2, 0.9)
    write(records, CURVES[1], 50, 0, 0.9)
    first, second, third = read_series(records)
    assert first.legend.endswith("(2–3 seeds)")
    assert second.legend.endswith("(1 seed)")
    assert third.legend.endswith("(2 seeds)")


def test_the_picture_is_written(records, tmp_path):
    target = tmp_path / "new" / "epochs.png"
    assert draw_file("epochs", MNIST7, records, target).stat().st_size > 1000


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(BadInput, match="`records`"):
        draw_file("epochs", MNIST7, tmp_path, tmp_path / "epochs.png")
    with pytest.raises(BadInput, match="`name`"):
        draw_file("epochs", get_experiment("digits"), tmp_path, tmp_path / "epochs.png")
