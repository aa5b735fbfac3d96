"""The benchmark of exported graphs; its record is on the page, and has what is required."""

from __future__ import annotations

import copy
import importlib.util
import json
import os

import pytest

from benchmarks import export

RECORD = export.shared.RECORDS / "export.json"
missing = importlib.util.find_spec("onnxruntime") is None


@pytest.mark.integration
@pytest.mark.skipif(missing and not os.environ.get("CI"), reason="pip install 'sbmc[onnx]'")
def test_it_runs(tmp_path, capsys):
    out = tmp_path / "record.json"
    assert export.main(["--quick", "--repeats", "1", "--out", str(out)]) == 0
    rows = json.loads(out.read_text("utf-8"))["rows"]
    assert [row["networks"] for row in rows] == [4, 4]
    assert [each["unrolled"] for each in rows[0]["contestants"][1:3]] == [True, True]
    assert [each["unrolled"] for each in rows[1]["contestants"][1:3]] == [False, False]
    assert "| 4 networks, ONNX Runtime |" in capsys.readouterr().out


def test_the_page_is_made_from_the_record():
    text = export.PAGE.read_text("utf-8")
    assert export.fill(text, export.shared.RECORDS) == text


def test_graphs_are_held_to_what_is_required():
    rows = json.loads(RECORD.read_text("utf-8"))["rows"]
    assert export.missed(rows) == []
    planted = copy.deepcopy(rows)
    planted[0]["contestants"][1]["difference"] = 1e-3
    (failure,) = export.missed(planted)
    assert "80 networks, ONNX Runtime: differs by 1.0e-03" in failure
