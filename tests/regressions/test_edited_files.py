"""run.json and record.json, edited by hand: words, never a raw traceback."""

from __future__ import annotations

import json

import pytest
from study_records import write

from sbmc.checks import BadInput
from sbmc_studies.records.record import BadRecord, read_record, record_path
from sbmc_studies.runs.run_file import Journal, read_journal

DEEP = "[" * 100_000 + "]" * 100_000
ODD = [None, 3, -1, 1.5, True, "words", [], {}, [1], ["a"], {"a": 1}, {"a": [1]}, [[[1]]]]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_journal_edited_by_hand_is_read_or_refused_in_words(tmp_path, value):
    journal = Journal("digits", "s-hmc", {"s": 0.1, "islands": 2}, 3, data={"checksum": "a"})
    folder = journal.place(tmp_path)
    journal.write(folder)
    content = json.loads((folder / "run.json").read_text())
    for name in content:
        (folder / "run.json").write_text(json.dumps({**content, name: value}))
        try:
            found = read_journal(folder)
        except BadInput:
            continue
        # What was read can be used.
        found.require_same_ground({"checksum": "a"}, {"torch": "2.0"})
        assert found.place(tmp_path) == folder
        for field, kind in (("finished", bool), ("execution", dict), ("also_islands", list)):
            assert isinstance(getattr(found, field), kind)


@pytest.mark.parametrize("text", [DEEP, "[" * 500 + "]" * 500, '{"settings": ' + DEEP + "}"])
def test_deep_json_is_refused_in_words(tmp_path, text):
    journal = Journal("digits", "s-hmc", {"s": 0.1, "islands": 2}, 3)
    folder = journal.place(tmp_path)
    journal.write(folder)
    (folder / "run.json").write_text(text)
    with pytest.raises(BadInput, match=r"readable run\.json"):
        read_journal(folder)
    (folder / "record.json").write_text(text)
    with pytest.raises(BadRecord, match="readable record"):
        read_record(folder / "record.json")


def test_a_folder_of_the_wrong_execution_is_refused_in_words(tmp_path, sbmc):
    journal = Journal("digits", "s-hmc", {"s": 0.1, "islands": 2}, 3, execution={"workers": "two"})
    for execution in ({"workers": "two"}, {"other": 1}, {"executor": 3}, {"address": 3}):
        folder = journal.place(tmp_path)
        Journal(**{**vars(journal), "execution": execution}).write(folder)
        code, _, words = sbmc("resume", folder)
        assert code == 2
        assert "Traceback" not in words
        assert "`run` must have a run.json with options" in words


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
