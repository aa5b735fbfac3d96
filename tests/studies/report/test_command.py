"""`sbmc report` in a shell: files, words and exit codes."""

import pytest
from report_pages import write_run

from sbmc.cli import main


def test_it_writes_a_page_and_says_where(sbmc, tmp_path):
    write_run(tmp_path / "runs")
    code, out, err = sbmc("report", "runs")
    assert (code, err) == (0, "")
    assert out.startswith("report.html: report of 1 run of 1 experiment, ")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "sbmc report runs" in page


def test_out_and_title_and_any_height_of_folder(sbmc, tmp_path):
    record = write_run(tmp_path / "runs")
    run = tmp_path / "runs" / "digits" / "s-hmc" / record.hash / "seed-0"
    options = ("--out", "there/page.html", "--title", "My <b>runs</b>")
    code, out, _ = sbmc("report", run, tmp_path / "runs", run / "record.json", *options)
    assert code == 0
    assert "1 run of 1 experiment" in out
    assert "<h1>My &lt;b&gt;runs&lt;/b&gt;</h1>" in (tmp_path / "there/page.html").read_text(
        "utf-8"
    )
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["page.html"]


def test_a_run_folder_can_be_the_current_one(sbmc, tmp_path, monkeypatch):
    write_run(tmp_path / "runs")
    monkeypatch.chdir(next(tmp_path.rglob("record.json")).parent)
    assert main(["report", "."]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "`runs` must be a folder of records, but got 'nowhere'."),
        (["empty"], "`runs` must be a folder with record.json somewhere in it"),
        (["note.txt"], "`runs` must be a folder with record.json somewhere in it"),
        ([], "`sources` must be given, but got nothing"),
        (["runs", "--out", "empty"], "`out` must be a file, such as report.html"),
        (["runs", "--out", "note.txt/page.html"], "`out` must be a file in a folder that can be"),
        (["runs", "--data-dir", "nowhere"], "`data_dir` must be an existing folder"),
        (["broken"], "`runs` must hold at least one readable record"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(sbmc, tmp_path, arguments, words):
    write_run(tmp_path / "runs")
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("not a record")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "record.json").write_text("{")
    code, out, err = sbmc("report", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_a_broken_record_among_good_ones_is_left_out_and_named(sbmc, tmp_path):
    write_run(tmp_path / "runs")
    (tmp_path / "runs" / "more").mkdir()
    (tmp_path / "runs" / "more" / "record.json").write_text("{}")
    code, out, err = sbmc("report", "runs")
    assert code == 0
    assert "report of 1 run" in out
    assert "left out runs/more/record.json" in err
    assert "1 file could not be read" in (tmp_path / "report.html").read_text("utf-8")


def test_open_shows_the_page_in_a_browser(sbmc, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    write_run(tmp_path / "runs")
    assert sbmc("report", "runs", "--open")[0] == 0
    assert shown == [(tmp_path / "report.html").as_uri()]
