"""The paper's appendix made anew: a row for each of its rows, with the settings that it names."""

import numpy as np
import pytest
from study_records import KINDS, entropies, write

from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.paper.numbers import find_row, groups, paper_rows, read_table, table_names
from sbmc_studies.paper.tables.appendix import FOOTNOTE, build_ablation, build_appendix, row_like
from sbmc_studies.paper.tables.groups import build_groups
from sbmc_studies.paper.tables.lines import MISSING
from sbmc_studies.paper.tables.specs import LONG_CHAIN, NOT_RERUN, Spec, appendix_specs
from sbmc_studies.paper.tables.study import write_tables
from sbmc_studies.runs.confidence import arrays_file

STUDIES = ("mnist7", "imdb", "cifar10")


def spec(experiment, table):
    return next(each for each in appendix_specs(experiment) if each.paper == table)


def test_every_table_of_the_appendix_is_made():
    made = {each.paper for study in STUDIES for each in appendix_specs(study)}
    # The main tables and those of the meta-classifier have commands of their own, GPT-2 a study.
    elsewhere = {name for name in table_names() if "confidence" in name or name.endswith("_main")}
    assert made == set(table_names()) - elsewhere - {"gpt2"}


@pytest.mark.parametrize("study", STUDIES)
def test_every_row_of_the_paper_has_settings(study):
    experiment = get_experiment(study)
    for table in appendix_specs(study):
        if table.by_group:
            continue
        for paper in paper_rows(table.paper):
            row = row_like(experiment, table, paper)
            if row is None:
                assert paper.method == LONG_CHAIN
                continue
            settings = resolve(experiment, get_method(row.method), row.preset, row.overrides)
            assert settings["prior_variance"] == paper.variance
            assert settings["s"] == paper.s
            assert settings["islands"] == (paper.islands or 1)


def test_rules_hold_for_their_method_and_s():
    experiment = get_experiment("mnist7")
    table = spec("mnist7", "mnist7_s_ablation")
    moves = {
        paper.s: resolve(
            experiment, get_method("s-smc"), "paper", row_like(experiment, table, paper).overrides
        )["mutations"]
        for paper in paper_rows(table.paper)
        if paper.method == "s-smc"
    }
    assert moves == {0.5: 10, 0.25: 7, 0.1: 10, 0.01: 10}
    wide = spec("imdb", "imdb_v1_s_ablation")
    rows = [row_like(get_experiment("imdb"), wide, paper) for paper in paper_rows(wide.paper)]
    assert {row.overrides["steps"] for row in rows if row.method == "s-hmc"} == {26}
    assert {row.overrides["mutations"] for row in rows if row.method == "s-smc"} == {2}


def test_without_records_ours_are_missing_and_the_papers_unmarked(tmp_path):
    for study in STUDIES:
        for block in build_appendix(get_experiment(study), tmp_path):
            assert all(len(line.cells) == len(block.headings) for line in block.lines)
            for line in block.lines:
                if not line.quiet and "group" not in block.headings:
                    assert set(line.cells[2:]) == {MISSING}
            assert not any(
                "✓" in cell or "✗" in cell for line in block.lines for cell in line.cells
            )


def test_ours_stand_beside_the_papers(tmp_path):
    experiment = get_experiment("cifar10")
    paper = find_row("cifar10", "s-smc", 8, "cifar10_p_ablation_s010")
    names = groups("cifar10")
    own = {"accuracy": 0.9, "nll": 0.5, "brier": 0.14, "ece": 0.5, **entropies(names)}
    equal = {f"equal.{name}": value for name, value in paper.values.items()}
    write(tmp_path, "cifar10", "s-smc", {**own, **equal}, s=0.1, islands=8)
    table = spec("cifar10", "cifar10_p_ablation_s010")
    first, second = build_ablation(experiment, table, tmp_path)
    at = [line.cells[0] for line in first.lines].index("S-SMC∥, s = 0.1, equal weights")
    while first.lines[at].cells[1] != "8":
        at = [line.cells[0] for line in first.lines].index("S-SMC∥, s = 0.1, equal weights", at + 1)
    evidence, equal_line, beside = first.lines[at - 1 : at + 2]
    assert evidence.cells[:3] == ("S-SMC∥, s = 0.1, by evidence", "8", "90.00±0.00")
    assert equal_line.cells[2] == "90.45±0.00"
    # Marked against equal weights, which were made to agree; the ECE is not marked at all.
    cells = dict(zip(first.headings, beside.cells, strict=True))
    assert cells["accuracy %"] == "90.45±0.06 ✓"
    assert cells["ECE"] == "0.008"
    assert cells["H_ep far"].endswith("✓")
    assert dict(zip(second.headings, second.lines[at + 1].cells, strict=True))[
        "H_tot far"
    ].endswith("✓")


