"""Tables and arrays are read as they are written, and what is wrong with them is said in words."""

import gzip
import json
import re

import numpy as np
import pytest
import torch

from sbmc.checks import BadInput
from sbmc.datasets.files import (
    TableEncoding,
    TextTable,
    UnknownLevelWarning,
    read_arrays,
    read_table,
)

LINES = "size,colour,label\n1,red,yes\n2.5,blue,no\n-3e2,red,yes\n"


def written(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("table.csv", LINES),
        ("table.tsv", LINES.replace(",", "\t")),
        ("table.csv", LINES.replace(",", ";")),
        ("table.csv", "\ufeff" + LINES),
        ("table.csv", LINES.replace("\n", "\r\n")),
        ("table.csv", LINES.replace(",", " , ") + "\n\n"),
    ],
)
def test_every_way_to_write_a_table_gives_the_same(tmp_path, name, text):
    table = read_table(written(tmp_path, text, name))
    assert {key: list(cells) for key, cells in table.columns.items()} == {
        "size": ["1", "2.5", "-3e2"],
        "colour": ["red", "blue", "red"],
        "label": ["yes", "no", "yes"],
    }


def test_a_packed_table_and_a_quoted_cell(tmp_path):
    path = tmp_path / "table.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write('text,label\n"a, b\nc",1\n')
    assert read_table(path).columns["text"] == ("a, b\nc",)


def test_parquet_gives_what_csv_gives(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"x": [0.1, None], "n": [1, 2], "t": ["a", None]})
    frame.to_parquet(tmp_path / "table.parquet")
    table = read_table(tmp_path / "table.parquet")
    assert list(table.columns["x"]) == ["0.1", ""]
    assert list(table.columns["t"]) == ["a", ""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`data` must be a table with a line of names, but got table.csv, empty."),
        ("a,b\n", "`data` must be a table with rows, but got table.csv, with names alone."),
        ("a,a\n1,2\n", "where 2 columns are called 'a'"),
        ("a,\n1,2\n", "whose column 2 has none"),
        ("a,b\n1,2\n3\n4,5,6\n", "with 2 cells in every row, but got table.csv, where rows 2, 3"),
        ('a,b\n"1,2\n', "in UTF-8 with commas"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path, text, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        read_table(written(tmp_path, text))


def test_other_files_are_refused(tmp_path):
    (tmp_path / "latin.csv").write_bytes("a,b\n1,\xe9\n".encode("latin-1"))
    written(tmp_path, "x", "notes.txt")
    for name, words in (
        ("latin.csv", "UTF-8"),
        ("notes.txt", "ends in .csv"),
        ("no.csv", "exists"),
    ):
        with pytest.raises(BadInput, match=words):
            read_table(tmp_path / name)


def table(**columns):
    return TextTable(columns, "table.csv")


def test_an_encoding_survives_json_and_reads_other_tables():
    train = table(size=("1", "2"), colour=("red", "blue"), y=("no", "yes"))
    learned = TableEncoding.learn(train)
    again = TableEncoding.from_dict(json.loads(json.dumps(learned.as_dict())))
    assert again == learned
    assert again.input_names == ("size", "colour=blue", "colour=red")
    # Columns in another order, further columns, no target.
    other = table(extra=("?",), colour=("blue",), size=("-1",))
    rows = again.rows(other)
    assert rows.inputs.tolist() == [[-1.0, 1.0, 0.0]]
    assert rows.targets is None
    assert rows.describe(0) == "size -1, colour blue"


def test_an_unknown_level_is_all_zeros_with_a_warning():
    encoding = TableEncoding.learn(table(colour=("red", "blue"), y=("no", "yes")))
    with pytest.warns(UnknownLevelWarning, match=r"'colour' .* 'green' \(row 2\)"):
        values = encoding.inputs(table(colour=("red", "green")))
    assert values.tolist() == [[0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("target", "cells", "classes"),
    [
        ("y", ("b", "a", "b"), ("a", "b")),
        ("label", ("10", "9.0", "9"), ("9", "10")),
        ("y", ("0.5", "1", "2"), None),
        ("label", ("0.5", "1", "2"), None),
    ],
)
def test_text_and_labels_are_classes_and_decimals_are_numbers(target, cells, classes):
    learned = TableEncoding.learn(table(x=("1", "2", "3"), **{target: cells}))
    assert learned.classes == classes


def test_few_whole_numbers_are_asked_about_and_many_are_numbers():
    few, many = [str(i % 3) for i in range(30)], [str(i) for i in range(30)]
    with pytest.raises(BadInput, match=r"few whole numbers.*--likelihood categorical"):
        TableEncoding.learn(table(x=many, y=few))
    assert TableEncoding.learn(table(x=many, y=few), classes=True).classes == ("0", "1", "2")
    assert TableEncoding.learn(table(x=many, y=few), classes=False).classes is None
    assert TableEncoding.learn(table(x=few, y=many)).classes is None


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"x": ("1",), "z": ("2",)},
            {},
            "none of these in table.csv. Give --target one of 'x', 'z'",
        ),
        ({"y": ("1",), "label": ("2",)}, {}, "several of these"),
        ({"x": ("1",), "z": ("2",)}, {"target": "zz"}, "which has 'x', 'z', but got 'zz'"),
        ({"x": ("1", "NA"), "y": ("a", "b")}, {}, "1 in column 'x' of table.csv (row 2)"),
        ({"x": ("1", "2"), "y": ("a", "")}, {}, "1 in column 'y' of table.csv (row 2)"),
        ({"x": ("1", "inf"), "y": ("a", "b")}, {}, "finite, but got 'inf' in column 'x'"),
        ({"y": ("a", "b")}, {}, "the target 'y' alone"),
        ({"x": ("1", "2"), "y": ("a", "a")}, {}, "two classes or more, but got 1"),
        ({"x": ("1",), "y": ("a",)}, {"drop": ["z"]}, "`drop` must be a column of table.csv"),
        ({"x": ("1",), "y": ("a",)}, {"drop": ["y"]}, "other than the target"),
        (
            {"x": [f"name {i}" for i in range(101)], "y": ["a", "b"] * 50 + ["a"]},
            {},
            "but got 101 in column 'x' of table.csv (row 1: 'name 0')",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused(columns, options, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        TableEncoding.learn(TextTable(columns, "table.csv"), **options)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"colour": ("red",)}, "lacks 'size' and has 'colour'"),
        ({"size": ("big",), "colour": ("red",)}, "numbers in column 'size'"),
        ({"size": ("",), "colour": ("red",)}, "1 in column 'size'"),
        (
            {"size": ("1",), "colour": ("red",), "y": ("maybe",)},
            "the classes no, yes, but got 'maybe'",
        ),
    ],
)
def test_a_later_table_must_fit(columns, message):
    encoding = TableEncoding.learn(table(size=("1", "2"), colour=("red", "blue"), y=("no", "yes")))
    with pytest.raises(BadInput, match=re.escape(message)):
        encoding.rows(TextTable(columns, "new.csv"))


