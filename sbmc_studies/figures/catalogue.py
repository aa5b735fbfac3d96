"""All figures of an experiment by name, and the way from records to a picture file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sbmc.checks import BadInput
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc.report.pictures import check_format, draw_picture, write_picture
from sbmc_studies.experiments.experiment import Experiment
from sbmc_studies.figures import (
    confusion,
    entropies,
    epochs,
    reliability,
    risk_coverage,
    roc,
    spider,
    sure_unsure,
    thresholds,
)
from sbmc_studies.figures.comparison import PAPER, Comparison, read_comparison
from sbmc_studies.records.finding import RunsInFolder

EPOCHS, SURE_UNSURE = "epochs", "sure-unsure"
WITH_PICTURES = ("digits", "mnist7")  # whose runs keep inputs to show
# The figures of the meta-classifier, all from one comparison.
FIGURES: dict[str, Callable[[Comparison, Limits], list[Figure]]] = {
    "roc": roc.build,
    "thresholds": thresholds.build,
    "confusion": confusion.build,
    "risk-coverage": risk_coverage.build,
    "reliability": reliability.build,
    "entropies": entropies.build,
    "spider": spider.build,
}
NAMES = (EPOCHS, SURE_UNSURE, *FIGURES)
# A picture has more room than a page on a phone.
PICTURE_LIMITS = Limits(points=201)


def draw_file(
    name: str,
    experiment: Experiment,
    records: Path,
    target: Path,
    *,
    protocol: str = PAPER,
    methods: Sequence[str] | None = None,
) -> Path:
    """Draw a figure from the records into a file.

    Args:
        name: one of `NAMES`.
        experiment: whose figure.
        records: the folder of all records.
        target: the picture's path, which ends in `.png`, `.pdf` or `.svg`.
        protocol: of the meta-classifier, `"paper"` or `"clean"`.
        methods: which ones to show; all that have records if not given.

    Returns:
        The picture's path.

    Raises:
        BadInput: if there are no such records, or an argument is refused.
    """
    check_format(target)
    if name == EPOCHS:
        figures, heading = _epochs(experiment, records), experiment.name
    elif name == SURE_UNSURE:
        return sure_unsure.draw_run(experiment.name, records, target, methods)
    else:
        comparison = read_comparison(experiment, records, protocol, methods)
        figures, heading = FIGURES[name](comparison, PICTURE_LIMITS), comparison.heading()
    return write_picture(draw_picture(figures, heading), target)


def first_figure(experiment: Experiment) -> str:
    """The figure that an experiment is shown by if none is named.

    Examples:
        >>> from sbmc_studies.experiments.experiment import get_experiment
        >>> [first_figure(get_experiment(name)) for name in ("mnist7", "imdb", "digits")]
        ['epochs', 'roc', 'sure-unsure']
    """
    if experiment.curves.get(EPOCHS):
        return EPOCHS
    return "roc" if experiment.confidence_rows else SURE_UNSURE


def _epochs(experiment: Experiment, records: Path) -> list[Figure]:
    if not experiment.curves.get(EPOCHS):
        raise BadInput(
            f"`name` must be a figure that {experiment.name} has ({SURE_UNSURE}; of runs made with "
            f"--confidence {', '.join(FIGURES)}), but got {EPOCHS!r}."
        )
    series = epochs.find_series(experiment, RunsInFolder(records, experiment.name))
    if not series:
        raise BadInput(
            f"`records` must hold runs of the figure {EPOCHS}, but got {str(records)!r}."
        )
    return epochs.build(experiment.name, series, PICTURE_LIMITS)
