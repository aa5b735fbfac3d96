import json
import os
import signal
import subprocess
import sys
import time

import pytest
from repository import ROOT
from stopping import start

from sbmc_studies.commands.options import parse_numbers
from sbmc_studies.experiments.methods import METHODS
from sbmc_studies.records.record import read_record

TINY = ["--set", "max_epochs=3", "--set", "batch_size=256"]
TINY_HMC = [*TINY, "--steps", "3", "--particles", "2", "--set", "leapfrog=1"]


def records(folder):
    return sorted(folder.rglob("record.json"))


def test_comparison_ends_with_table_sentence_and_picture(sbmc, tmp_path):
    code, output, errors = sbmc("run", "digits", *TINY_HMC, "--quiet", "--out", "out")
    assert code == 0, errors
    assert errors == ""
    for label in ("MAP", "deep ensemble", "S-HMC∥"):
        assert label in output
    assert "What it means: S-HMC∥ is right on" in output
    assert (tmp_path / "out" / "digits" / "sure_and_unsure.png").exists()
    methods = [read_record(path).method for path in records(tmp_path / "out")]
    assert methods == ["de", "map", "s-hmc"]


def test_one_method_with_seeds_and_prefixes(sbmc, tmp_path):
    command = ["run", "digits", "--method", "s-hmc", *TINY_HMC, "--seeds", "0-1"]
    command += ["--islands", 2, "--also-islands", 1, "--s", 0.2, "--prior-variance", 0.5]
    code, output, errors = sbmc(*command)
    assert code == 0, errors
    assert "2 seeds" in output
    assert "What it means" not in output
    found = [read_record(path) for path in records(tmp_path / "runs")]
    assert sorted((each.settings["islands"], each.seed) for each in found) == [
        (1, 0), (1, 1), (2, 0), (2, 1),
    ]  # fmt: skip
    assert {each.settings["s"] for each in found} == {0.2}
    assert {each.settings["prior_variance"] for each in found} == {0.5}
    # no terminal here: progress comes as plain lines, on standard error
    assert "training" in errors
    assert "\x1b" not in errors
    code, output, errors = sbmc(*command)
    assert code == 0
    assert errors.count("reused") == 2


@pytest.mark.parametrize("method", ["sgld", "s-sgld", "sghmc", "s-sghmc", "ubu", "s-ubu"])
def test_samplers_on_mini_batches(sbmc, tmp_path, method):
    tiny = [*TINY, "--epochs", 2, "--particles", 2, "--islands", 2]
    code, output, errors = sbmc(
        "run", "digits", "--method", method, *tiny, "--set", "sampler_batch_size=200", "--quiet"
    )
    assert code == 0, errors
    assert method.upper() in output
    (path,) = records(tmp_path)
    found = read_record(path)
    assert found.outcome == "completed"
    assert found.cost["epochs"] == 2
    assert found.settings["sampler_batch_size"] == 200
    assert found.settings["batch_size"] == 256  # that of training
    assert found.settings["s"] == (0.1 if method.startswith("s-") else 1)


