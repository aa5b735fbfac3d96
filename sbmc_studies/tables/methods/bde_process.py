"""Run as a file by a Python that has bde: fits the rows in a folder, and writes what it predicts.

It imports neither sbmc nor torch, which are not in that environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np


def main(folder: Path) -> None:
    """Read `rows.npz` and `settings.json`, and write `predicted.npz`."""
    settings = json.loads((folder / "settings.json").read_text("utf-8"))
    # One device for each member, as bde's documentation asks for; before JAX is imported.
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={settings['n_members']}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    from bde import BdeRegressor

    with np.load(folder / "rows.npz") as rows:
        inputs, targets, test = (
            rows[name] for name in ("train_inputs", "train_targets", "test_inputs")
        )
    began = time.perf_counter()
    model = BdeRegressor(**settings)
    model.fit(x=inputs, y=targets)
    seconds = time.perf_counter() - began
    # (members, draws, rows, 2): means, and what softplus makes a scale of.
    raw = np.asarray(model.predict(test, raw=True), dtype=np.float64).reshape(-1, len(test), 2)
    scales = np.logaddexp(0.0, raw[..., 1]) + 1e-6
    np.savez(folder / "predicted.npz", means=raw[..., 0], scales=scales, seconds=seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