def test_the_brier_score_of_imdb_is_doubled():
    paper = find_row("imdb", "map", table="imdb_v0025_s_ablation")
    assert paper.values["brier"] == pytest.approx(2 * 0.1204)
    other = find_row("cifar10", "map", table="cifar10_s_ablation")
    assert other.values["brier"] == pytest.approx(0.142)


def test_long_chains_that_are_not_rerun_are_quoted(tmp_path):
    table = spec("mnist7", "mnist7_s_ablation")
    block, _ = build_ablation(get_experiment("mnist7"), table, tmp_path)
    labels = [line.cells[0] for line in block.lines]
    assert labels[0] == "HMC, one long chain"
    assert labels.count(NOT_RERUN) == 2
    assert "ECE" not in block.headings  # the paper gives none for MNIST7


@pytest.mark.parametrize(
    ("study", "table"),
    [
        ("mnist7", "mnist7_entropy_per_digit"),
        ("imdb", "imdb_v0025_entropy_per_group"),
        ("imdb", "imdb_v1_entropy_per_group"),
    ],
)
def test_groups_have_a_line_each(tmp_path, study, table):
    block = build_groups(get_experiment(study), spec(study, table), tmp_path)
    assert len(block.lines) == len(read_table(table))
    assert all(len(line.cells) == len(block.headings) == 9 for line in block.lines)


def test_entropies_of_groups_and_of_classes(tmp_path):
    names = groups("imdb")
    values = {"accuracy": 0.8, "nll": 0.4}
    for place, kind in enumerate(KINDS):
        values |= entropies(names, correct=0.1 + place, outside=0.5 + place, kind=kind)
    for seed in (0, 1):
        folder = write(tmp_path, "imdb", "s-hmc", values, seeds=[seed], islands=1)
        arrays = {"entropy.classes": np.array([0, 1])}
        arrays |= {f"entropy.classes.{kind}": np.array([0.25, 0.75 + seed]) for kind in KINDS}
        np.savez(arrays_file(folder, "paper"), **arrays)
    table = spec("imdb", "imdb_v0025_entropy_per_group")
    block = build_groups(get_experiment("imdb"), table, tmp_path)
    lines = {line.cells[2]: line.cells for line in block.lines if "S-HMC" in line.cells[0]}
    assert lines["negative"][0] == "S-HMC∥, s = 0.1 (2 of 5 seeds)"
    assert lines["negative"][3:5] == ("0.25000±0.00000", "0.48920")
    assert lines["positive"][3] == f"1.25000±{0.5 / 2**0.5:.5f}"
    assert lines["reviews"][3] == "0.50000±0.00000"
    assert lines["id"][7] == "2.10000±0.00000"


def test_the_notes_say_which_weights_are_compared():
    assert "equal weights" in FOOTNOTE
    assert Spec("a_entropy_per_digit", "").by_group
    assert not Spec("a_s_ablation", "").by_group


def test_a_page_can_ask_for_single_tables(tmp_path):
    page = (
        "<!-- table: imdb imdb_v1_s_ablation time -->\nold\n<!-- end: imdb -->\n"
        "<!-- table: imdb headline -->\nold\n<!-- end: imdb -->\n"
    )
    made = write_tables(page, get_experiment("imdb"), tmp_path)
    first, second = made.split("<!-- end: imdb -->")[:2]
    assert first.count("**imdb_v1_s_ablation") == 2  # metrics, and total entropies
    assert "**imdb: what each buys with its wall time**" in first
    assert "imdb_v0025" not in first
    assert "| MAP |" in second
    assert "**" not in second
    assert "old" not in made
    everything = "<!-- table: imdb appendix -->\n<!-- end: imdb -->\n"
    text = write_tables(everything, get_experiment("imdb"), tmp_path)
    assert all(f"**{each.paper}: " in text for each in appendix_specs("imdb"))
