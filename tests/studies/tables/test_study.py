import re

import pytest

from sbmc.checks import BadInput
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.paper.tables.lines import MISSING, within_tolerance
from sbmc_studies.paper.tables.study import (
    build_table,
    differences,
    headings,
    render_markdown,
    write_tables,
)
from sbmc_studies.records.pooling import find_records, pool
from sbmc_studies.records.record import Record, write_record

METRICS = {
    "accuracy": 0.93,
    "nll": 0.232,
    "entropy.epistemic.correct": 0.056,
    "entropy.epistemic.incorrect": 0.264,
    "entropy.epistemic.ood.all": 0.463,
}


def write(out, method="s-hmc", preset="paper", seed=0, wall=10.0, metrics=None, **overrides):
    settings = resolve(get_experiment("mnist7"), get_method(method), preset, overrides)
    record = Record(
        experiment="mnist7",
        method=method,
        settings=settings,
        seed=seed,
        data={"name": "mnist7", "checksum": "0"},
        cost={
            "epochs": 160.0,
            "forward_epochs": 0.0,
            "anchor_epochs": 160.0,
            "total_epochs": 1760.0,
            "wall_seconds": wall,
        },
        metrics={**METRICS, **(metrics or {})},
        islands=[],
        outcome="completed",
    )
    write_record(out, record)
    return record


def line(lines, label, islands):
    found = [each for each in lines if (each.cells[0], each.cells[1]) == (label, islands)]
    assert len(found) == 1
    return found[0]


def column(heading):
    return headings().index(heading)


def test_pooling_is_the_papers_formula(tmp_path):
    values = [0.90, 0.92, 0.93, 0.93, 0.95]
    records = [write(tmp_path, seed=k, metrics={"accuracy": v}) for k, v in enumerate(values)]
    pooled = pool(records)
    mean = sum(values) / 5
    deviation = sum((value - mean) ** 2 for value in values) / 5
    assert pooled.values["accuracy"] == pytest.approx(mean)
    assert pooled.errors["accuracy"] == pytest.approx((deviation / 5) ** 0.5)
    assert pooled.cost["wall_seconds"] == 10


def test_records_that_differ_are_not_pooled(tmp_path):
    first = write(tmp_path)
    with pytest.raises(BadInput, match="hash"):
        pool([first, write(tmp_path, seed=1, s=0.2)])
    with pytest.raises(BadInput, match="method"):
        pool([first, write(tmp_path, "map", seed=1)])
    other = write(tmp_path, seed=1)
    other.data = {"name": "mnist7", "checksum": "1"}
    with pytest.raises(BadInput, match="data"):
        pool([first, other])
    with pytest.raises(BadInput, match="different seeds"):
        pool([first, first])
    with pytest.raises(BadInput, match="at least one"):
        pool([])


def test_what_one_seed_lacks_the_mean_lacks(tmp_path):
    first = write(tmp_path, metrics={"nll": None}, wall=None)
    pooled = pool([first, write(tmp_path, seed=1)])
    assert "nll" not in pooled.values
    assert pooled.cost["wall_seconds"] is None
    assert pooled.values["accuracy"] == pytest.approx(0.93)


@pytest.mark.parametrize(
    ("metric", "ours", "paper", "errors", "expected"),
    [
        ("accuracy", 0.920, 0.930, (0, 0), True),
        ("accuracy", 0.919, 0.930, (0, 0), False),
        ("accuracy", 0.919, 0.930, (0.003, 0.004), True),  # three joint errors are 1.5 points
        ("accuracy", 0.914, 0.930, (0.003, 0.004), False),
        ("nll", 0.265, 0.231, (1, 1), True),
        ("nll", 0.267, 0.231, (1, 1), False),
        ("entropy.epistemic.correct", 0.149, 0.1, (0, 0), True),
        ("entropy.epistemic.correct", 0.049, 0.1, (0, 0), False),
        ("entropy.epistemic.correct", 0.0, 0.0, (0, 0), True),
        ("entropy.epistemic.correct", 0.01, 0.0, (0, 0), False),
    ],
)
def test_tolerances(metric, ours, paper, errors, expected):
    assert within_tolerance(metric, ours, paper, *errors) is expected


def test_without_records_every_cell_of_ours_is_missing(tmp_path):
    experiment = get_experiment("mnist7")
    lines = build_table(experiment, tmp_path)
    ours = [each for each in lines if not each.quiet]
    assert len(ours) == len(experiment.rows)
    for each in ours:
        assert set(each.cells[2:]) == {MISSING}
    # the paper's numbers stand there, and nothing is said to agree with them
    assert not any("✓" in cell or "✗" in cell for each in lines for cell in each.cells)


def test_ours_beside_the_papers(tmp_path):
    for seed in range(5):
        write(tmp_path, seed=seed, islands=1)
        write(tmp_path, seed=seed, islands=8, wall=None, metrics={"nll": 0.31})
    lines = build_table(get_experiment("mnist7"), tmp_path)
    ours = line(lines, "S-HMC∥", "1")
    assert ours.cells[column("accuracy %")] == "93.0±0.00"
    assert ours.cells[column("seconds")] == "10"
    index = lines.index(ours)
    paper = lines[index + 1]
    assert paper.quiet
    assert paper.cells[column("accuracy %")] == "93.0±0.17 ✓"
    assert paper.cells[column("H_ep OOD")].endswith("✓")
    eight = lines.index(line(lines, "S-HMC∥", "8"))
    assert lines[eight].cells[column("seconds")] == MISSING
    assert lines[eight + 1].cells[column("NLL")] == "0.231±0.002 ✗"


