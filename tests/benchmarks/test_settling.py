"""The benchmark of settling runs, and its table compares three ways at each budget."""

from __future__ import annotations

import json

import pytest

from benchmarks import settling
from sbmc.datasets.locate import DataNotFound
from sbmc_studies.gauntlet.data import load_pair_data


def test_it_runs_and_says_what_it_measured(tmp_path, capsys, monkeypatch):
    try:
        load_pair_data("glass")
    except DataNotFound:
        pytest.skip("needs the small sets of the UCI repository")
    out = tmp_path / "record.json"
    assert settling.main(["--quick", "--out", str(out)]) == 0
    record = json.loads(out.read_text("utf-8"))
    assert record["quick"] is True
    assert [row["way"] for row in record["rows"]] == ["all", "early", "extended"]
    assert capsys.readouterr().out.count("glass-mlp-2x128") == 1


def row(way, seed, **values):
    return {"pair": "p", "trainings": 5, "way": way, "seed": seed, "islands": 3, **values}


def test_the_table_pairs_runs_of_one_seed():
    rows = []
    for seed, nll in enumerate((0.5, 0.9)):
        rows.append(row("all", seed, spent=5.0, settled=0, nll=nll))
        rows.append(row("early", seed, spent=4.0 + seed, settled=2, nll=nll + 0.01))
        rows.append(row("extended", seed, spent=12.0, settled=3, nll=nll - 0.1 * seed))
    cells = settling.settling_table({"rows": rows}).splitlines()[-1].strip("| ").split(" | ")
    assert cells == [
        "p",
        "5",
        "5.0",
        "4.5",
        "12.0",
        "4 of 6",
        "6 of 6",
        "0.700",
        "+0.010 ± 0.000",
        "-0.050 ± 0.050",
    ]


def test_only_development_pairs_are_touched():
    names = {pair.name for pair in settling.gauntlet_pairs("development")}
    assert set(settling.PAIRS) <= names
