"""The records in the package are those of the repository; tables are made from them anywhere."""

import tarfile

import pytest
from repository import RECORDS

from sbmc.cli import main
from sbmc_studies.records import stored


def contents(path):
    with tarfile.open(path) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}


def test_the_package_has_every_record_byte_for_byte():
    there = {path.relative_to(RECORDS).as_posix(): path for path in RECORDS.rglob("*.json")}
    packed = contents(stored.ARCHIVE)
    assert packed.keys() == there.keys(), "run `make records`"
    changed = [name for name, path in there.items() if packed[name] != path.read_bytes()]
    assert changed == [], "run `make records`"
    assert stored.ARCHIVE.stat().st_size < 2 * 2**20


def test_the_same_records_give_the_same_bytes(tmp_path):
    for name in ("b/record.json", "a/record.json", "a/arrays.npz"):
        path = tmp_path / "records" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    first, second = tmp_path / "1.tar.xz", tmp_path / "2.tar.xz"
    assert stored.pack_records(tmp_path / "records", first) == 2
    (tmp_path / "records/a/record.json").touch()
    stored.pack_records(tmp_path / "records", second)
    assert first.read_bytes() == second.read_bytes()
    assert list(contents(first)) == ["a/record.json", "b/record.json"]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder that is no clone, for a package that is not installed from one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stored, "REPOSITORY", tmp_path / "none")
    monkeypatch.setattr("sbmc_studies.commands.figure.REPOSITORY", tmp_path / "none")


@pytest.mark.parametrize("table", ["digits", "gauntlet", "tables", "paper"])
def test_tables_are_printed_outside_a_clone(elsewhere, capsys, table):
    assert main(["table", table]) == 0
    outside = capsys.readouterr()
    assert outside.err == ""
    assert main(["table", table, "--records", str(RECORDS)]) == 0
    assert outside.out == capsys.readouterr().out


def test_the_figure_of_budgets_is_drawn_outside_a_clone(elsewhere, tmp_path, capsys):
    assert main(["figure", "mnist7"]) == 0, capsys.readouterr().err
    assert (tmp_path / "mnist7_epochs.png").exists()


def test_a_figure_whose_arrays_are_not_in_the_package_says_where_they_are(elsewhere, capsys):
    assert main(["figure", "imdb"]) == 2
    errors = capsys.readouterr().err
    assert "`records` must be given for roc" in errors
    assert "git clone https://github.com/sbmc-project/sbmc" in errors
    assert "--records sbmc/experiments/records" in errors


def test_a_clone_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert stored.stored_records() == RECORDS
    (tmp_path / stored.FOLDER).mkdir(parents=True)
    assert stored.stored_records() == stored.FOLDER  # the working folder is a clone itself
