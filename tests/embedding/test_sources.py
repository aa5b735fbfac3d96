"""Folders and files of raw data, read in order."""

import csv
import gzip
import json

import pytest

from sbmc.checks import BadInput
from sbmc.embedding import read_pictures, read_texts


@pytest.fixture
def folder(tmp_path):
    for kind, number, text in [
        ("pos", 10, "fine"), ("pos", 2, "good<br />better"), ("neg", 1, "bad"), ("neg", 0, "awful"),
        ("neg", 3, "worse"),
    ]:  # fmt: skip
        (tmp_path / kind).mkdir(exist_ok=True)
        (tmp_path / kind / f"{number}_7.txt").write_text(text, "utf-8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "pos" / ".ds.txt").write_text("not a review")
    (tmp_path / "pos" / "notes.md").write_text("nor this")
    return tmp_path


def test_a_folder_of_classes(folder):
    found = read_texts(folder)
    assert found.class_names == ("neg", "pos")
    assert found.names == ("neg/0_7.txt", "neg/1_7.txt", "neg/3_7.txt", "pos/10_7.txt",
                           "pos/2_7.txt")  # fmt: skip
    assert found.items == ("awful", "bad", "worse", "fine", "good better")
    assert found.labels == (0, 0, 0, 1, 1)


def test_a_limit_takes_classes_in_turn(folder):
    found = read_texts(folder, limit=3)
    assert found.items == ("awful", "bad", "fine")
    assert found.labels == (0, 0, 1)
    assert len(read_texts(folder, limit=99)) == 5


def test_a_folder_without_classes(tmp_path):
    (tmp_path / "b.txt").write_text("two")
    (tmp_path / "a.txt").write_text("one")
    found = read_texts(tmp_path)
    assert (found.items, found.labels, found.class_names) == (("one", "two"), None, ())


ROWS = [{"label": 10, "text": "ten"}, {"label": 9, "text": "nine"}, {"label": 10, "text": "x<br>y"}]


def write(path, rows):
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8") as file:
        if ".csv" in path.name:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.csv.gz"])
def test_files_keep_their_order_and_number_their_classes(tmp_path, name):
    found = read_texts(write(tmp_path / name, ROWS))
    assert found.items == ("ten", "nine", "x y")
    assert found.class_names == ("9", "10")  # as numbers, not as words
    assert found.labels == (1, 0, 1)
    assert found.names == (f"{name}:1", f"{name}:2", f"{name}:3")
    assert read_texts(tmp_path / name, limit=2).items == ("ten", "nine")
    assert read_texts(tmp_path / name, label_column="nothing").labels is None


def test_other_columns(tmp_path):
    path = write(
        tmp_path / "a.jsonl", [{"body": "b", "stars": "good"}, {"body": "c", "stars": "x"}]
    )
    found = read_texts(path, text_column="body", label_column="stars")
    assert (found.items, found.class_names) == (("b", "c"), ("good", "x"))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"label": 1}], "`text_column` must be a column of texts that every row has (row 1"),
        ([{"text": 3, "label": 1}], "`text_column`"),
        ([{"text": "a", "label": 1}, {"text": "b"}], "which row 2 of a.jsonl lacks"),
        ([["a"]], "`source` must be a file of JSON objects, one a line (see line 1)"),
        ([], "`source` must be a file with at least one row"),
    ],
)
def test_rows_that_are_refused(tmp_path, rows, words):
    with pytest.raises(BadInput) as refusal:
        read_texts(write(tmp_path / "a.jsonl", rows))
    assert words in str(refusal.value)


def test_places_that_are_refused(tmp_path):
    with pytest.raises(BadInput, match="`source` must be a folder or a file that exists"):
        read_texts(tmp_path / "nothing")
    (tmp_path / "a.pdf").write_text("x")
    with pytest.raises(BadInput, match=r"a file that ends in \.jsonl"):
        read_texts(tmp_path / "a.pdf")
    with pytest.raises(BadInput, match="`source` must be a folder of texts"):
        read_texts(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="whose subfolders all have texts, but got 'empty'"):
        read_texts(tmp_path)
    with pytest.raises(BadInput, match="`limit` must be a positive"):
        read_texts(tmp_path, limit=0)
    with pytest.raises(BadInput, match="`source` must be a folder"):
        read_pictures(tmp_path / "a.pdf")
    (tmp_path / "empty" / "a.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match=r"texts in UTF-8, but got a\.txt"):
        read_texts(tmp_path)


def test_pictures_are_found_whatever_the_case_of_their_suffix(tmp_path):
    for name in ("cat/b.PNG", "cat/a.jpg", "dog/inner/c.webp", "dog/readme.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = read_pictures(tmp_path)
    assert found.names == ("cat/a.jpg", "cat/b.PNG", "dog/inner/c.webp")
    assert found.labels == (0, 0, 1)
    assert found.items[0] == tmp_path / "cat" / "a.jpg"
