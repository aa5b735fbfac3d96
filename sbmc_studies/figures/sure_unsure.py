"""The picture of the demo: inputs that the ensemble is most sure and most unsure about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput
from sbmc.report.pictures import new_picture, write_picture
from sbmc.report.theme import light_theme
from sbmc_studies.experiments.methods import method_label
from sbmc_studies.runs.examples import FILE, Shown, read_examples

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(sure: Shown, unsure: Shown, method: str) -> Figure:
    """Draw the two rows.

    Args:
        sure: the upper row.
        unsure: the lower row.
        method: whose opinion it is, for the title.

    Returns:
        A matplotlib figure.

    Raises:
        BadInput: if matplotlib is not installed.
    """
    columns = max(len(sure), len(unsure))
    figure = new_picture(1.45 * columns, 5.2)
    figure.suptitle(f"What {method} is sure and unsure about", fontsize=15)
    rows: Any = figure.subfigures(2, 1)
    top, bottom = rows
    _draw_row(top, sure, columns, "Most sure: for each label, the input of least H_ep", "c0")
    title = "Most unsure: in each group, the inputs of most H_ep"
    _draw_row(bottom, unsure, columns, title, "c1")
    return figure


def _draw_row(figure: Any, shown: Shown, columns: int, title: str, colour: str) -> None:
    ink = light_theme()[colour]
    figure.suptitle(title, fontsize=12, color=ink, fontweight="bold")
    for index, axes in enumerate(figure.subplots(1, columns)):
        if index >= len(shown):
            axes.set_axis_off()
            continue
        axes.imshow(shown.images[index], cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set(color=ink, linewidth=2)
        axes.set_title(f"{shown.truths[index]}", fontsize=11)
        axes.set_xlabel(
            f"“{shown.labels[index]}”, {shown.confidences[index]:.0%}\n"
            f"H_ep {shown.epistemics[index]:.2f}",
            fontsize=10,
        )


def draw_run(
    experiment: str, records: Path, target: Path, methods: Sequence[str] | None = None
) -> Path:
    """Draw the picture of one of the runs in a folder of records.

    Args:
        experiment: the experiment's name.
        records: the folder of all records.
        target: the picture's path.
        methods: whose run, the first of them that has one; S-HMC∥ or else any if not given.

    Returns:
        The picture's path.

    Raises:
        BadInput: no run has its inputs beside its record.
    """
    # Of each method the run with the least seed.
    folders = sorted((path.parent for path in (records / experiment).rglob(FILE)), reverse=True)
    runs = {folder.relative_to(records).parts[1]: folder for folder in folders}
    for method in methods or ("s-hmc", *runs):
        if method in runs:
            return draw_file(runs[method], target, method_label(method))
    wanted = f" --method {','.join(methods)}" if methods else ""
    raise BadInput(
        f"`records` must have a run of {experiment} with its pictures, which stay on the machine "
        f"that made them, but got {str(records)!r}. `sbmc run {experiment}{wanted}` makes one."
    )


def draw_file(folder: Path, target: Path, method: str) -> Path:
    """Draw the picture of a stored run into a file.

    Args:
        folder: the record's folder.
        target: the picture's path.
        method: whose opinion it is, for the title.

    Returns:
        The picture's path.
    """
    return write_picture(draw(*read_examples(folder), method), Path(target))
