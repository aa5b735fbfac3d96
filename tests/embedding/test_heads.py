"""From embeddings to a posterior over the head, in Python and from a shell."""

import json
import re
import shlex

import numpy as np
import pytest
import torch
from repository import ROOT
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.cli import main
from sbmc.embedding import Embedded, load_embedded, run_head
from sbmc.tuning.folds import make_folds

PAGE = ROOT / "docs" / "embedding.md"
QUICK = {"sampler": sbmc.HMC(steps=6, leapfrog=2), "particles": 4, "max_epochs": 60}


def clusters(count=200, width=6, shift=0.0):
    rng = torch.Generator().manual_seed(3)
    labels = torch.arange(count) % 3
    centres = 2 * torch.eye(3, width)
    inputs = centres[labels] + 0.6 * torch.randn(count, width, generator=rng) + shift
    return Embedded(inputs, labels, ("a", "b", "c"), tuple(map(str, range(count))), {"model": "x"})


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = main([str(each) for each in arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def test_it_learns_measures_and_saves(tmp_path):
    other = Embedded(clusters(40, shift=5.0).inputs)
    run = run_head(clusters(), ood={"far": other}, progress=False, **QUICK)
    ours, alone = run.metrics["posterior"], run.metrics["map"]
    assert ours["accuracy"] > 0.9
    assert alone["entropy.epistemic.id"] == 0
    assert ours["entropy.epistemic.id"] > 0
    assert ours["entropy.epistemic.ood.far"] > 0
    parts = run.record["data"]["examples"]
    assert parts["held_out"] == 40
    assert parts["train"] + parts["validation"] in (159, 160)
    folder = run.save(tmp_path)
    again = sbmc.load(folder / "posterior.sbmc", nn.Linear(6, 3))
    assert torch.equal(again.positions, run.posterior.positions)
    record = json.loads((folder / "head.json").read_text())
    assert record["metrics"]["posterior"]["accuracy"] == ours["accuracy"]
    assert record["data"]["checksum"] == clusters().checksum


def test_the_held_out_examples_decide_nothing():
    data = clusters()
    held = make_folds(data.labels, 5, seed=0)[0].held_out
    inputs = data.inputs.clone()
    inputs[held] = -inputs[held]
    spoilt = Embedded(inputs, data.labels, data.class_names)
    first, second = (run_head(each, progress=False, **QUICK) for each in (data, spoilt))
    assert torch.equal(first.posterior.positions, second.posterior.positions)
    assert second.metrics["posterior"]["accuracy"] < first.metrics["posterior"]["accuracy"]


def test_v_and_s_can_be_chosen():
    run = run_head(clusters(120), choose=True, progress=False, **{**QUICK, "max_epochs": 10})
    settings, tuning = run.record["settings"], run.record["tuning"]
    assert settings["chosen"]
    assert settings["v"] == tuning["chosen"]["v"]
    assert settings["s"] > 0  # s = 0 would be a posterior of one point
    assert settings["s"] in tuning["s_grid"]


@pytest.mark.parametrize(
    ("embedded", "options", "words"),
    [
        (Embedded(torch.eye(8)), {}, "`file` must be one with labels"),
        (clusters(), {"v": 0}, "`v` must be positive"),
        (clusters(), {"s": 2}, "`s` must be in [0, 1]"),
        (clusters(), {"held_out": 1}, "`held_out` must be an integer of at least 2, but got 1."),
        (clusters(), {"ood": {"x": Embedded(torch.eye(3))}}, "`ood` must be of the same width, 6"),
        (Embedded(torch.eye(8), torch.zeros(8).long(), ("a",)), {}, "of two classes or more"),
    ],
)
def test_refusals(embedded, options, words):
    with pytest.raises(BadInput) as refusal:
        run_head(embedded, progress=False, **{**QUICK, **options})
    assert words in str(refusal.value)


def test_two_commands_from_a_folder_to_a_posterior(command, tmp_path, monkeypatch):
    from embedding.stand_ins import Letters

    rng = np.random.default_rng(0)
    for kind in ("bad", "good"):
        (tmp_path / "reviews" / kind).mkdir(parents=True)
        for number in range(15):
            text = " ".join(rng.choice(["a", "b", "c"], 4))
            (tmp_path / "reviews" / kind / f"{number}.txt").write_text(f"{kind} {text}")
    monkeypatch.setattr("sbmc.embedding.TextEncoder", lambda model, **options: Letters())
    code, output, errors = command("embed", "text", "reviews", "--model", "folder", "--limit", 24)
    assert code == 0, errors
    assert "reviews.npz: 24 items, 6 features, classes: bad, good" in output
    assert load_embedded("reviews.npz").labels.tolist() == [0] * 12 + [1] * 12
    (line,) = re.findall(r"^  (sbmc head .*)$", output, re.MULTILINE)
    arguments = [*shlex.split(line)[1:], "--epochs", 5, "--max-epochs", 5, "--ood", "reviews.npz"]
    code, output, errors = command(*arguments)
    assert code == 0, errors
    assert "reviews.npz: 5 held-out examples" in output
    assert "S-HMC∥" in output
    assert "H_ep" in output
    (path,) = tmp_path.rglob("posterior.sbmc")
    assert path.relative_to(tmp_path).parts[:3] == ("runs", "reviews", "head")
    assert sbmc.load(path, nn.Linear(6, 2)).positions.shape == (1, 10, 14)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["embed", "text", "nothing", "--model", "x"], "`source` must be a folder or a file"),
        (
            ["embed", "text", ".", "--model", "x", "--limit", "0"],
            "`limit` must be a whole number of at least 1",
        ),
        (["embed", "text", ".", "--model", "x", "--max-tokens", "x"], "`max_tokens`"),
        (["embed", "text", "."], "`model` must be given"),
        (["embed", "images", ".", "--model", "resnet50"], "`source` must be a folder of pictures"),
        (["embed"], "`command` must be text or images (see `sbmc embed --help`), but got nothing"),
        (["embed", "sounds"], "`command` must be one of text, images, but got 'sounds'"),
        (["head", "nothing.npz"], "`file` must be an .npz file that exists"),
        (["head", "nothing.npz", "--v", "0,1"], "`v` must be one number"),
        (["head", "nothing.npz", "--particles", "0"], "`particles`"),
    ],
)
def test_refusals_are_one_line(command, arguments, words):
    code, output, errors = command(*arguments)
    assert (code, output) == (2, "")
    assert words in errors
    assert errors.count("\n") == 1