BAD = [
    (["run"], ["`experiment`", "must be given"]),
    (["run", "digit"], ["`experiment`", "digits, imdb, mn", "'digit'", "Did you mean 'digits'?"]),
    (["run", "digits", "--method", "s-hcm"], ["`method`", "'s-hcm'", "Did you mean 's-hmc'?"]),
    (["run", "digits", "--stpes", "3"], ["`option`", "'--stpes'", "Did you mean '--steps'?"]),
    (["rnu", "digits"], ["`command`", "'rnu'", "Did you mean 'run'?"]),
    (["--verion"], ["`option`", "'--verion'", "Did you mean '--version'?"]),
    (["run", "digits", "more"], ["more"]),
    (["run", "digits", "--steps"], ["--steps"]),
    (["run", "digits", "--s", "2"], ["`s`", "in [0, 1]", "'2'"]),
    (["run", "digits", "--s", "-0.1"], ["`s`", "in [0, 1]", "'-0.1'"]),
    (["run", "digits", "--prior-variance", "0"], ["`prior_variance`", "positive", "'0'"]),
    (["run", "digits", "--particles", "0"], ["`particles`", "positive", "'0'"]),
    (["run", "digits", "--method", "s-hmc", "--islands", "0"], ["`islands`", "positive", "'0'"]),
    (["run", "digits", "--steps", "-3"], ["`steps`", "positive", "-3"]),
    (["run", "digits", "--method", "hmc", "--s", "0.1"], ["`s`", "1.0 for hmc", "0.1"]),
    (["run", "digits", "--steps", "3", "--epochs", "5"], ["`steps`", "`epochs`", "3", "5"]),
    (["run", "digits", "--start", "here"], ["`start`", "prior, anchor, ensemble", "'here'"]),
    (["run", "digits", "--seed", "x"], ["`seed`", "'x'"]),
    (["run", "digits", "--seeds", "4-0"], ["`seeds`", "0-4", "'4-0'"]),
    (["run", "digits", "--seed", "1", "--seeds", "0-4"], ["`seed`", "`seeds`", "'1'"]),
    (["run", "digits", "--set", "steps"], ["`set`", "KEY=VALUE", "'steps'"]),
    (["run", "digits", "--set", "sepps=3"], ["`sepps`", "sepps=3"]),
    (["run", "digits", "--steps", "3", "--set", "steps=4"], ["`steps`", "once", "3", "4"]),
    (["run", "digits", "--preset", "bset"], ["`preset`", "paper, best", "Did you mean 'best'?"]),
    (
        ["run", "digits", "--method", "s-hmc", "--also-islands", "2"],
        ["`also_islands`", "number of islands (1)", "2"],
    ),
    (
        ["run", "digits", "--method", "ubu", "--epochs", "3"],
        ["`epochs`", "an even number", "3"],
    ),
    (["run", "digits", "--method", "sghmc", "--set", "friction=0"], ["`friction`", "positive"]),
    (["run", "digits", "--method", "sgld", "--steps", "3"], ["`steps`", "a setting of sgld"]),
    (["table", "mnis7"], ["`experiment`", "'mnis7'", "Did you mean 'mnist7'?"]),
    (["table", "mnist7", "--records", "nowhere"], ["`records`", "folder", "'nowhere'"]),
    (["table", "mnist7", "--records", ".", "--format", "html"], ["`format`", "markdown", "'html'"]),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=lambda each: " ".join(each)[:60])
def test_bad_input_is_one_line_and_exit_code_2(sbmc, tmp_path, arguments, words):
    code, output, errors = sbmc(*arguments)
    assert code == 2
    assert output == ""
    assert errors.count("\n") == 1, errors
    assert errors.startswith("sbmc: ")
    for word in words:
        assert word in errors
    assert not records(tmp_path)


def test_missing_data_say_where_they_were_looked_for(sbmc, tmp_path, monkeypatch):
    from sbmc_studies.data import mnist7

    def no_network():
        raise OSError("no network in tests")

    monkeypatch.setattr(mnist7, "fetch", no_network)
    for place in ("here", "elsewhere", "cache"):
        (tmp_path / place).mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SBMC_DATA", str(tmp_path / "elsewhere"))
    code, _, errors = sbmc("run", "mnist7", "--data-dir", tmp_path / "here", "--quiet")
    assert code == 2
    assert errors.count("\n") == 1
    for place in ("here", "elsewhere", "cache"):
        assert str(tmp_path / place) in errors


def test_debug_shows_the_traceback_and_keeps_the_code(sbmc):
    code, _, errors = sbmc("run", "digits", "--s", "2", "--debug")
    assert code == 2
    assert "Traceback" in errors
    assert errors.splitlines()[-1].startswith("sbmc: `s` must be")


def test_a_failed_run_is_exit_code_1_and_has_its_record(sbmc, tmp_path, monkeypatch):
    import sbmc as package

    def fails(*args, **kwargs):
        raise RuntimeError("1 of 1 islands failed")

    monkeypatch.setattr(package, "fit", fails)
    code, _, errors = sbmc("run", "digits", "--method", "s-hmc", *TINY_HMC, "--quiet")
    assert code == 1
    assert "Traceback" not in errors
    assert errors.count("\n") == 1
    assert "1 of 1 islands failed" in errors
    (path,) = records(tmp_path)
    assert json.loads(path.read_text())["outcome"] == "failed"
    assert str(path.relative_to(tmp_path)) in errors


