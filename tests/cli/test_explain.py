"""`sbmc explain` says the same as `sbmc.explain`, of a network that the command line names."""

import json
import sys

import numpy as np
import pytest
import torch

from sbmc.cli.explaining import made_up_inputs
from sbmc.cli.own_model import load_model

NETWORKS = """
import torch
from torch import nn

from sibling import WIDTH

net = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
number = 5


def factory():
    return nn.Linear(4, 2)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 8), nn.Linear(8, 2)

    def forward(self, words):
        return self.head(self.embed(words).mean(1))


def needs_an_argument(width):
    return nn.Linear(width, 2)


def makes_something_else():
    return "a network"
"""


@pytest.fixture
def networks(tmp_path, monkeypatch):
    """A file of networks, and one beside it that it imports; nothing is left of the imports."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    (tmp_path / "networks.py").write_text(NETWORKS, "utf-8")
    (tmp_path / "sibling.py").write_text("WIDTH = 6\n", "utf-8")
    (tmp_path / "broken.py").write_text("raise ArithmeticError('planted')\n", "utf-8")
    (tmp_path / "lacking.py").write_text("import no_such_package\n", "utf-8")
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in ("networks", "sibling", "broken", "lacking"):
            del sys.modules[name]


@pytest.mark.parametrize("reference", ["networks.py:net", "networks:net"])
def test_the_table_is_printed(sbmc, networks, reference):
    code, output, errors = sbmc("explain", reference, "--input-shape", "1x28x28")
    assert (code, errors) == (0, "")
    assert output.startswith("layer  operation  how\n1      linear")
    assert "path fused" in output
    assert "for 10 particles (measured on all 256 examples)" in output


def test_json_has_the_fields_of_the_explanation(sbmc, networks):
    code, output, _ = sbmc(
        *("explain", "networks.py:factory", "--input-shape", "4", "--json", "--particles", "3"),
        *("--examples", "20", "--path", "vmap", "--likelihood", "gaussian"),
    )
    found = json.loads(output)
    assert code == 0
    assert (found["path"], found["kernel"]) == ("vmap", None)
    assert (found["particles"], found["examples"]) == (3, 20)
    assert found["layers"] == [{"name": "weight", "kind": "linear", "way": "vmap"}]
    assert found["seconds_per_epoch"] > 0


def test_a_class_with_an_embedding_takes_tokens(sbmc, networks):
    shape = ("--input-shape", "12", "--tokens", "50")
    code, output, _ = sbmc("explain", "networks.py:Words", *shape, "--parameters", "last")
    assert code == 0
    assert "embedding" in output
    assert "frozen, computed once" in output


@pytest.mark.parametrize("names", [["inputs", "labels"], ["x"]])
def test_inputs_come_from_a_file(sbmc, networks, names):
    arrays = {name: np.zeros((30, 4)) for name in names}
    np.savez(networks / "train.npz", **arrays)
    code, output, errors = sbmc("explain", "networks.py:factory", "--data", "train.npz")
    assert (code, errors) == (0, "")
    assert "measured on all 30 examples" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["net", "--input-shape", "4"], "`model` must be FILE.py:NAME or package.module:NAME"),
        (["a.py:net", "--input-shape", "4"], "must be in a file that exists, but got 'a.py'"),
        (["no.such:net", "--input-shape", "4"], "installed or in this folder, or in a FILE.py"),
        (["networks.py:nte", "--input-shape", "4"], "but got 'nte'. Did you mean 'net'?"),
        (["networks.py:number", "--input-shape", "4"], "but got 'number', a int"),
        (["networks.py:needs_an_argument", "--input-shape", "4"], "makes one without arguments"),
        (["networks.py:makes_something_else", "--input-shape", "4"], "which makes a str"),
        (["broken.py:net", "--input-shape", "4"], "which raised ArithmeticError: planted"),
        (["broken:net", "--input-shape", "4"], "which raised ArithmeticError: planted"),
        (["lacking:net", "--input-shape", "4"], "No module named 'no_such_package'"),
        (["networks.py:net"], "`input_shape` must be given, or else --data"),
        (["networks.py:net", "--input-shape", "4", "--data", "a.npz"], "but got both"),
        (["networks.py:net", "--input-shape", "4by4"], "such as 1x28x28, but got '4by4'"),
        (["networks.py:net", "--input-shape", "0x4"], "such as 1x28x28, but got '0x4'"),
        (["networks.py:net", "--data", "a.npz"], "an .npz file that exists, but got 'a.npz'"),
        (["networks.py:net", "--data", "networks.py"], "`data` must be a readable .npz file"),
        (["networks.py:net", "--data", "others.npz"], "an array `inputs`, but got ['a', 'b']"),
        (["networks.py:net", "--data", "words.npz"], "of numbers, but got x of shape (2,)"),
        (["networks.py:net", "--data", "a.npz", "--tokens", "9"], "`tokens` must be left out"),
        (["networks.py:net", "--input-shape", "5"], "takes inputs of shape (256, 5)"),
        (["networks.py:net", "--input-shape", "5"], "Give its own with --input-shape"),
        (["networks.py:factory", "--input-shape", "4", "--particles", "0"], "`particles` must be"),
        (["networks.py:factory", "--input-shape", "4", "--path", "fast"], "`path` must be"),
        (["networks.py:factory", "--input-shape", "4", "--likelihood", "b"], "`likelihood` must"),
        (["networks.py:factory", "--input-shape", "4", "--parameters", "b$"], "`parameters` must"),
    ],
)
def test_what_is_wrong_is_one_line(sbmc, networks, arguments, message):
    np.savez(networks / "others.npz", a=np.zeros(2), b=np.zeros(2))
    np.savez(networks / "words.npz", x=np.array(["a", "b"]))
    code, output, errors = sbmc("explain", *arguments)
    assert (code, output) == (2, "")
    assert errors.startswith("sbmc: ")
    assert errors.count("\n") == 1
    assert message in errors


def test_a_file_that_fails_does_not_hide_a_module_of_its_name(networks):
    before = sys.modules["json"]
    (networks / "json.py").write_text("raise ArithmeticError\n", "utf-8")
    with pytest.raises(ValueError, match="ArithmeticError"):
        load_model(str(networks / "json.py:net"))
    assert sys.modules["json"] is before


def test_made_up_inputs_are_always_the_same():
    assert torch.equal(made_up_inputs("3x2", 4), made_up_inputs("3X2", 4))
    words = made_up_inputs("12", 100, tokens=7)
    assert (words.min(), words.max()) == (0, 6)
