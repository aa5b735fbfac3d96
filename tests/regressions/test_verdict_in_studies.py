"""The verdict stands in the record, in the table of `sbmc run` and in the report."""

import dataclasses
import json
import re
from pathlib import Path

import forked
import pytest

from sbmc_studies.records.health import health_of, pooled_verdict
from sbmc_studies.records.record import read_record

FEW = ("--set", "max_epochs=3", "--set", "particles=2")


@pytest.fixture(scope="module")
def stopped_short(tmp_path_factory):
    """A run with no move after warm-up, and what it printed."""
    folder = tmp_path_factory.mktemp("study")
    command = ["-m", "sbmc", "run", "digits", "--method", "s-hmc", "--quiet"]
    command += [*FEW, "--set", "epochs=2", "--out", "runs"]
    done = forked.run(command, cwd=folder, check=True)
    (path,) = Path(folder, "runs").rglob("record.json")
    return folder, path, done.stdout, done.stderr


def test_the_record_has_it(stopped_short):
    _, path, _, _ = stopped_short
    kept = json.loads(path.read_text("utf-8"))["details"]["health"]
    assert kept["ok"] is False
    assert kept["reasons"]
    assert kept["remedies"]
    assert kept["figures"]["particles"] == 2


def test_the_table_has_it_with_reason_and_remedy_and_no_warning_besides(stopped_short):
    _, path, output, errors = stopped_short
    assert re.search(r"│\s*not ok\s*│", output)
    health = health_of(read_record(path))
    assert f"S-HMC∥, seed 0: {health}" in output
    assert "HealthWarning" not in errors


def test_the_report_has_it(stopped_short, sbmc):
    folder, path, _, _ = stopped_short
    code, _, _ = sbmc("report", folder / "runs", "--out", folder / "page.html")
    assert code == 0
    page = (folder / "page.html").read_text("utf-8")
    assert "Runs whose sampler did not do its work" in page
    assert health_of(read_record(path)).reasons[0].split("(")[0].strip() in page


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([None, None], "–"),
        ([True, True], "ok"),
        ([True, None], "ok in the 1 checked"),
        ([True, False], "not ok in 1 of 2"),
        ([False, False], "not ok"),
    ],
)
def test_several_seeds_have_one_verdict(stopped_short, verdicts, words):
    record = read_record(stopped_short[1])
    records = [
        dataclasses.replace(record, details={"health": {"ok": ok}} if ok is not None else {})
        for ok in verdicts
    ]
    assert pooled_verdict(records) == words


@pytest.mark.parametrize("found", [None, 3, "ok", [], {"ok": "yes"}, {"ok": True, "reasons": 4}])
def test_a_record_that_was_edited_has_a_verdict_or_none(stopped_short, found):
    record = dataclasses.replace(read_record(stopped_short[1]), details={"health": found})
    assert health_of(record).ok in (None, True)
