"""Runs that are stopped or killed, and gone on with."""

import errno
import json
import random
import re
import signal
import time
from pathlib import Path

import pytest
from stopping import (
    SHORT,
    contents,
    record_of,
    require_same,
    seed_folder,
    seed_folders,
    start,
    stopped,
)

import sbmc as package
from sbmc.islands.checkpoints import open_store
from sbmc.islands.checkpoints.manifest import Manifest
from sbmc.islands.checkpoints.store import LocalStore
from sbmc.islands.job import Job
from sbmc_studies.records.record import read_record


def _edit(path, name, value):
    content = json.loads(path.read_text())
    content[name] = value
    path.write_text(json.dumps(content))


def wait_for(process, found):
    deadline = time.monotonic() + 120
    while not found() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_stopped_run_goes_on_by_resume_and_by_the_same_command(sbmc, monkeypatch, network):
    islands = [*SHORT, "--islands", 3]
    sbmc("run", "digits", *islands, "--out", "whole")
    for out in ("one", "two"):
        errors = stopped(sbmc, monkeypatch, *islands, "--out", out)
        folder = seed_folder(out)
        assert errors.count("\n") == 1
        words = f"sbmc: interrupted; 0 of 3 islands are done. Continue with: sbmc resume {folder}\n"
        assert errors == words
        assert not (folder / "record.json").exists()
        assert json.loads((folder / "run.json").read_text())["finished"] is False
    code, output, errors = sbmc("resume", seed_folder("one"), "--quiet")
    assert (code, errors) == (0, "")
    assert "S-HMC∥" in output
    code, _, errors = sbmc("run", "digits", *islands, "--out", "two")
    assert (code, errors) == (0, "")
    for out in ("one", "two"):
        require_same(seed_folder(out), seed_folder("whole"), network)
        assert json.loads((seed_folder(out) / "run.json").read_text())["finished"] is True
    (report,) = {each["attempts"] for each in read_record(record_of("one")).islands}
    assert report == 2
    before = contents(Path("one"))
    code, output, errors = sbmc("resume", seed_folder("one"))
    assert (code, errors) == (0, "")
    assert "the run has ended" in output
    assert contents(Path("one")) == before


def test_finished_islands_are_not_run_again(sbmc, monkeypatch, single):
    # an island offers its place before the first step and after each of five
    stopped(sbmc, monkeypatch, *SHORT, "--islands", 3, snapshots=14)
    folder = seed_folder("runs")
    done = sorted(path.name for path in folder.glob("checkpoint/island-*"))
    assert done == ["island-00000.safetensors", "island-00001.safetensors"]
    before = contents(folder / "checkpoint")
    ran = []
    original = Job.run

    def run(work, batch, *rest):
        ran.append(batch)
        return original(work, batch, *rest)

    monkeypatch.setattr(Job, "run", run)
    code, _, errors = sbmc("resume", "runs")
    assert code == 0
    assert "digits s-hmc seed 0 ... continues; 2 of 3 islands are done" in errors
    assert ran == [(2,)]
    for name in done:
        path = folder / "checkpoint" / name
        assert path.read_bytes() == before[path]


def test_another_executor_goes_on_with_the_same_bits(sbmc, monkeypatch, network, single):
    stopped(sbmc, monkeypatch, *SHORT, "--islands", 2, snapshots=8)
    code, _, errors = sbmc("resume", "runs", "--executor", "processes", "--workers", 1, "--quiet")
    assert (code, errors) == (0, "")
    sbmc("run", "digits", *SHORT, "--islands", 2, "--out", "whole")
    require_same(seed_folder("runs"), seed_folder("whole"), network)
    attempts = [each["attempts"] for each in read_record(record_of("runs")).islands]
    assert attempts == [1, 2]


