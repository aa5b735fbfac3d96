"""A stranger's path: from a clone to a posterior on a network of one's own, by the README alone.

Nothing of this environment is used but the interpreter. `pip install sbmc` is done with the clone,
as no index has this state of the sources; torch comes first, in the build that the constraints
name. The lines of the README are run as they stand, with a network and data that are not its own.
"""

import subprocess
import sys
import time

import pytest
from repository import ROOT
from test_readme import README, blocks

# Installing torch takes most of it; on a slow connection it may take all of it.
LIMIT = 900

OWN_NETWORK = """
import torch
from torch import nn

torch.manual_seed(0)


class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 8, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, series):
        return self.head(self.lstm(series)[0][:, -1])


series = torch.randn(300, 6, 3)
rising = (series[:, -1] - series[:, 0]).sum(1) > 0
train, unseen = (series[:200], rising[:200].long()), (series[200:260], rising[200:260].long())
new = series[260:]
net = Mine()
optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(40):
    optimiser.zero_grad()
    nn.functional.cross_entropy(net(train[0]), train[1]).backward()
    optimiser.step()
"""

CHECK = """
assert prediction.probs.shape == (40, 2)
assert (prediction.epistemic >= -1e-9).all()
assert ask_a_person.dtype == torch.bool
print("health:", posterior.health)
"""


@pytest.mark.integration
def test_from_clone_to_a_posterior_on_ones_own_network(tmp_path):
    began = time.perf_counter()
    clone, python = tmp_path / "sbmc", tmp_path / "venv" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    install += ["-c", str(clone / "constraints.txt")]
    eight_lines = [block.code for block in blocks(README) if "sbmc.fit" in block.code]
    assert len(eight_lines) == 1
    program = tmp_path / "program.py"
    program.write_text(OWN_NETWORK + eight_lines[0] + CHECK, "utf-8")
    steps = {
        "clone": ["git", "clone", "--quiet", str(ROOT), str(clone)],
        "environment": [sys.executable, "-m", "venv", str(tmp_path / "venv")],
        "pip install torch": [*install, "torch"],
        "pip install sbmc": [*install, str(clone)],
        "the README's lines": [str(python), str(program)],
    }
    for name, command in steps.items():
        step = time.perf_counter()
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        print(f"{name}: {time.perf_counter() - step:.0f} s")
        assert done.returncode == 0, f"{name}:\n{done.stdout}\n{done.stderr}"
    assert "health: ok" in done.stdout
    assert (tmp_path / "mine.sbmc").stat().st_size > 0
    assert time.perf_counter() - began < LIMIT
