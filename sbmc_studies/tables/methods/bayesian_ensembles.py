"""bde (Bayesian deep ensembles by microcanonical Langevin chains), in an environment of its own.

The package asks for versions of JAX and BlackJAX that other things here do not go with. So a Python
that has it is named by the environment variable SBMC_BDE_PYTHON, and runs `bde_process.py` as a
process. Settings are those of its published benchmark.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sbmc_studies.tables.methods import bde_process
from sbmc_studies.tables.methods.fitted import Fitted, NotSupported
from sbmc_studies.tables.recipe import Prepared

VARIABLE = "SBMC_BDE_PYTHON"
SETTINGS: dict[str, Any] = {
    "n_members": 10,
    "epochs": 1_000,
    "validation_split": 0.15,
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "patience": 20,
    "warmup_steps": 50_000,
    "n_samples": 1_000,
    "n_thinning": 10,
}


def bde(prepared: Prepared) -> Fitted:
    """A run with the settings of its benchmark, on all training rows: it sets rows aside itself."""
    split = prepared.split
    python = os.environ.get(VARIABLE, "").strip()
    if not Path(python).is_file():
        raise NotSupported(f"${VARIABLE} names no Python that has sklearn-contrib-bde")
    settings = SETTINGS | {"hidden_layers": list(prepared.hidden_layers), "seed": split.number}
    # The process has to predict before it ends, and test inputs are all that is predicted.
    means, scales, seconds = run_process(python, settings, prepared)

    def predict(inputs: np.ndarray) -> Any:
        if not np.array_equal(inputs, split.test_inputs):
            raise ValueError("`inputs` must be those of the test rows, which were predicted.")
        weights = torch.full((len(means),), 1 / len(means), dtype=torch.float64)
        return prepared.mixture(torch.from_numpy(means), torch.from_numpy(scales), weights)

    return Fitted(predict, seconds, {"settings": settings})


def run_process(
    python: str, settings: dict[str, Any], prepared: Prepared
) -> tuple[np.ndarray, np.ndarray, float]:
    """Fit and predict in another Python.

    Args:
        python: its path.
        settings: of `BdeRegressor`.
        prepared: the split; all its training rows are used, as bde sets rows aside itself.

    Returns:
        Means and scales `(draws, test rows)` of scaled targets, and the seconds of the fit.

    Raises:
        RuntimeError: the process failed.
    """
    split = prepared.split
    targets = prepared.target_scaler.transform(split.train_targets.reshape(-1, 1))  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="sbmc-bde-") as name:
        folder = Path(name)
        np.savez(
            folder / "rows.npz",
            train_inputs=prepared.scaled_inputs(split.train_inputs).numpy(),
            train_targets=targets[:, 0].astype(np.float32),
            test_inputs=prepared.scaled_inputs(split.test_inputs).numpy(),
        )
        (folder / "settings.json").write_text(json.dumps(settings), "utf-8")
        done = subprocess.run(
            [python, bde_process.__file__, name], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise RuntimeError(f"bde ended with code {done.returncode}: {last}")
        with np.load(folder / "predicted.npz") as found:
            return found["means"], found["scales"], float(found["seconds"])
