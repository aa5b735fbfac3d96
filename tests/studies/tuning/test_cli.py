"""`sbmc tune` from a shell."""

import json
import re
import shlex

import pytest
from repository import ROOT

from sbmc_studies.commands import tune as command
from sbmc_studies.tuning.experiment import plan_tuning

TINY = ["--set", "max_epochs=3", "--set", "batch_size=256", "--set", "leapfrog=1", "--epochs", "2"]
TINY += ["--particles", "2", "--folds", "2", "--examples", "120"]
PAGE = ROOT / "docs" / "tuning.md"


def test_two_tables_a_record_and_a_command_to_run_next(sbmc, tmp_path):
    arguments = ("tune", "digits", *TINY, "--v", "0.03,0.3", "--s", "0,0.1", "--no-extend")
    code, output, errors = sbmc(*arguments)
    assert code == 0, errors
    assert "digits: MAP, held-out scores, mean ± standard error over 2 folds" in output
    assert "S-HMC∥ at v =" in output
    assert "Within one standard error of the smallest NLL: v =" in output
    assert "training ran into its limit of 3 epochs" in output
    assert "training, 2 values of v, 4 networks" in errors
    (record,) = tmp_path.rglob("tuning.json")
    assert record.relative_to(tmp_path).parts[:3] == ("runs", "digits", "tune")
    content = json.loads(record.read_text())
    assert content["complete"]
    assert content["data"]["name"] == "digits"
    assert len(content["cells"]) == 4 + 4
    # The command is one that `sbmc run` understands, with the values that were chosen.
    (line,) = re.findall(r"^  (sbmc run .*)$", output, re.MULTILINE)
    chosen = content["chosen"]
    assert f"--prior-variance {chosen['v']:g} --s 0.1" in line  # s = 0 is the MAP alone
    assert ("no epistemic uncertainty" in output) == (chosen["s"] == 0)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sbmc_studies.commands.run.run", lambda specs, *_, **__: seen.extend(specs))
        assert sbmc(*shlex.split(line)[1:])[0] == 0
    (spec,) = seen
    settings = spec.settings
    assert spec.method == "s-hmc"
    assert (settings["prior_variance"], settings["s"]) == (chosen["v"], 0.1)

    before = record.read_bytes()
    code, again, errors = sbmc(*arguments, "--quiet")
    assert (code, errors) == (0, "")
    assert again == output
    assert json.loads(record.read_bytes())["cells"] == json.loads(before)["cells"]


def test_dry_run_runs_nothing(sbmc, tmp_path):
    code, output, errors = sbmc("tune", "digits", *TINY, "--dry-run")
    assert code == 0, errors
    assert "14 networks of at most 3 epochs" in output
    assert "Then 12 fits of S-HMC∥, 2 epochs a chain" in output
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_says_that_the_same_command_continues(sbmc, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("sbmc_studies.commands.tune.run_tuning", interrupted)
    code, _, errors = sbmc("tune", "digits")
    assert code == 130
    assert errors == "sbmc: interrupted; every score so far is saved. The same command continues.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "`experiment` must be one of"),
        (["digits", "--v", "0"], "`v` must be positive and finite"),
        (["digits", "--v", "x"], "`v` must be numbers with commas"),
        (["digits", "--s", "2"], "`s` must be in [0, 1]"),
        (["digits", "--folds", "1"], "`folds` must be a whole number of at least 2"),
        (["digits", "--folds", "x"], "`folds`"),
        (["digits", "--seed", "-1"], "`seed`"),
        (["digits", "--examples", "0"], "`examples`"),
        (["digits", "--examples", "3"], "`folds` must be at most half"),
        (["digits", "--method", "hmc"], "`method` must be a sampler's method that has an s"),
        (["digits", "--method", "map"], "`method`"),
        (["digits", "--preset", "worst"], "`preset`"),
        (["digits", "--set", "s=0.1"], "`s` must be left out"),
        (["digits", "--set", "prior_variance=1"], "`prior_variance` must be left out"),
        (["digits", "--set", "split=0.1"], "`split` must be left out"),
        (["digits", "--set", "start=ensemble"], "`start` must be prior or anchor"),
        (["digits", "--set", "anchor=swa"], "`anchor` must be left out"),
        (["digits", "--set", "epochs=3", "--epochs", "4"], "`epochs` must be given once"),
        (["digits", "--set", "colour=3"], "`colour` must be a setting of s-hmc"),
    ],
)
def test_refusals_are_one_line(sbmc, tmp_path, arguments, words):
    code, output, errors = sbmc("tune", *arguments)
    assert (code, output) == (2, "")
    assert words in errors
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_folder_follows_from_all_settings_but_the_grids(tmp_path):
    usual = plan_tuning("digits").folder(tmp_path)
    assert plan_tuning("digits", v=[1.0], s=[0.1]).folder(tmp_path) == usual
    others = [
        plan_tuning("digits", folds=4), plan_tuning("digits", examples=100),
        plan_tuning("digits", method="s-smc"), plan_tuning("digits", preset="paper"),
        plan_tuning("digits", overrides={"particles": 3}), plan_tuning("digits", seed=1),
    ]  # fmt: skip
    assert len({usual, *(plan.folder(tmp_path) for plan in others)}) == 1 + len(others)


def test_commands_on_the_page_are_understood(sbmc, monkeypatch):
    monkeypatch.setattr(command, "run_tune", lambda plan, out, **options: 0)
    monkeypatch.setattr("sbmc_studies.commands.run.run", lambda specs, out, **options: 0)
    lines = re.findall(r"^(sbmc [^#\n]*)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        code, _, errors = sbmc(*shlex.split(line)[1:])
        assert code == 0, (line, errors)
