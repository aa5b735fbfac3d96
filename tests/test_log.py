"""`SBMC_LOG` shows what was chosen and why, with no change to the program."""

from __future__ import annotations

import re

import forked

PROGRAM = """
import torch
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.likelihoods import Categorical
from sbmc.model.parameters import select_parameters
from sbmc.target.engine import LikelihoodEngine
net = torch.nn.Linear(4, 3)
space = select_parameters(net)
x = torch.randn(6, 4)
data = Examples(x, torch.zeros(6, dtype=torch.int64))
forward = build_forward(net, space, x[:2])
LikelihoodEngine(forward, data, Categorical(), space.flatten(net)).settle()
"""


def shown(level):
    done = forked.run(["-c", PROGRAM], env={"SBMC_LOG": level}, check=True)
    return [line for line in done.stderr.splitlines() if line.startswith("sbmc ")]


def test_warning_says_nothing_of_it():
    assert shown("warning") == []


def test_info_says_which_kernel_runs():
    (line,) = (line for line in shown("info") if "native code" not in line)
    assert re.fullmatch(r"sbmc INFO: kernel: (head|linear \(.+\))", line)


def test_debug_shows_the_choice():
    text = "\n".join(shown("debug"))
    assert "model evaluated by the fused path" in text
    # In C where there is a compiler, in torch where there is none.
    (name,) = re.findall("kernel: (head|linear)", text)
    assert f"engine: fused path, {name} kernel, Chunks(" in text
