"""run.json and record.json, edited by hand: words, never a raw traceback."""

from __future__ import annotations

import json

import pytest
from study_records import write

from sbmc.checks import BadInput
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.records.record import BadRecord, read_record, record_path
from sbmc_studies.runs.run_file import RunFile, read_run_file

SPEC = RunSpec("digits", "s-hmc", {"s": 0.1, "islands": 2}, 3)
DEEP = "[" * 100_000 + "]" * 100_000
ODD = [None, 3, -1, 1.5, True, "words", [], {}, [1], ["a"], {"a": 1}, {"a": [1]}, [[[1]]]]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_run_file_edited_by_hand_is_read_or_refused_in_words(tmp_path, value):
    folder = SPEC.folder(tmp_path)
    RunFile(SPEC, data={"checksum": "a"}).write(folder)
    content = json.loads((folder / "run.json").read_text())
    for name in content:
        (folder / "run.json").write_text(json.dumps({**content, name: value}))
        try:
            run_file = read_run_file(folder)
        except BadInput:
            continue
        # What was read can be used.
        run_file.require_same_origin({"checksum": "a"}, {"torch": "2.0"})
        spec = run_file.spec
        assert spec.folder(tmp_path) == folder
        assert isinstance(run_file.finished, bool)
        for field, kind in (("execution", Execution), ("also_islands", tuple)):
            assert isinstance(getattr(spec, field), kind)


@pytest.mark.parametrize("text", [DEEP, "[" * 500 + "]" * 500, '{"settings": ' + DEEP + "}"])
def test_deep_json_is_refused_in_words(tmp_path, text):
    folder = SPEC.folder(tmp_path)
    RunFile(SPEC).write(folder)
    (folder / "run.json").write_text(text)
    with pytest.raises(BadInput, match=r"readable run\.json"):
        read_run_file(folder)
    (folder / "record.json").write_text(text)
    with pytest.raises(BadRecord, match="readable record"):
        read_record(folder / "record.json")


def test_a_folder_of_the_wrong_execution_is_refused_in_words(tmp_path, sbmc):
    folder = SPEC.folder(tmp_path)
    RunFile(SPEC).write(folder)
    content = json.loads((folder / "run.json").read_text())
    for execution in ({"workers": "two"}, {"other": 1}, {"executor": 3}, {"address": 3}, None, []):
        (folder / "run.json").write_text(json.dumps({**content, "execution": execution}))
        code, _, words = sbmc("resume", folder)
        assert code == 2
        assert "Traceback" not in words
        assert "`execution` must have options of this version of sbmc" in words
        assert "Write `{}` there for the defaults." in words


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_record_edited_by_hand_is_read_or_refused_in_words(tmp_path, value):
    path = write(tmp_path, "digits", "map", {"accuracy": 0.9}, [0]) / "record.json"
    content = json.loads(path.read_text())
    for name in content:
        path.write_text(json.dumps({**content, name: value}))
        try:
            found = read_record(path)
        except BadRecord:
            continue
        names = found.experiment, found.method, found.hash, found.seed
        assert record_path(tmp_path, *names) == path
        assert all(isinstance(island, dict) for island in found.islands)
        assert isinstance(found.message, str)