def test_trained_networks_are_not_trained_again(sbmc, monkeypatch, network):
    ensemble = [*SHORT, "--start", "ensemble"]
    sbmc("run", "digits", *ensemble, "--out", "whole")
    stopped(sbmc, monkeypatch, *ensemble)
    names = {path.name for path in seed_folder("runs").glob("trained-*")}
    assert names == {"trained-anchor.safetensors", "trained-ensemble.safetensors"}

    def fails(*args, **kwargs):
        raise AssertionError("trained again")

    monkeypatch.setattr(package, "train_map", fails)
    monkeypatch.setattr(package, "train_ensemble", fails)
    assert sbmc("resume", "runs", "--quiet")[0] == 0
    require_same(seed_folder("runs"), seed_folder("whole"), network)


def test_all_unfinished_runs_below_a_folder(sbmc, monkeypatch, network):
    for seed in (0, 1):
        sbmc("run", "digits", *SHORT, "--seed", seed, "--out", "whole")
        stopped(sbmc, monkeypatch, *SHORT, "--seed", seed)
    code, output, errors = sbmc("resume", "runs", "--checkpoint-every", 0)
    assert code == 0, errors
    assert "2 seeds" in output
    for ours, whole in zip(seed_folders("runs"), seed_folders("whole"), strict=True):
        require_same(ours, whole, network)
    code, output, _ = sbmc("resume", ".")
    assert code == 0
    assert "all runs have ended" in output


def test_one_that_is_refused_does_not_keep_the_others(sbmc, monkeypatch):
    for seed in (0, 1):
        stopped(sbmc, monkeypatch, *SHORT, "--seed", seed)
    first, second = seed_folders("runs")
    _edit(first / "run.json", "data", {"name": "digits", "checksum": "f" * 64})
    code, _, errors = sbmc("resume", "runs", "--quiet")
    assert code == 2
    assert errors.count("\n") == 1
    assert "data differ (checksum ffffffff there" in errors
    assert not (first / "record.json").exists()
    assert read_record(second / "record.json").outcome == "completed"


def test_what_is_not_the_same_run_is_refused(sbmc, monkeypatch, tmp_path):
    stopped(sbmc, monkeypatch, *SHORT)
    folder = seed_folder("runs")
    journal = (folder / "run.json").read_bytes()

    def refused(*words, where=folder):
        before = contents(folder)
        code, output, errors = sbmc("resume", where, "--quiet")
        assert (code, output, errors.count("\n")) == (2, "", 1), errors
        for word in words:
            assert word in errors
        assert contents(folder) == before

    _edit(folder / "run.json", "versions", {"sbmc": "0.0.9"})
    refused("`run`", "versions.sbmc is '0.0.9' there")
    _edit(folder / "run.json", "seed", 7)
    refused("`run`", "seed-7", "moved or edited")
    (folder / "run.json").write_text("{")
    refused("`run`", "readable run.json")
    (folder / "run.json").write_bytes(journal)
    _edit(folder / "run.json", "version", 99)
    refused("`run`", "version 99")
    (folder / "run.json").write_bytes(journal)
    store = open_store(folder / "checkpoint")
    manifest = Manifest.from_json(store.read("manifest.json"), "")
    manifest.identity["versions"]["torch"] = "1.0"
    store.write("manifest.json", manifest.to_json())
    refused("`checkpoint`", "versions.torch is '1.0' there", "--force")
    (tmp_path / "empty").mkdir()
    refused("`run`", "run.json", where="empty")
    refused("`run`", "existing folder", where="nowhere")
    # begin anew is what is left
    assert sbmc("run", "digits", *SHORT, "--force")[0] == 0


def test_force_begins_anew(sbmc, monkeypatch, network):
    sbmc("run", "digits", *SHORT)
    folder = seed_folder("runs")
    before, first = contents(folder), read_record(folder / "record.json")
    (folder / "checkpoint" / "of-an-earlier-run").write_text("")
    assert sbmc("run", "digits", *SHORT, "--force")[0] == 0
    assert {path.name for path in contents(folder)} == {path.name for path in before}
    assert read_record(folder / "record.json").metrics == first.metrics


