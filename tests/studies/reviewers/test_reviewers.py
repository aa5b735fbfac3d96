"""The study `reviewers`: tables of the committed records, and runs that are made once."""

import json
import shutil

import pytest
from repository import RECORDS, ROOT

from sbmc.checks import BadInput
from sbmc_studies.commands.reviewers import reviewers_specs, run_reviewers
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.gauntlet.networks import build_pair_network
from sbmc_studies.gauntlet.pairs import gauntlet_pairs, get_pair
from sbmc_studies.records.pooling import SEEDS, find_records
from sbmc_studies.reviewers.missed import missed_figures
from sbmc_studies.reviewers.page import answer_tables, write_answers
from sbmc_studies.reviewers.questions import (
    QUICK_EXPERIMENT,
    read_questions,
    weights_of_pairs,
)
from sbmc_studies.reviewers.record_tables import question_table

PAGES = [ROOT / "docs" / name for name in ("reviewers.md", "shortfalls.md")]
ROWS = [
    (question, row)
    for question in read_questions().values()
    for row in question.rows
    if question.experiment.name == QUICK_EXPERIMENT
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_has_the_tables_of_the_committed_records(page):
    printed = page.read_text("utf-8")
    made = write_answers(printed, RECORDS)
    assert printed == made, f"run: sbmc table reviewers --write docs/{page.name}"


def test_every_table_is_on_one_of_the_pages():
    printed = "".join(page.read_text("utf-8") for page in PAGES)
    missing = [
        name for name in answer_tables() if f"<!-- table: reviewers {name} -->" not in printed
    ]
    assert missing == []


def test_a_figure_that_is_missed_is_listed_and_one_that_holds_is_not():
    listed = missed_figures(RECORDS)
    assert "ECE at most that of temperature scaling" in listed
    assert "NLL below the deep ensemble of five's" not in listed


@pytest.mark.parametrize(("question", "row"), ROWS, ids=lambda value: getattr(value, "label", ""))
def test_every_row_of_digits_has_five_records(question, row):
    found = find_records(RECORDS, question.experiment, row)
    assert [record.seed for record in found] == list(SEEDS)


def test_a_table_shows_what_its_records_say(tmp_path):
    question = read_questions()["length"]
    row = question.rows[0]
    settings = resolve(question.experiment, get_method(row.method), row.preset, row.overrides)
    for record in find_records(RECORDS, question.experiment, row):
        folder = record.folder(tmp_path)
        shutil.copytree(record.folder(RECORDS), folder)
        content = json.loads((folder / "record.json").read_text("utf-8"))
        content["metrics"]["accuracy"] = 0.5
        (folder / "record.json").write_text(json.dumps(content), "utf-8")
    assert settings["epochs"] == 40
    first, *others = question_table(question, tmp_path).splitlines()[2:]
    assert first.startswith("| s = 0.1, 40 epochs | 50.0±0.00 |")
    assert all(line.split("|")[2:-1] == [" – "] * 8 for line in others)


def test_a_mark_that_names_no_table_is_refused():
    with pytest.raises(BadInput, match="start, start_digits"):
        write_answers("<!-- table: reviewers nonsense -->\n<!-- end: reviewers -->", RECORDS)


def test_each_run_is_listed_once_and_is_not_made_again(tmp_path, monkeypatch):
    specs = reviewers_specs("3")
    folders = [spec.folder(tmp_path) for spec in specs]
    assert len(folders) == len(set(folders)) > 20
    monkeypatch.setattr("sbmc_studies.commands.reviewers.reviewers_specs", lambda seeds: specs[:1])
    shutil.copytree(specs[0].folder(RECORDS), folders[0])
    before = (folders[0] / "record.json").stat().st_mtime_ns
    assert run_reviewers("3", tmp_path, force=False, quiet=True) == 0
    assert (folders[0] / "record.json").stat().st_mtime_ns == before


# Inputs and classes of tables and pictures, as the list of pairs states them.
SHAPES = {"ionosphere": ((34,), 2), "vehicle": ((18,), 3), "waveform": ((21,), 2)}
SHAPES |= {"mnist": ((1, 28, 28), 8), "cifar10": ((2048,), 10)}


def test_weights_are_counted_on_the_networks():
    pairs = {pair.name for pair in gauntlet_pairs("confirmation")}
    assert pairs - set(weights_of_pairs()) == {"reviews-gpt2"}
    for name, weights in weights_of_pairs().items():
        pair = get_pair(name)
        if pair.network["kind"] == "lora":
            continue  # its adapters alone are sampled
        network = build_pair_network(pair.network, *SHAPES[pair.data])
        assert sum(each.numel() for each in network.parameters()) == weights, name
