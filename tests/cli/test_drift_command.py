"""`sbmc drift`: new rows beside those of training, from the file alone."""

import json

import numpy as np
import pytest


def table(path, rng, shift=0.0):
    """A table with numbers and text; the first column may be shifted."""
    rows = [
        f"{a + shift:.3f},{'red' if b > 0 else 'blue'},{a + b:.3f}"
        for a, b in rng.normal(size=(150, 2))
    ]
    path.write_text("\n".join(["width,colour,price", *rows]), "utf-8")


@pytest.fixture
def file(sbmc, tmp_path):
    """A posterior's file, rows of the same kind, and rows that have moved."""
    rng = np.random.default_rng(0)
    for name, shift in (("train", 0.0), ("same", 0.0), ("moved", 2.0)):
        table(tmp_path / f"{name}.csv", rng, shift)
    code, _, _ = sbmc(
        "fit", "--data", "train.csv", "--target", "price", "--hidden", "8", "--budget", "1",
        "--out", "my.sbmc", "--quiet", "--any-health",
    )  # fmt: skip
    assert code == 0
    return "my.sbmc"


def test_rows_are_compared_and_columns_are_named(sbmc, file):
    code, out, _ = sbmc("drift", file, "--data", "same.csv", "--any-health")
    assert code == 0
    assert "No drift was found" in out
    code, out, _ = sbmc("drift", file, "--data", "moved.csv", "--any-health")
    assert code == 0
    assert "The rows have drifted" in out
    assert "width is higher" in out
    code, out, _ = sbmc("drift", file, "--data", "moved.csv", "--any-health", "--json")
    found = json.loads(out)
    assert found["drifted"] is True
    assert [each["name"] for each in found["inputs"]] == ["width", "colour=blue", "colour=red"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "new.csv", "--level", "half"], "`level` must be"),
        (["--data", "new.csv"], "`file` must be a posterior's file that exists"),
        ([], "`data` must be given"),
    ],
)
def test_wrong_options_are_refused_in_one_line(sbmc, arguments, words):
    code, _, err = sbmc("drift", "none.sbmc", *arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
