"""The benchmark of prediction: what it measures, and its verdict."""

import json

import pytest
import torch

from benchmarks import prediction, readme


def test_predicting_is_measured_beside_sampling(tmp_path, capsys):
    out = tmp_path / "prediction.json"
    before = torch.get_num_threads()
    try:
        assert prediction.main(["--quick", "--threads", "1", "--out", str(out)]) == 0
    finally:
        torch.set_num_threads(before)
    record = json.loads(out.read_text())
    assert (record["benchmark"], record["quick"]) == ("prediction", True)
    assert [row["workload"] for row in record["prediction"]] == ["mnist7", "head", "cifar"]
    for row in record["prediction"]:
        assert set(row["all_seconds"]) == set(prediction.WAYS)
        assert all(len(values) == record["repeats"] for values in row["all_seconds"].values())
        assert (row["particles"], row["examples"]) == (4, 50)
        assert min(row["over_forward"], row["over_epoch"]) > 0
    table = capsys.readouterr().out
    assert "prediction against the half" in table
    assert readme.TABLES["prediction"][1](record) == table.rstrip()


def test_it_says_where_predicting_takes_too_long():
    def row(ratio, allowed):
        return {"title": "a net", "over_epoch": ratio, "allowed": allowed}

    rows = [row(2.1, 2.0), row(2.0, 2.0), row(9.0, None)]
    (failure,) = prediction.find_failures({"prediction": rows})
    assert "takes 2.10 epochs, 2 allowed" in failure


def test_bad_options_are_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        prediction.main(["--threads", "0"])
    assert stopped.value.code == 2
    assert "`threads` must be a positive integer, but got 0." in capsys.readouterr().err