def test_interrupted_with_some_islands_done_among_several_runs(sbmc, monkeypatch):
    from sbmc.islands.scheduler import Interrupted

    def interrupted(*args, **kwargs):
        raise Interrupted(3, 8, "somewhere")

    monkeypatch.setattr(package, "fit", interrupted)
    code, _, errors = sbmc("run", "digits", *SHORT, "--islands", 8, "--seeds", "0-1")
    assert code == 130
    words = (
        r"sbmc: interrupted; 3 of 8 islands are done. Continue with the same command, or with this"
    )
    words += r" run alone: sbmc resume runs/digits/s-hmc/[0-9a-f]{12}/seed-0\n"
    assert re.fullmatch(words, errors)


def test_a_full_disk_stops_the_run_and_spoils_nothing(sbmc, monkeypatch, network):
    sbmc("run", "digits", *SHORT, "--out", "whole")
    original, left = LocalStore._put, [8]

    def full(store, temporary, name, data):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(store, temporary, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "_put", full)
        code, output, errors = sbmc("run", "digits", *SHORT, "--checkpoint-every", 0)
    assert code == 1
    assert output == ""
    assert errors.count("\n") == 1
    for words in ("No space left", "intact", f"Continue with: sbmc resume {seed_folder('runs')}"):
        assert words in errors
    assert not list(Path("runs").rglob("record.json"))
    assert sbmc("resume", "runs", "--quiet")[0] == 0
    require_same(seed_folder("runs"), seed_folder("whole"), network)


def test_an_island_that_fails_is_reported_and_tried_again(sbmc, monkeypatch):
    original = Job.run

    def run(work, batch, *rest):
        if 1 in batch:
            raise RuntimeError("boom")
        return original(work, batch, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Job, "run", run)
        code, output, errors = sbmc("run", "digits", *SHORT, "--islands", 2, "--retries", 1)
    assert code == 0
    assert "S-HMC∥" in output
    lines = [line for line in errors.splitlines() if line.startswith("sbmc: ")]
    assert len(lines) == 1
    assert "1 of 2 islands failed" in lines[0]
    record = read_record(record_of("runs"))
    assert record.outcome == "partial"
    good, bad = record.islands
    assert (good["outcome"], good["message"]) == ("completed", "")
    assert (bad["outcome"], bad["attempts"]) == ("failed", 3)
    assert "boom" in bad["message"]
    assert sbmc("resume", "runs", "--quiet")[0] == 0
    assert read_record(record_of("runs")).outcome == "completed"


@pytest.mark.integration
def test_a_killed_run_ends_with_the_bits_of_an_undisturbed_one(sbmc, tmp_path, network):
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    moment = random.Random(seed).uniform(0, 1.5)
    # So many steps that a fast machine is still busy with them at the last moment.
    longer = [*SHORT, "--steps", 1500, "--islands", 2, "--checkpoint-every", 0]
    with start(["run", "digits", *longer], tmp_path) as process:
        wait_for(process, lambda: list(tmp_path.rglob("manifest.json")))
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    assert sbmc("resume", "runs", "--quiet", "--checkpoint-every", 60)[0] == 0
    assert sbmc("run", "digits", *longer, "--out", "whole")[0] == 0
    require_same(seed_folder("runs"), seed_folder("whole"), network)


def test_ctrl_c_writes_down_the_place_and_says_how_to_go_on(tmp_path):
    endless = [each for each in SHORT if each != "--quiet"]
    endless = ["run", "digits", *endless, "--steps", 10**6, "--islands", 2]
    with start(endless, tmp_path) as process:
        line = " "
        while line and "sampling" not in line:
            line = process.stderr.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    folder = seed_folder(tmp_path)
    words = "sbmc: interrupted; 0 of 2 islands are done. Continue with: sbmc resume "
    assert errors.splitlines()[-1] == f"{words}{folder.relative_to(tmp_path)}"
    assert list(folder.glob("checkpoint/batch-*"))
    assert not (folder / "record.json").exists()