def test_long_chains_that_we_have_no_rows_for_are_quoted_as_not_rerun(tmp_path):
    lines = build_table(get_experiment("mnist7"), tmp_path)
    quoted = [each for each in lines if "not rerun" in each.cells[0]]
    assert [each.cells[column("epochs")] for each in quoted] == ["200,000", "1,800,000"]


def test_time_is_compared_with_the_deep_ensemble_of_the_same_size(tmp_path):
    for seed in range(5):
        write(tmp_path, "de", seed=seed, islands=1, wall=20.0)
        write(tmp_path, "hmc", "best", seed=seed, islands=1, wall=50.0)
        write(tmp_path, "hmc", "best", seed=seed, islands=8, wall=50.0)
    lines = build_table(get_experiment("mnist7"), tmp_path)
    assert line(lines, "deep ensemble", "1").cells[column("× DE")] == "1.00"
    assert line(lines, "HMC∥, scouted, π/2, from the ensemble", "1").cells[column("× DE")] == "2.50"
    assert (
        line(lines, "HMC∥, scouted, π/2, from the ensemble", "8").cells[column("× DE")] == MISSING
    )


def test_fewer_seeds_are_said_to_be_fewer_and_others_left_out(tmp_path):
    for seed in (0, 3, 7):
        write(tmp_path, "map", seed=seed)
    experiment = get_experiment("mnist7")
    row = experiment.rows[0]
    assert row.method == "map"
    assert [record.seed for record in find_records(tmp_path, experiment, row)] == [0, 3]
    assert build_table(experiment, tmp_path)[0].cells[0] == "MAP (2 of 5 seeds)"


def test_markdown_has_a_cell_for_every_heading(tmp_path):
    text = render_markdown(build_table(get_experiment("mnist7"), tmp_path))
    rows = text.splitlines()
    assert len({row.count("|") for row in rows}) == 1
    assert rows[0].count("|") == len(headings()) + 1
    assert re.fullmatch(r"\| ---( \| ---:)+ \|", rows[1])


def test_text_shows_every_cell_whole(tmp_path, capsys):
    from sbmc.cli.tables import print_wide
    from sbmc_studies.paper.tables.study import render

    lines = build_table(get_experiment("mnist7"), tmp_path)
    print_wide(render("title", lines))
    shown = capsys.readouterr().out
    assert "…" not in shown
    for each in lines:
        assert all(cell.strip() in shown for cell in each.cells)


def test_tables_are_written_between_their_marks(tmp_path):
    page = "a\n<!-- table: digits smc -->\nold\n<!-- end: digits -->\nb\n<!-- table: mnist7 -->\n"
    made = write_tables(page, get_experiment("digits"), tmp_path)
    assert made.startswith("a\n<!-- table: digits smc -->\n\n|")
    assert made.endswith("|\n\n<!-- end: digits -->\nb\n<!-- table: mnist7 -->\n")
    assert "old" not in made
    assert "S-SMC∥, waste-free" in made
    assert "MAP" not in made  # of another section
    assert write_tables(made, get_experiment("digits"), tmp_path) == made
    with pytest.raises(BadInput, match="table: mnist7"):
        write_tables("nothing", get_experiment("mnist7"), tmp_path)


def test_the_other_weighting_is_read_from_the_same_records(tmp_path):
    metrics = {"nll": 0.3, "accuracy": 0.9, "equal.nll": 0.2, "equal.accuracy": 0.95}
    for seed in range(5):
        write(tmp_path, "s-smc", seed=seed, metrics=metrics, islands=8)
    lines = build_table(get_experiment("mnist7"), tmp_path, ["paper"])
    shown = {line.cells[0]: line.cells[3] for line in lines if line.cells[1] == "8"}
    assert shown["S-SMC∥, by evidence"] == "0.300±0.000"
    assert shown["S-SMC∥, equal weights"] == "0.200±0.000"


def test_rows_outside_the_tolerance_are_explained_in_words(tmp_path):
    for seed in range(5):
        write(tmp_path, "hmc", seed=seed, islands=1, metrics={"accuracy": 0.5, "nll": 1.27})
        write(tmp_path, "map", seed=seed, metrics={"accuracy": 0.923, "nll": 0.253})
    lines = differences(get_experiment("mnist7"), tmp_path)
    (hmc,) = [line for line in lines if line.startswith("HMC∥, P = 1")]
    assert "accuracy % 50.0 against 78.4" in hmc
    assert "NLL" not in hmc
    assert "Why: " in hmc


def test_the_short_table_has_the_headline_rows_alone(tmp_path):
    experiment = get_experiment("mnist7")
    rows = [row.label for row in experiment.rows if row.headline]
    lines = build_table(experiment, tmp_path, ["headline"])
    ours = [line.cells[0] for line in lines if not line.quiet]
    assert ours == rows
    assert 5 < len(rows) < 15
