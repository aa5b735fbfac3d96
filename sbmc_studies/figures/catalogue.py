"""All figures of an experiment by name, and the way from records to a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sbmc_studies.experiments.experiment import Experiment
from sbmc_studies.figures import (
    confusion,
    entropies,
    epochs,
    reliability,
    risk_coverage,
    roc,
    spider,
    thresholds,
)
from sbmc_studies.figures.measured import Measurements, read
from sbmc_studies.figures.style import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPOCHS = "epochs"
# Those of the meta-classifier: each draws the same measurements.
FIGURES: dict[str, Callable[[Measurements], Figure]] = {
    "roc": roc.draw,
    "thresholds": thresholds.draw,
    "confusion": confusion.draw,
    "risk-coverage": risk_coverage.draw,
    "reliability": reliability.draw,
    "entropies": entropies.draw,
    "spider": spider.draw,
}
NAMES = (EPOCHS, *FIGURES)


def draw_file(
    name: str,
    experiment: Experiment,
    records: Path,
    target: Path,
    *,
    protocol: str = "paper",
    methods: Sequence[str] | None = None,
) -> Path:
    """Draw a figure from the records into a PNG file.

    Args:
        name: one of `NAMES`.
        experiment: whose figure.
        records: the folder of all records.
        target: the picture's path.
        protocol: of the meta-classifier, `"paper"` or `"clean"`.
        methods: which ones to show; all that have records if not given.

    Returns:
        The picture's path.

    Raises:
        BadInput: if there are no such records, or one of the words is refused.
    """
    if name == EPOCHS:
        return epochs.draw_file(experiment, records, target)
    figure = FIGURES[name](read(experiment, records, protocol, methods))
    return save(figure, Path(target))
