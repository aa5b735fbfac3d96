"""What the page says is what the records say, and all sections are there."""

import re

import numpy as np
import pytest
from report_pages import Reader, make_record, read_page, write_run, write_study
from repository import RECORDS

from sbmc.report.limits import Limits
from sbmc.report.markup import Html
from sbmc.report.page import Section, fold_lacking
from sbmc_studies.records.pooling import pool
from sbmc_studies.report import collect, render

SECTIONS = (
    *("What was run and how", "Results", "Entropy by group", "Most and least certain inputs"),
    *("ROC, and accuracy with abstention", "Confusion rates", "Risk and coverage", "Reliability"),
    *("All measures at once", "Ablations over s and P", "Further tables"),
    "Diagnostics of the sampler",
    *("Settings, versions, cost", "How to reproduce it"),
)


def headings(page):
    return [words for tag, words in page.texts if tag == "h3"]


def test_all_sections_of_a_comparison_are_there_in_order(page):
    assert headings(page) == list(SECTIONS)


def test_the_table_has_the_means_of_the_records(study, page):
    rows = page.table("accuracy %")
    found = {row[0][0]: row for row in rows[1:]}
    for setting in collect([study]).studies[0].settings:
        own = found[setting.label]
        pooled = pool([run.record for run in setting.runs])
        column = [cell[0] for cell in rows[0]].index("accuracy %")
        assert float(own[column][1]) == pooled.values["accuracy"]
        assert own[column][0].startswith(f"{100 * pooled.values['accuracy']:.1f}±")
        column = [cell[0] for cell in rows[0]].index("H_ep OOD")
        assert float(own[column][1]) == pooled.values["entropy.epistemic.ood.all"]
        assert float(own[-1][1]) == pooled.cost["wall_seconds"]


def test_the_answer_has_three_sentences_from_the_numbers(page):
    answer = " ".join(words for tag, words in page.texts if tag == "p")
    best = max(0.9 + 0.02 * 2 + 0.01 * s for s in (0.1, 0.25))
    assert f"is right on {100 * best:.1f}\u00a0% of the test inputs" in answer
    assert "MAP: 90.0\u00a0%" in answer
    told = re.search(r"Of 7 settings .*? 2 seeds\.", answer)[0]
    assert len(re.findall(r"\.(?: |$)", told)) == 3


def test_every_figure_has_words_and_a_table_of_what_it_shows(study):
    text = render(collect([study]), ["runs"])
    figures = re.findall(r"<figure.*?</figure>", text, re.DOTALL)
    assert len(figures) >= 15
    for figure in figures:
        parts = Reader(figure)
        pictures = [each for each in parts.find("svg") if each.get("role") == "img"]
        assert len(pictures) == 1
        assert len(pictures[0]["aria-label"]) > 30
        assert len(parts.tables) == 1
        assert any(cell[1] for row in parts.tables[0][1:] for cell in row)


def test_the_roc_table_has_the_curve_and_the_legend_its_area(page):
    rows = page.table("abstains though the answer is right")
    for place, value in (row[:2] for row in rows[1:]):
        t = float(place[1])
        assert float(value[1]) == pytest.approx(1 - (1 - t) ** 2, abs=1e-3)
    assert len(rows) == Limits().points + 1
    assert "AUC 0.700" in page.text


def test_confusion_rates_are_those_of_the_counts(page):
    rows = page.table("right: answered")
    for row in rows[1:]:
        means = [np.mean([80, 81]) / 100, np.mean([20, 19]) / 100, 0.75, 0.25]
        assert [float(cell[1]) for cell in row[1:]] == pytest.approx(means)


def test_ablations_have_both_axes_and_the_records_values(page):
    alts = [each.get("aria-label", "") for each in page.find("svg")]
    assert any(alt.startswith("Accuracy and epistemic entropy over s.") for alt in alts)
    assert any(alt.startswith("Accuracy and epistemic entropy over P.") for alt in alts)
    rows = page.table("s")
    found = {(float(r[0][1]), float(r[1][1])): float(r[3][1]) for r in rows[1:]}
    for (s, islands), accuracy in found.items():
        assert accuracy == pytest.approx(0.9 + 0.02 * islands + 0.01 * s)
    assert len(found) == 4


def test_diagnostics_show_evidence_temperatures_and_nested_rhat(tmp_path):
    extent = {"worst": 1.25, "median": 1.1}
    summary = {"name": "parameters", "quantities": 3, "rhat": None, "nested_rhat": extent}
    summary |= {"effective_sample_size": {"worst": 41.5, "median": 60.0}}
    details = {"diagnostics": {"summaries": [summary], "nested_expected": 1.05}}
    change = {"islands": 3}
    write_run(tmp_path, method="s-smc", smc=True, overrides=change, details=details)
    page = read_page(tmp_path)
    evidence = page.table("log evidence")
    assert "log evidence" in [cell[0] for cell in evidence[0]]
    rows = next(t for t in page.tables if [c[0] for c in t[0]][-1] == "log evidence")
    assert [float(row[2][1]) for row in rows[1:]] == [-200.0, -203.5, -207.0]
    steps = page.table("step")
    assert [float(row[1][1]) for row in steps[1:]] == [0.01, 0.1, 0.5, 1.0]
    row = page.table("nested R-hat, worst")[1]
    assert [cell[0] for cell in row] == [row[0][0], "parameters", "1.25", "1.05", "–", "41.5", "–"]


