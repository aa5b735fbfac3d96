"""The benchmark of MNIST7 without a knob runs, and its means are held to what is required."""

from __future__ import annotations

import json

import pytest

from benchmarks import no_knob


@pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")
def test_it_runs_and_counts_what_it_cost(tmp_path, capsys):
    pytest.importorskip("sklearn")
    out = tmp_path / "record.json"
    assert no_knob.main(["--quick", "--out", str(out)]) == 0
    rows = json.loads(out.read_text("utf-8"))["rows"]
    assert [row["anchor"] for row in rows] == ["map", "swa"]
    # Nine trainings of four epochs: two networks are trained, and six chains make four each.
    # How far chains get is found on 18 batches of 64 rows of 800.
    assert [row["training_epochs"] for row in rows] == [4, 4]
    assert [row["sampling_epochs"] for row in rows] == pytest.approx([32 + 18 * 64 / 800] * 2)
    assert "| required |" in capsys.readouterr().out


def test_means_over_the_seeds_are_held_to_what_is_required():
    def rows(*scores):
        return [{"posterior": {"accuracy": accuracy, "nll": nll}} for accuracy, nll in scores]

    assert no_knob.missed(rows((0.945, 0.19), (0.936, 0.21))) == []
    assert len(no_knob.missed(rows((0.93, 0.19)))) == 1
    assert len(no_knob.missed(rows((0.93, 0.21)))) == 2