def test_ctrl_c_says_that_the_same_command_continues(command, tmp_path, monkeypatch):
    from embedding.stand_ins import Letters

    (tmp_path / "a.txt").write_text("x")
    monkeypatch.setattr("sbmc.embedding.TextEncoder", lambda model, **options: Letters(fail_at=1))
    code, _, errors = command("embed", "text", ".", "--model", "x", "--out", "a.npz", "--quiet")
    assert code == 130
    assert errors == "sbmc: interrupted; what is embedded is saved. The same command continues.\n"


def test_commands_on_the_page_are_understood(command, tmp_path, monkeypatch):
    class Anything:
        def __init__(self, *arguments, **options):
            self.about, self.batch_size = {}, 1

    for name in ("TextEncoder", "ImageEncoder", "read_texts", "read_pictures"):
        monkeypatch.setattr(f"sbmc.embedding.{name}", Anything)
    monkeypatch.setattr("sbmc.embedding.load_embedded", lambda path: None)
    monkeypatch.setattr("sbmc.cli.embed.run_embed", lambda *arguments: 0)
    monkeypatch.setattr("sbmc.cli.head.show_head", lambda *arguments: 0)
    lines = re.findall(r"^(sbmc [^#\n]*)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(lines) >= 4
    for line in lines:
        code, _, errors = command(*shlex.split(line)[1:])
        assert code == 0, (line, errors)
