"""`sbmc card`: a posterior's file to a folder, and wrong options in one line."""

from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import metadata_load
from pretrained_cases import X, Y, classes, table

from sbmc import Distilled, Posterior


@pytest.fixture
def file(tmp_path):
    """A posterior of a small table, as `sbmc fit` writes it, and rows to ask it about."""
    rows = ["size,secret colour,label", "0.5,azure,high", "-0.2,crimson,low", "-1,azure,high"]
    (tmp_path / "test.csv").write_text("\n".join(rows), "utf-8")
    table().save(tmp_path / "my.sbmc")


def test_a_file_becomes_a_folder_with_metrics(sbmc, file, tmp_path):
    code, out, err = sbmc(
        "card", "my.sbmc", "--data", "test.csv", "--license", "mit", "--out", "shared",
        "--name", "Signs", "--any-health",
    )  # fmt: skip
    assert code == 0
    assert "shared: posterior.safetensors, config.json and README.md, with metrics" in out
    assert "health of the posterior" in err
    head = metadata_load(tmp_path / "shared" / "README.md")
    assert (head["license"], head["pipeline_tag"]) == ("mit", "tabular-classification")
    (entry,) = head["model-index"]
    assert entry["name"] == "Signs"
    assert entry["results"][0]["dataset"]["name"] == "test.csv"
    again = Posterior.from_pretrained(tmp_path / "shared")
    assert torch.equal(again.positions, table().positions)
    # The shell line of the card, with a file of weights as the posterior.
    code, out, _ = sbmc(
        "predict", "shared/posterior.safetensors", "--data", "test.csv", "--any-health"
    )
    assert code == 0
    assert "epistemic" in out


def test_without_data_there_are_no_metrics(sbmc, file, tmp_path):
    code, out, _ = sbmc("card", "my.sbmc", "--out", "shared", "--any-health")
    assert code == 0
    assert "without metrics; --data measures some" in out
    code, out, _ = sbmc("card", "my.sbmc", "--out", "shared", "--any-health", "--quiet")
    assert (code, out) == (0, "")
    (tmp_path / "shared" / "README.md").write_text("My own", "utf-8")
    code, _, err = sbmc("card", "my.sbmc", "--out", "shared", "--any-health")
    assert code == 2
    assert "README.md would be replaced" in err
    code, _, _ = sbmc("card", "my.sbmc", "--out", "shared", "--any-health", "--overwrite")
    assert code == 0


def test_a_distilled_network_becomes_a_folder(sbmc, tmp_path):
    distilled = classes().distil(steps=5)
    distilled.save(tmp_path / "small.safetensors")
    np.savez(tmp_path / "test.npz", inputs=X.numpy(), labels=Y.numpy())
    code, out, _ = sbmc(
        "card", "small.safetensors", "--data", "test.npz", "--targets", "labels", "--out", "shared"
    )
    assert code == 0
    assert "shared: distilled.safetensors, config.json and README.md, with metrics" in out
    again = Distilled.from_pretrained(tmp_path / "shared")
    assert torch.equal(again.predict(X).probs, distilled.predict(X).probs)
    # Commands that take posteriors alone say what it is.
    code, _, err = sbmc("drift", "small.safetensors", "--data", "test.npz")
    assert code == 2
    assert "but got 'small.safetensors', which has a distilled network. Give the posterior" in err


def test_other_commands_say_which_file_of_the_folder_they_take(sbmc, file, tmp_path):
    assert sbmc("card", "my.sbmc", "--out", "shared", "--any-health")[0] == 0
    code, _, err = sbmc("export", "shared", "--out", "a.pt2")
    assert code == 2
    weights = Path("shared") / "posterior.safetensors"
    assert f"but got the folder 'shared'. Give '{weights}'." in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gone.sbmc", "--out", "a"], "`file` must be a posterior's file that exists"),
        (["my.sbmc", "--out", "test.csv"], "`out` must be a folder, not a file"),
        (["my.sbmc", "--out", "a", "--data", "gone.csv"], "`data` must be a file or a folder"),
        (["my.sbmc", "--out", "a", "--level", "2"], "`level` must be"),
        (["my.sbmc", "--out", "a", "--name", " "], "`name` must be other than blank"),
        (["my.sbmc"], "`out` must be given"),
    ],
)
def test_wrong_options_are_refused_in_one_line(sbmc, file, tmp_path, arguments, words):
    code, _, err = sbmc("card", *arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "a").exists()
