"""Predictions as tables of pandas: a row for each example.

Columns of classes: `p_0`, `p_1`, ... (the probabilities), `label`, and the entropies `total`,
`aleatoric` and `epistemic`. Columns of numbers: `mean`, the variances `total`, `aleatoric` and
`epistemic`, and, if the particles are known, the ends `lower` and `upper` of an interval. With
several outputs or positions each column has their numbers behind it: `mean_0`, `mean_1`, ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from sbmc.storage.optional import load_pandas

if TYPE_CHECKING:
    from sbmc.prediction.base import BasePrediction

PARTS = ("total", "aleatoric", "epistemic")


def to_data_frame(prediction: BasePrediction, level: float) -> Any:
    """A prediction as a `pandas.DataFrame`.

    Args:
        prediction: of classes or numbers.
        level: of the intervals of numbers.

    Returns:
        The table, with the examples' numbers as its index.

    Raises:
        ImportError: pandas is not installed.
    """
    pandas = load_pandas()
    quantities: dict[str, Tensor] = {}
    probs = getattr(prediction, "probs", None)
    if probs is not None:
        quantities["p"] = probs
        quantities["label"] = prediction.labels  # type: ignore[attr-defined]
    else:
        quantities["mean"] = prediction.mean
    quantities |= {part: getattr(prediction, part) for part in PARTS}
    particles = prediction.particles
    if probs is None and particles is not None and particles.has_distribution:
        quantities["lower"], quantities["upper"] = prediction.interval(level)
    columns: dict[str, np.ndarray] = {}
    for name, values in quantities.items():
        columns |= _columns(name, values)
    return pandas.DataFrame(columns, index=pandas.RangeIndex(len(prediction), name="example"))


def _columns(name: str, values: Tensor) -> dict[str, np.ndarray]:
    array = values.detach().cpu().numpy()
    if array.ndim == 1 or (array.shape[1:] == (1,) and name != "p"):
        return {name: array.reshape(len(array))}
    indices = np.ndindex(*array.shape[1:])
    return {"_".join([name, *map(str, index)]): array[(slice(None), *index)] for index in indices}
