"""A fit of a small network beside other work: what threads that wait for each other cost.

    python -m benchmarks.busy            beside two processes that do nothing but count
    python -m benchmarks.busy --loops 0  on the machine as it is

Each line is a process of its own with torch's default number of threads: with OpenMP's own policy
(threads spin while they wait), with `OMP_WAIT_POLICY=PASSIVE` (they sleep), and with one thread.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

FIT = """
import time, warnings
import torch
from torch import nn
import sbmc

warnings.simplefilter("ignore")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
data = torch.randn(400, 64), torch.randint(10, (400,))
sampler = sbmc.HMC(epochs=40)
began = time.perf_counter()
sbmc.fit(net, data, sampler=sampler, progress=False)
print(time.perf_counter() - began)
"""
POLICIES = {
    "spinning": {},
    "sleeping": {"OMP_WAIT_POLICY": "PASSIVE"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}


def seconds(variables: dict[str, str]) -> float:
    """How long the fit takes in a new process with these environment variables."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")}
    command = [sys.executable, "-c", FIT]
    done = subprocess.run(
        command, env={**clean, **variables}, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    """Measure each policy some times and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", type=int, default=2, help="processes that keep a core busy")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    busy: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(options.loops):
            busy.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        for name, variables in POLICIES.items():
            times = sorted(seconds(variables) for _ in range(options.repeats))
            print(f"{name:12}", "  ".join(f"{time:6.2f} s" for time in times), flush=True)
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
