import subprocess
import sys

import pytest
from repository import ROOT

from sbmc.checks import BadInput
from sbmc_studies.runs.run_file import Journal, begin_anew, find_runs, read_journal, under_way

SETTINGS = {"s": 0.1, "islands": 2, "trajectory": 1.5707963267948966, "first_island": None}


@pytest.fixture
def journal():
    return Journal("digits", "s-hmc", SETTINGS, 3, also_islands=[1], execution={"retries": 4})


@pytest.fixture
def folder(journal, tmp_path):
    return journal.place(tmp_path)


def test_what_is_written_is_read_again(journal, folder):
    journal.write(folder)
    assert read_journal(folder) == journal
    assert folder.name == "seed-3"
    assert folder.parent.name == journal.hash
    journal.finish(folder)
    assert read_journal(folder).finished
    assert [path.name for path in folder.iterdir()] == ["run.json"]


def test_a_journal_of_something_else_is_refused(journal, folder, tmp_path):
    with pytest.raises(BadInput, match=r"`run` must be a folder with a run\.json"):
        read_journal(tmp_path)
    journal.write(folder)
    (folder / "run.json").rename(tmp_path / "run.json")
    with pytest.raises(BadInput, match="moved or edited"):
        read_journal(tmp_path)
    for text, words in (
        ("", "readable"),
        ("[]", "readable"),
        ('{"format": "other", "version": 1}', "of other version 1"),
        ('{"format": "sbmc-run", "version": 1}', "of this version of sbmc"),
    ):
        (folder / "run.json").write_text(text)
        with pytest.raises(BadInput, match=words):
            read_journal(folder)


def test_runs_are_found_in_order(journal, tmp_path):
    from dataclasses import replace

    for seed in (10, 2, 0):
        replace(journal, seed=seed).write(replace(journal, seed=seed).place(tmp_path))
    names = [path.name for path in find_runs(tmp_path)]
    assert names == ["seed-0", "seed-2", "seed-10"]
    assert find_runs(journal.place(tmp_path).parent / "seed-2")[0].name == "seed-2"
    with pytest.raises(BadInput, match="an existing folder"):
        find_runs(tmp_path / "nowhere")
    records = tmp_path / "records"
    (records / "seed-0").mkdir(parents=True)
    with pytest.raises(BadInput, match="the folder of a run"):
        find_runs(records)
    (records / "seed-0" / "record.json").write_text("of another time")
    assert find_runs(records) == []
    assert find_runs(records / "seed-0") == [records / "seed-0"]


def test_data_and_versions_must_be_the_same():
    journal = Journal(
        "digits", "map", {}, 0, data={"checksum": "a" * 64}, versions={"torch": "2.0+cpu"}
    )
    journal.require_same_ground({"checksum": "a" * 64}, {"torch": "2.0", "python": "3"})
    with pytest.raises(BadInput, match="data differ"):
        journal.require_same_ground({"checksum": "b" * 64}, {"torch": "2.0"})
    with pytest.raises(BadInput, match=r"versions\.torch is '2\.0' there and '2\.1' here"):
        journal.require_same_ground({"checksum": "a" * 64}, {"torch": "2.1"})


def test_what_is_refused_leaves_no_trace(journal, folder, tmp_path):
    def run():
        with under_way(journal, folder):
            assert (folder / "run.json").exists()
            raise BadInput("no")

    def refused():
        with pytest.raises(BadInput, match="no"):
            run()

    refused()
    assert not list(tmp_path.iterdir())
    folder.mkdir(parents=True)
    refused()
    assert not list(folder.iterdir())
    (folder / "run.json").write_text("of an earlier run")
    refused()
    assert (folder / "run.json").read_text() == "of an earlier run"
    with pytest.raises(RuntimeError), under_way(journal, folder):
        raise RuntimeError
    assert read_journal(folder) == journal


def test_a_folder_belongs_to_one_process(journal, folder):
    code = f"""
from pathlib import Path
from sbmc.checks import BadInput
from sbmc_studies.runs.run_file import Journal, under_way
journal = Journal("digits", "s-hmc", {SETTINGS!r}, 3)
try:
    with under_way(journal, Path({str(folder)!r})):
        print("in")
except BadInput as error:
    print(error)
"""

    def other():
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout

    with under_way(journal, folder):
        before = (folder / "run.json").read_bytes()
        assert "`run` must be one that no other process is at" in other()
        assert (folder / "run.json").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["run.json"]


def test_begin_anew_leaves_the_record(folder):
    (folder / "checkpoint").mkdir(parents=True)
    for name in ("record.json", "posterior.sbmc", "trained-anchor.safetensors", "checkpoint/a"):
        (folder / name).write_text("")
    begin_anew(folder)
    assert {path.name for path in folder.iterdir()} == {"record.json", "posterior.sbmc"}