def test_an_error_outside_a_run_is_one_line(sbmc, monkeypatch):
    def fails(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr("sbmc_studies.commands.table.build_table", fails)
    code, _, errors = sbmc("table", "mnist7", "--records", ".")
    assert code == 1
    assert errors == "sbmc: OSError: disk full\n"


def test_interruption_is_one_line_and_exit_code_130(sbmc, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("sbmc_studies.runs.runner.run", interrupted)
    code, output, errors = sbmc("run", "digits", "--quiet")
    assert code == 130
    assert output == ""
    assert errors.count("\n") == 1
    assert "interrupted" in errors


def test_lists_have_a_line_each(sbmc):
    code, output, _ = sbmc("experiments")
    assert code == 0
    names = [line.split()[0] for line in output.splitlines()]
    assert {"cifar10", "digits", "imdb", "mnist7", "toy"} <= set(names)
    code, output, _ = sbmc("methods")
    assert code == 0
    heading, *lines = output.splitlines()
    assert "cost in epochs" in heading
    assert [line.split()[0] for line in lines] == list(METHODS)
    cost = heading.index("cost in epochs")
    assert all(line[cost:].strip() for line in lines)


def test_the_toy_study_prints_its_table_and_draws_its_picture(sbmc, tmp_path, monkeypatch):
    from sbmc_studies.commands import toy

    def small(out, seed, **options):
        few = {"draws": 12, "chains": 2, "scales": (1.0, 0.1), "temperatures": (1.0, 0.5)}
        return run_toy(out, seed, **few, **options)

    monkeypatch.setattr("sbmc_studies.paper.toy.run.WARMUP_DRAWS", 30)
    run_toy = toy.run_toy
    monkeypatch.setattr(toy, "run_toy", small)
    code, output, _ = sbmc("run", "toy", "--seeds", "0,1", "--out", tmp_path, "--quiet")
    assert code == 0
    assert output.count("IACT") >= 2
    assert "IACT falls as s falls" in output
    assert (tmp_path / "toy" / "toy.png").stat().st_size > 1000
    assert len(list(tmp_path.rglob("record.json"))) == 2


def test_the_figure_is_drawn_from_records_or_refused(sbmc, tmp_path):
    code, _, errors = sbmc("figure", "mnist7", "--records", tmp_path)
    assert code == 2
    assert "`records`" in errors
    code, _, errors = sbmc("figure", "digits", "--records", tmp_path)
    assert code == 2
    assert "`sbmc run digits` makes one" in errors


def test_table_without_records_has_missing_cells_and_failing_claims(sbmc, tmp_path):
    code, output, _ = sbmc("table", "mnist7", "--records", tmp_path)
    assert code == 0
    assert "not rerun" in output
    assert "✓ S-HMC" not in output
    assert "missing" in output
    code, output, _ = sbmc("table", "digits", "--records", tmp_path, "--format", "markdown")
    assert code == 0
    assert output.startswith("| ")


def test_help_and_version(sbmc):
    for arguments in ([], ["--help"], ["run", "--help"]):
        code, output, errors = sbmc(*arguments)
        assert code == 0
        assert "Usage" in output
        assert errors == ""
    code, output, _ = sbmc("--version")
    assert code == 0
    assert output.startswith("sbmc 0.")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3", (3,)), ("0-4", (0, 1, 2, 3, 4)), ("0,2,5", (0, 2, 5)), ("1,0-2", (1, 0, 2))],
)
def test_numbers(text, numbers):
    assert parse_numbers("seeds", text) == numbers


def test_as_a_process(tmp_path):
    process = start(["run", "digits", "--method", "map", *TINY, "--quiet"], tmp_path)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "MAP" in output
    (path,) = records(tmp_path)
    assert read_record(path).outcome == "completed"


def test_as_a_new_interpreter(tmp_path):
    command = [sys.executable, "-m", "sbmc", "experiments"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "digits" in done.stdout


def test_ctrl_c_ends_a_real_run_with_one_line(tmp_path):
    # Training that would take minutes: no early stopping for a thousand epochs.
    slow = ["run", "digits", "--method", "map", "--set", "patience=1000", "--set", "batch_size=1"]
    with start(slow, tmp_path) as process:
        line = " "
        while line and "training" not in line:
            line = process.stderr.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("sbmc: interrupted")
    assert not records(tmp_path)


def test_table_is_written_into_a_page(sbmc, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- table: digits smc -->\n<!-- end: digits -->\n")
    code, output, _ = sbmc("table", "digits", "--records", tmp_path, "--write", page)
    assert code == 0
    assert "written" in output
    assert "| S-SMC∥, waste-free | 1 |" in page.read_text("utf-8")
    page.write_text("no marks")
    code, _, errors = sbmc("table", "digits", "--records", tmp_path, "--write", page)
    assert code == 2
    assert "`write` must be a page with" in errors
    code, _, errors = sbmc("table", "digits", "--records", tmp_path, "--write", tmp_path / "none")
    assert code == 2
    assert "an existing file" in errors