@pytest.mark.parametrize("names", [("x", "y"), ("inputs", "targets"), ("X", "y")])
def test_arrays_by_their_usual_names(tmp_path, names):
    np.savez(
        tmp_path / "data.npz", **dict(zip(names, (np.ones((3, 2)), np.arange(3)), strict=True))
    )
    rows, found = read_arrays(tmp_path / "data.npz")
    assert found == names
    assert rows.inputs.dtype == torch.float32
    assert rows.targets.tolist() == [0, 1, 2]


def test_arrays_that_are_missing_or_odd_are_refused(tmp_path):
    np.savez(tmp_path / "data.npz", a=np.ones((3, 2)), b=np.arange(2), c=np.array(["x"] * 3))
    refused = [
        ({}, "an array 'inputs', but got 'a', 'b', 'c'; name it with --inputs"),
        ({"inputs": "z"}, "`inputs` must be a file with an array 'z'"),
        ({"inputs": "a", "targets": "b"}, "of as many rows as 'a', 3, but got 2 rows"),
        ({"inputs": "a", "targets": "c"}, "of numbers, but got c of shape"),
        ({"inputs": "a", "target_use": "required"}, "an array 'targets'"),
    ]
    for options, message in refused:
        with pytest.raises(BadInput, match=re.escape(message)):
            read_arrays(tmp_path / "data.npz", **options)
    assert read_arrays(tmp_path / "data.npz", inputs="a")[0].targets is None
