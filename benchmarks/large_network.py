"""Peak memory of a network of ten million parameters with ten particles, in a process of its own.

`python -m benchmarks.large_network` samples it by SGHMC on mini-batches within a limit of 4 GiB,
keeps the finished particles in bfloat16, predicts, and prints the peak of the process.
`--without-limit` shows what the same run takes when all particles are sampled together, and
`--islands 4` a run whose finished particles do not fit either: they are in a mapped file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GIB = 2**30
LIMIT = 4 * GIB
# Inputs, two hidden layers and classes: 10,035,510 parameters.
WIDTHS = (1000, 2500, 3000, 10)


def measure_large_network(
    *,
    islands: int = 1,
    particles: int = 10,
    epochs: int = 1,
    limit: int | None = LIMIT,
    dtype: str | None = None,
) -> dict[str, Any]:
    """Sample and predict in a child process.

    Args:
        islands: how many.
        particles: of each island.
        epochs: passes over the data.
        limit: bytes for the process; None for none.
        dtype: of the finished particles; the model's if None.

    Returns:
        `parameters`, `particles` of all islands, and the peaks in bytes: `before` the run, of
        `sampling` and of everything, `prediction` included; what was `expected`; and whether the
        posterior is `mapped`, in a file.
    """
    options = {
        "islands": islands,
        "particles": particles,
        "epochs": epochs,
        "limit": limit,
        "dtype": dtype,
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.large_network", "--child", json.dumps(options)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _measure_here(
    islands: int, particles: int, epochs: int, limit: int | None, dtype: str | None
) -> None:
    import torch
    from torch import nn

    import sbmc
    from benchmarks.peers.protocol import peak_bytes
    from sbmc.storage.mapped import is_mapped

    torch.manual_seed(0)
    pairs = list(pairwise(WIDTHS))
    layers = [layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())]
    model = nn.Sequential(*layers[:-1])
    inputs = torch.randn(100, WIDTHS[0])
    labels = torch.randint(WIDTHS[-1], (100,))
    before = peak_bytes()
    compute = sbmc.Compute(memory_limit=limit, store_dtype=dtype and getattr(torch, dtype))
    sampler = sbmc.SGHMC(epochs=epochs, batch_size=50, step_size=1e-3)
    posterior = sbmc.fit(
        model,
        (inputs, labels),
        sampler=sampler,
        islands=islands,
        particles=particles,
        compute=compute,
    )
    sampling = peak_bytes()
    prediction = posterior.predict(inputs, memory_limit=limit)
    assert bool(torch.isfinite(prediction.probs).all())
    found = {
        "parameters": posterior.positions.shape[-1],
        "particles": posterior.positions.shape[:2].numel(),
        "before": before,
        "sampling": sampling,
        "prediction": peak_bytes(),
        "expected": posterior.cost.expected_bytes,
        "mapped": is_mapped(posterior.positions),
    }
    print(json.dumps(found))


def main() -> None:
    """Print the peaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-limit", action="store_true", help="sample all at once")
    parser.add_argument("--islands", type=int, default=1, help="of ten particles each")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child is not None:
        _measure_here(**json.loads(chosen.child))
        return
    limit = None if chosen.without_limit else LIMIT
    for dtype in (None, "bfloat16"):
        found = measure_large_network(islands=chosen.islands, limit=limit, dtype=dtype)
        place = " on disk" if found["mapped"] else ""
        print(
            f"{found['parameters']:,} parameters, {found['particles']} particles, stored as "
            f"{dtype or 'float32'}{place}: peak {found['sampling'] / GIB:.2f} GiB of sampling, "
            f"{found['prediction'] / GIB:.2f} GiB with predictions "
            f"({found['expected'] / GIB:.2f} GiB expected, {found['before'] / GIB:.2f} before)"
        )


if __name__ == "__main__":
    main()
