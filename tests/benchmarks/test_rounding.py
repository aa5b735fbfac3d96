"""The benchmark of rounding: its record is on the page, and says that ranks add nothing to it."""

from __future__ import annotations

import json

from benchmarks import rounding


def test_the_page_has_the_record_and_the_record_says_that_it_is_rounding():
    text = rounding.PAGE.read_text("utf-8")
    assert rounding.fill(text, rounding.shared.RECORDS) == text
    record = json.loads((rounding.shared.RECORDS / "rounding.json").read_text("utf-8"))
    ends = {
        key: max(row["end"] for row in record["rows"] if (row["what"], row["dtype"]) == key)
        for key in {(row["what"], row["dtype"]) for row in record["rows"]}
    }
    # Inputs that differ in their last bits drive one process apart about as far.
    single, double = (ends[rounding.RANKS, each] for each in rounding.DTYPES)
    assert single < 30 * ends[rounding.OTHER, "float32"]
    assert double < 1e-5 * single


def test_it_runs_in_a_short_form(tmp_path):
    out = tmp_path / "rounding.json"
    assert rounding.main(["--quick", "--threads", "1", "--out", str(out)]) == 0
    assert json.loads(out.read_text("utf-8"))["rows"][0]["end"] < 1e-4
