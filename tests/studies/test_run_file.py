import json
from dataclasses import replace

import forked
import pytest
from repository import ROOT

from sbmc.checks import BadInput
from sbmc.storage.provenance import software_versions
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.records.record import read_record
from sbmc_studies.runs.run_file import (
    RunFile,
    find_runs,
    open_run,
    read_run_file,
    remove_checkpoint,
)

SETTINGS = {"s": 0.1, "islands": 2, "trajectory": 1.5707963267948966, "first_island": None}
# Written by the version before `RunSpec`, for a run that was stopped by Ctrl-C.
BEFORE = ROOT / "tests" / "data" / "run_before_run_spec.json"


@pytest.fixture
def spec():
    execution = Execution(retries=4)
    return RunSpec("digits", "s-hmc", SETTINGS, 3, also_islands=(1,), execution=execution)


@pytest.fixture
def run_file(spec):
    return RunFile(spec, data={"name": "digits", "checksum": "a"}, versions={"torch": "2.0"})


@pytest.fixture
def folder(spec, tmp_path):
    return spec.folder(tmp_path)


def test_what_is_written_is_read_again(run_file, spec, folder):
    run_file.write(folder)
    assert read_run_file(folder) == run_file
    assert folder.name == "seed-3"
    assert folder.parent.name == spec.hash
    run_file.finish(folder)
    assert read_run_file(folder) == replace(run_file, finished=True)
    assert [path.name for path in folder.iterdir()] == ["run.json"]


def folder_of_before(out, **changes):
    content = {**json.loads(BEFORE.read_text("utf-8")), **changes}
    folder = out / "digits" / "s-hmc" / "23f56e268399" / "seed-0"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    return folder


def test_a_run_file_of_before_is_read_and_written_to_the_byte(tmp_path):
    folder = folder_of_before(tmp_path)
    run_file = read_run_file(folder)
    assert run_file.spec.also_islands == (1, 2)
    assert run_file.spec.execution == Execution(retries=4, checkpoint_every=0.0)
    assert run_file.spec.save_posterior
    assert run_file.data["name"] == "digits"
    assert not run_file.finished
    run_file.write(folder)
    assert (folder / "run.json").read_bytes() == BEFORE.read_bytes()


def test_a_run_of_before_is_resumed(sbmc, tmp_path):
    # The packages are those of today, or it would be refused, rightly.
    folder = folder_of_before(tmp_path, versions=software_versions())
    code, output, errors = sbmc("resume", folder, "--quiet")
    assert (code, errors) == (0, "")
    assert "S-HMC∥" in output
    record = read_record(folder / "record.json")
    assert record.outcome == "completed"
    assert record.settings == json.loads(BEFORE.read_text("utf-8"))["settings"]
    assert (folder / "posterior.sbmc").exists()
    islands = [read_record(path).settings["islands"] for path in tmp_path.rglob("record.json")]
    assert sorted(islands) == [1, 2, 3]
    assert read_run_file(folder).finished


def test_a_run_file_of_something_else_is_refused(run_file, folder, tmp_path):
    with pytest.raises(BadInput, match=r"`run` must be a folder with a run\.json"):
        read_run_file(tmp_path)
    run_file.write(folder)
    (folder / "run.json").rename(tmp_path / "run.json")
    with pytest.raises(BadInput, match="moved or edited"):
        read_run_file(tmp_path)
    content = run_file.to_json()
    for text, message in (
        ("", "readable"),
        ("[]", "readable"),
        ('{"format": "other", "version": 1}', "of other version 1"),
        ('{"format": "sbmc-run", "version": 1}', "experiment is missing"),
        (json.dumps({**content, "colour": 1}), "`colour` must be left out"),
        (json.dumps({**content, "finished": "soon"}), "finished is 'soon'"),
        (json.dumps({**content, "versions": {"torch": 2}}), "versions is {'torch': 2}"),
        (json.dumps({**content, "settings": {"s": float("nan"), "islands": 1}}), "valid"),
    ):
        (folder / "run.json").write_text(text)
        with pytest.raises(BadInput, match=message):
            read_run_file(folder)


def test_runs_are_found_in_order(spec, tmp_path):
    for seed in (10, 2, 0):
        each = replace(spec, seed=seed)
        RunFile(each).write(each.folder(tmp_path))
    names = [path.name for path in find_runs(tmp_path)]
    assert names == ["seed-0", "seed-2", "seed-10"]
    assert find_runs(spec.folder(tmp_path).parent / "seed-2")[0].name == "seed-2"
    with pytest.raises(BadInput, match="an existing folder"):
        find_runs(tmp_path / "nowhere")
    records = tmp_path / "records"
    (records / "seed-0").mkdir(parents=True)
    with pytest.raises(BadInput, match="the folder of a run"):
        find_runs(records)
    (records / "seed-0" / "record.json").write_text("of another time")
    assert find_runs(records) == []
    assert find_runs(records / "seed-0") == [records / "seed-0"]


def test_data_and_versions_must_be_the_same(spec):
    run_file = RunFile(spec, data={"checksum": "a" * 64}, versions={"torch": "2.0+cpu"})
    run_file.require_same_origin({"checksum": "a" * 64}, {"torch": "2.0", "python": "3"})
    with pytest.raises(BadInput, match="data differ"):
        run_file.require_same_origin({"checksum": "b" * 64}, {"torch": "2.0"})
    with pytest.raises(BadInput, match=r"versions\.torch is '2\.0' there and '2\.1' here"):
        run_file.require_same_origin({"checksum": "a" * 64}, {"torch": "2.1"})


def test_what_is_refused_leaves_no_trace(run_file, folder, tmp_path):
    def run():
        with open_run(run_file, folder):
            assert (folder / "run.json").exists()
            raise BadInput("no")

    def refused():
        with pytest.raises(BadInput, match="no"):
            run()

    refused()
    assert not list(tmp_path.iterdir())
    folder.mkdir(parents=True)
    refused()
    assert not list(folder.iterdir())
    (folder / "run.json").write_text("of an earlier run")
    refused()
    assert (folder / "run.json").read_text() == "of an earlier run"
    with pytest.raises(RuntimeError), open_run(run_file, folder):
        raise RuntimeError
    assert read_run_file(folder) == run_file


def test_a_folder_belongs_to_one_process(run_file, folder):
    code = f"""
from pathlib import Path
from sbmc.checks import BadInput
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.runs.run_file import RunFile, open_run
spec = RunSpec("digits", "s-hmc", {SETTINGS!r}, 3)
try:
    with open_run(RunFile(spec), Path({str(folder)!r})):
        print("in")
except BadInput as error:
    print(error)
"""

    def other():
        return forked.run(["-c", code], check=True).stdout

    with open_run(run_file, folder):
        before = (folder / "run.json").read_bytes()
        assert "`run` must be one that no other process is at" in other()
        assert (folder / "run.json").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["run.json"]


def test_removing_the_checkpoint_leaves_the_record(folder):
    (folder / "checkpoint").mkdir(parents=True)
    for name in ("record.json", "posterior.sbmc", "trained-anchor.safetensors", "checkpoint/a"):
        (folder / name).write_text("")
    remove_checkpoint(folder)
    assert {path.name for path in folder.iterdir()} == {"record.json", "posterior.sbmc"}
