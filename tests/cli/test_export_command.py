"""`sbmc export`: a posterior's file to a graph, and wrong options in one line."""

import json

import numpy as np
import pytest
import torch
from pretrained_cases import X, classes
from torch import nn

from sbmc.posterior.export.formats import METADATA_FILE


@pytest.fixture
def file(tmp_path):
    """A posterior of a small table with a column of text."""
    rng = np.random.default_rng(0)
    rows = [
        f"{a:.3f},{'red' if b > 0 else 'blue'},{a + b:.3f}" for a, b in rng.normal(size=(40, 2))
    ]
    (tmp_path / "train.csv").write_text("\n".join(["width,colour,price", *rows]), "utf-8")
    return tmp_path / "my.sbmc"


def test_a_table_goes_to_a_graph(sbmc, file):
    code, _, _ = sbmc(
        "fit", "--data", "train.csv", "--target", "price", "--hidden", "8", "--budget", "1",
        "--out", "my.sbmc", "--quiet", "--any-health",
    )  # fmt: skip
    assert code == 0
    code, out, err = sbmc(
        "export", "my.sbmc", "--to", "pt2", "--abstain", "deviation:0.5", "--any-health"
    )
    assert code == 0
    assert "my.pt2 (torch.export" in out
    assert "health of the posterior" in err
    extra = {METADATA_FILE: ""}
    program = torch.export.load(file.with_suffix(".pt2"), extra_files=extra).module()
    described = json.loads(extra[METADATA_FILE])
    assert described["outputs"][-1] == "abstain"
    assert "colour" in described["data"]
    answers = program(torch.zeros(4, 3, dtype=torch.float64))
    assert [len(part) for part in answers] == [4] * len(described["outputs"])


def test_the_file_of_a_distilled_network_goes_to_a_graph_too(sbmc, tmp_path):
    distilled = classes().distil(steps=5)
    distilled.save(tmp_path / "small.safetensors")
    code, out, err = sbmc("export", "small.safetensors", "--to", "pt2")
    assert code == 0
    assert "small.pt2 (torch.export" in out
    assert "health of the posterior that it was distilled from: ok" in err
    program = torch.export.load(tmp_path / "small.pt2").module()
    torch.testing.assert_close(
        program(X)[0].double(), distilled.predict(X).probs, rtol=0, atol=1e-5
    )


def test_a_student_of_the_users_own_and_a_teacher_that_is_not_ok(sbmc, tmp_path):
    (tmp_path / "net.py").write_text("from torch import nn\nnet = nn.Linear(3, 3)\n", "utf-8")
    distilled = classes().distil(nn.Linear(3, 3), steps=5)
    distilled.settings["health"] = "not ok: planted."
    distilled.save(tmp_path / "small.safetensors")
    code, _, err = sbmc("export", "small.safetensors", "--to", "pt2")
    assert code == 2
    assert "`model` must be the module that the student was trained from" in err
    given = ("export", "small.safetensors", "--to", "pt2", "--model", "net.py:net")
    code, _, err = sbmc(*given)
    assert code == 3
    assert "not ok: planted." in err
    assert sbmc(*given, "--any-health")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to", "onxx"], "`to` must be one of onnx, pt2, but got 'onxx'. Did you mean 'onnx'"),
        (["--to", "onnx", "--out", "a.pt2"], "`out` must be a file whose name ends in .onnx"),
        (["--abstain", "epistemic"], "such as epistemic:0.2, but got 'epistemic'"),
        (["--abstain", "epistemic:much"], "`abstain` must be"),
        (["--level", "half"], "`level` must be"),
        (["--out", "gone/a.onnx"], "`out` must be a file in an existing folder"),
        (["--out", "a.onnx"], "`file` must be a posterior's file that exists"),
    ],
)
def test_wrong_options_are_refused_in_one_line(sbmc, arguments, words):
    code, _, err = sbmc("export", "none.sbmc", *arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
