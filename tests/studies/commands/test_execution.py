"""How islands are run: options that decide no result, and what a run would take."""

from pathlib import Path

import pytest
from stopping import SHORT, contents, record_of

import sbmc as package
from sbmc_studies.records.record import read_record


def test_dry_run_says_what_it_takes_and_writes_nothing(sbmc, tmp_path):
    command = ["run", "digits", "--method", "map,s-hmc,s-smc", "--islands", 3, "--dry-run"]
    code, output, errors = sbmc(*command, "--epochs", 40, "--quiet")
    assert code == 0, errors
    rows = {
        line.split("│")[1].strip(): line.split("│") for line in output.splitlines() if "│" in line
    }
    assert set(rows) == {"MAP", "S-HMC∥", "S-SMC∥"}
    cells = [cell.strip() for cell in rows["S-HMC∥"]]
    assert cells[2:8] == ["3", "10", "1", "1000", "40", "2,200"]
    assert "15 of them assumed" in output
    # The memory of the process, which may have grown in other tests, and that of the checkpoint.
    assert " MB" in output or " GB" in output
    assert " kB" in output
    assert not list(tmp_path.iterdir())


BAD = [
    (["--executor", "proceses"], ["`executor`", "in-process, processes, ray", "'processes'"]),
    (["--executor", "processes", "--address", "auto"], ["`address`", "left out", "'auto'"]),
    (["--executor", "in-process", "--workers", "2"], ["`workers`", "in-process", "2"]),
    (["--workers", "0"], ["`workers`", "positive integer", "0"]),
    (["--workers", "two"], ["`workers`", "positive integer", "'two'"]),
    (["--executor", "processes", "--gpus", "1"], ["`gpus`", "processes", "1"]),
    (["--executor", "ray", "--gpus", "-1"], ["`gpus`", "from 0", "-1"]),
    (["--shards", "0"], ["`shards`", "torchrun", "0"]),
    (["--shards", "many"], ["`shards`", "torchrun", "'many'"]),
    (["--shards", "torchrun"], ["`shards`", "a script that torchrun has started"]),
    (["--retries", "-1"], ["`retries`", "non-negative", "-1"]),
    (["--retries", "1.5"], ["`retries`", "non-negative", "'1.5'"]),
    (["--checkpoint-every", "-1"], ["`checkpoint_every`", "from 0", "-1"]),
    (["--checkpoint-every", "soon"], ["`checkpoint_every`", "'soon'"]),
    (["--checkpoint-every", "5", "--no-checkpoint"], ["`checkpoint_every`", "--no-checkpoint"]),
    (["--memory-limit", "2 apples"], ["`memory_limit`", "'2GiB'", "'2 apples'"]),
    (["--memory-limit", "0"], ["`memory_limit`", "positive", "'0'"]),
    (["--chunk-size", "0"], ["`chunk_size`", "positive integer", "0"]),
    (["--chunk-size", "few"], ["`chunk_size`", "positive integer", "'few'"]),
    (["--first-island", "-1"], ["`first_island`", "non-negative", "'-1'"]),
    (["--first-island", "x"], ["`first_island`", "non-negative", "'x'"]),
    (["--method", "map", "--first-island", "2"], ["`first_island`", "a setting of map"]),
    (["--method", "de-s-hmc", "--first-island", "2"], ["`first_island`", "a setting of de-s-hmc"]),
    (["--out", "file/below"], ["`out`", "can be written to", "'file/below'"]),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=lambda each: " ".join(each)[:60])
def test_bad_options_are_one_line_and_exit_code_2(sbmc, tmp_path, arguments, words):
    (tmp_path / "file").write_text("")
    method = [] if "--method" in arguments else ["--method", "s-hmc"]
    code, output, errors = sbmc("run", "digits", *method, *arguments)
    assert (code, output, errors.count("\n")) == (2, "", 1), errors
    for word in words:
        assert word in errors
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_how_islands_are_run_is_no_setting(sbmc):
    options = ["--retries", 5, "--checkpoint-every", 0, "--first-island", 0]
    options += ["--memory-limit", "64GiB", "--chunk-size", 50]
    sbmc("run", "digits", *SHORT, *options, "--executor", "in-process")
    noisy = [each for each in SHORT if each != "--quiet"]
    code, _, errors = sbmc("run", "digits", *noisy)
    assert code == 0
    assert "reused" in errors
    record = read_record(record_of("runs"))
    assert record.settings["first_island"] is None
    apart = {"executor", "retries", "workers", "memory_limit", "chunk_size"}
    assert not apart & set(record.settings)
    assert record.details["fit"]["chunks"]["examples"] == 50
    memory = record.details["memory"]
    assert memory["limit"] == 64 * 2**30
    assert 0 < memory["expected"] <= memory["limit"]
    assert memory["peak"] > 0


def test_a_run_that_is_too_large_is_refused_before_anything_is_trained(sbmc, monkeypatch):
    def trained(*args, **kwargs):
        raise AssertionError("trained")

    monkeypatch.setattr("sbmc_studies.experiments.context.Context.anchor", trained)
    code, output, errors = sbmc("run", "digits", *SHORT, "--memory-limit", "40MB")
    assert (code, output, errors.count("\n")) == (2, "", 1), errors
    assert "`memory_limit` must be at least " in errors
    assert "but got 40.0 MB." in errors
    again = ["run", "digits", *SHORT, "--memory-limit", "40MB", "--dry-run"]
    code, _, errors = sbmc(*again)
    assert (code, errors.count("\n")) == (2, 1)
    assert "but got 40.0 MB." in errors


def test_without_a_checkpoint_nothing_is_kept(sbmc, monkeypatch):
    def interrupted(*args, **kwargs):
        assert kwargs["compute"].checkpoint is None
        raise KeyboardInterrupt

    monkeypatch.setattr(package, "fit", interrupted)
    code, _, errors = sbmc("run", "digits", *SHORT, "--no-checkpoint")
    assert code == 130
    continues = "what is finished is saved, and the same command continues from there."
    assert errors == f"sbmc: interrupted; {continues}\n"
    assert [path.name for path in contents(Path("runs"))] == ["run.json"]


def test_the_toy_study_has_no_dry_run(sbmc, tmp_path):
    code, output, errors = sbmc("run", "toy", "--dry-run")
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert "`dry_run`" in errors
    assert not list(tmp_path.iterdir())


def test_the_names_of_the_executors_are_in_the_help(sbmc):
    from sbmc.islands.executors import executors

    for command in ("run", "resume", "extend"):
        code, output, _ = sbmc(command, "--help")
        assert code == 0
        assert all(name in output for name in (*executors(), "--workers", "--checkpoint-every"))
        assert all(name in output for name in ("--memory-limit", "--chunk-size"))
