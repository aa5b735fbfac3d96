import json
import math

import pytest

from sbmc.storage.provenance import hardware_summary, software_versions
from sbmc_studies.experiments.settings import ALWAYS
from sbmc_studies.records.record import (
    BadRecord,
    Record,
    read_record,
    read_seeds,
    record_path,
    write_record,
)


def make_record(**changes):
    content = {
        "experiment": "digits",
        "method": "s-hmc",
        "settings": {**dict.fromkeys(ALWAYS), "s": 0.1, "islands": 1},
        "seed": 0,
        "data": {"name": "digits", "checksum": "0" * 64},
        "cost": {
            "epochs": 161.0,
            "forward_epochs": 0.0,
            "anchor_epochs": 150.0,
            "total_epochs": 1760.0,
            "wall_seconds": 9.5,
        },
        "metrics": {"accuracy": 0.92, "nll": 0.25, "island_ess": 1.0},
        "islands": [{"index": 0, "outcome": "completed", "log_evidence": None, "epochs": 161.0}],
        "outcome": "completed",
    }
    return Record(**{**content, **changes})


def test_a_record_comes_back_as_it_was(tmp_path):
    record = make_record(versions=software_versions(), hardware=hardware_summary())
    path = write_record(tmp_path, record)
    assert path == tmp_path / "digits" / "s-hmc" / record.hash / "seed-0" / "record.json"
    assert read_record(path) == record


def test_the_file_has_the_fields_of_the_design(tmp_path):
    content = json.loads(write_record(tmp_path, make_record()).read_text())
    assert set(content) >= {
        "schema_version", "experiment", "method", "settings", "seed", "versions", "hardware",
        "data", "cost", "metrics", "islands", "outcome",
    }  # fmt: skip


def test_what_is_no_number_becomes_null(tmp_path):
    metrics = {"accuracy": 1.0, "entropy.epistemic.incorrect": math.nan}
    islands = [{"index": 0, "outcome": "failed", "log_evidence": -math.inf, "epochs": 1.0}]
    path = write_record(tmp_path, make_record(metrics=metrics, islands=islands))
    record = read_record(path)
    assert record.metrics["entropy.epistemic.incorrect"] is None
    assert record.islands[0]["log_evidence"] is None


def test_writing_leaves_nothing_else_and_replaces_the_whole(tmp_path):
    write_record(tmp_path, make_record())
    path = write_record(tmp_path, make_record(metrics={"accuracy": 0.5}))
    assert [file.name for file in path.parent.iterdir()] == ["record.json"]
    assert read_record(path).metrics == {"accuracy": 0.5}


def test_a_failure_while_writing_keeps_the_old_record(tmp_path, monkeypatch):
    path = write_record(tmp_path, make_record())
    before = path.read_text()

    def broken(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr("sbmc.storage.files.json.dump", broken)
    with pytest.raises(OSError, match="disk full"):
        write_record(tmp_path, make_record(metrics={"accuracy": 0.5}))
    assert path.read_text() == before
    assert [file.name for file in path.parent.iterdir()] == ["record.json"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outcome": "finished"}, "outcome"),
        ({"seed": -1}, "seed"),
        ({"settings": {"s": 0.1}}, "settings.prior_variance"),
        ({"data": {"name": "digits"}}, "data.checksum"),
        ({"cost": {"epochs": 1.0}}, "cost.forward_epochs"),
        ({"metrics": {"accuracy": "high"}}, "metrics.accuracy"),
        ({"metrics": {}}, "metrics.accuracy"),
        ({"islands": [{"index": 0}]}, "islands.outcome"),
        ({"schema_version": 0}, "schema_version"),
    ],
)
def test_what_breaks_the_schema_is_not_written(tmp_path, changes, words):
    with pytest.raises(BadRecord, match=words):
        write_record(tmp_path, make_record(**changes))
    assert not list(tmp_path.iterdir())


def test_damaged_moved_or_edited_records_are_refused(tmp_path):
    path = write_record(tmp_path, make_record())
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    with pytest.raises(BadRecord, match="readable"):
        read_record(path)
    path.write_text(text.replace('"s": 0.1', '"s": 0.2'))
    with pytest.raises(BadRecord, match="moved or edited"):
        read_record(path)
    moved = record_path(tmp_path, "digits", "s-hmc", make_record().hash, 3)
    moved.parent.mkdir()
    moved.write_text(text)
    with pytest.raises(BadRecord, match="moved or edited"):
        read_record(moved)
    with pytest.raises(BadRecord, match="readable"):
        read_record(tmp_path / "nowhere.json")
    path.write_text(json.dumps({**json.loads(text), "extra": 1}))
    with pytest.raises(BadRecord, match="extra"):
        read_record(path)


def test_seeds_are_read_in_order_and_failed_runs_left_out(tmp_path):
    for seed in (10, 2, 0):
        write_record(tmp_path, make_record(seed=seed))
    write_record(tmp_path, make_record(seed=1, outcome="failed", metrics={}, message="no"))
    write_record(tmp_path, make_record(seed=3, outcome="partial"))
    found = read_seeds(tmp_path, "digits", "s-hmc", make_record().hash)
    assert [record.seed for record in found] == [0, 2, 10]
    assert read_seeds(tmp_path, "digits", "map", "0" * 12) == []


def test_hardware_names_no_host():
    import platform

    assert platform.node() == "" or platform.node() not in str(hardware_summary())