def test_sections_without_data_name_the_command_that_gives_them(tmp_path):
    write_run(tmp_path, method="map", confidence=False, islands=[])
    page = read_page(tmp_path)
    codes = [words for tag, words in page.texts if tag == "code"]
    assert codes.count("sbmc run digits --confidence") == 5
    assert "sbmc run digits --force" in codes
    assert "Diagnostics of the sampler" not in headings(page)


def test_sections_without_data_are_folded_into_one(tmp_path):
    write_run(tmp_path, method="map", confidence=False, islands=[])
    page = read_page(tmp_path)
    found = headings(page)
    assert not {"Confusion rates", "Reliability", "Ablations over s and P"} & set(found)
    assert found[3:5] == ["What other runs would show", "Settings, versions, cost"]
    summaries = [words for tag, words in page.texts if tag == "summary"]
    folded = "Most and least certain inputs; ROC; Confusion rates;"
    assert any(line.startswith(folded) for line in summaries)


def test_a_single_section_without_data_stays_in_its_place():
    full, empty = Section("a", "A", Html("a")), Section("b", "B", Html("b"), lacking=True)
    assert fold_lacking([full, empty]) == [full, empty]
    names = [each.name for each in fold_lacking([empty, full, empty, full])]
    assert names == ["further", "a", "a"]


def test_pictures_come_from_the_data_set_by_index(page):
    pictures = page.find("img")
    assert len(pictures) == 2
    assert all(each["src"].startswith("data:image/png;base64,") for each in pictures)
    assert [each["alt"] for each in pictures] == ["Picture of a 1", "Picture of out of domain: 8"]


def test_several_experiments_have_an_overview_and_a_part_each(tmp_path):
    write_study(tmp_path, seeds=1)
    write_run(tmp_path, experiment="mnist7")
    write_run(tmp_path, experiment="unheard of")
    page = read_page(tmp_path)
    titles = [words for tag, words in page.texts if tag == "h2"]
    assert titles == ["All experiments", "digits", "mnist7", "unheard of"]
    assert [row[0][0] for row in page.table("Experiment")[1:]] == titles[1:]
    ids = [each["id"] for _, each in page.elements if "id" in each]
    assert len(ids) == len(set(ids))
    targets = [each["href"] for each in page.find("a")]
    assert targets
    assert all(target[1:] in ids for target in targets)


def test_runs_that_failed_are_told_of_and_counted_in_no_table(tmp_path):
    write_run(tmp_path)
    failed = {"outcome": "failed", "metrics": {}, "message": "RuntimeError: out of luck"}
    write_run(tmp_path, seed=1, confidence=False, **failed)
    page = read_page(tmp_path)
    assert "RuntimeError: out of luck" in page.text
    assert page.table("accuracy %")[1][2][0] == "1"


def test_only_failed_runs_still_make_a_page(tmp_path):
    failed = {"outcome": "failed", "metrics": {}, "message": "no memory", "islands": []}
    write_run(tmp_path, confidence=False, **failed)
    page = read_page(tmp_path)
    assert "None of the 1 run found here has a result to report." in page.text
    assert "no memory" in page.text


def test_the_same_records_give_the_same_bytes(study):
    assert render(collect([study]), ["runs"]) == render(collect([study]), ["runs"])


def test_runs_on_other_data_are_not_pooled(tmp_path):
    write_run(tmp_path, seed=0)
    write_run(tmp_path, seed=1, data={"name": "digits", "checksum": "cd" * 32})
    rows = read_page(tmp_path).table("accuracy %")
    assert [row[2][0] for row in rows[1:]] == ["1", "1"]


def test_commands_make_the_same_settings(page):
    codes = [words for tag, words in page.texts if tag == "code" and "--seeds" in words]
    assert len(codes) == 7
    wanted = "sbmc run digits --method s-hmc --preset paper --s 0.25 --islands 2 --seeds 0-1"
    assert f"{wanted} --confidence" in codes


def test_paper_numbers_stand_below_ours_with_marks():
    record = make_record(experiment="mnist7", method="map", islands=[])
    assert record.experiment == "mnist7"
    if not (RECORDS / "mnist7" / "map").is_dir():
        pytest.fail("the committed records of mnist7 are gone")
    rows = read_page(RECORDS / "mnist7" / "map").table("accuracy %")
    assert [rows[1][0][0], rows[2][0][0]] == ["MAP", "the paper’s"]
    assert rows[2][3][0] == "92.3±0.37\u00a0✓"


def test_the_toy_study_has_its_curves_and_its_claims():
    page = read_page(RECORDS / "toy")
    assert "What s and T do to a target with two modes" in headings(page)
    assert page.text.count("✓ holds") == 2
    record = collect([RECORDS / "toy"]).studies[0].settings[0]
    mean = np.mean([run.record.metrics["iact.s.0.1"] for run in record.runs])
    row = next(r for r in page.table("IACT, draws") if r[0][0] == "SBMC, s = 0.1")
    assert float(row[1][1]) == pytest.approx(mean)
    assert "Confusion rates" not in headings(page)
