"""`sbmc figure`: a picture from the stored records."""

from __future__ import annotations

from pathlib import Path

from sbmc.checks import BadInput, nearest, require
from sbmc_studies.commands.completion import GAUNTLET
from sbmc_studies.commands.gauntlet import draw_ranks
from sbmc_studies.commands.options import require_records
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.figures.catalogue import EPOCHS, NAMES, draw_file


def draw_figure(
    experiment: str,
    name: str,
    records: Path,
    *,
    out: Path | None = None,
    protocol: str | None = None,
    methods: str | None = None,
) -> None:
    """Draw one of an experiment's figures into a file and say where it is.

    Args:
        experiment: the experiment's name, or gauntlet, which has the figure `ranks`.
        name: one of `sbmc_studies.figures.catalogue.NAMES`.
        records: the folder of all records.
        out: the file, which ends in `.png`, `.pdf` or `.svg`; a PNG named after the figure if not
            given.
        protocol: of the meta-classifier, `"paper"` if not given.
        methods: which ones to show, with commas; all that have records if not given.

    Raises:
        BadInput: if one of them is refused; the message has the nearest name.
    """
    if experiment == GAUNTLET:
        given = {"methods": methods, "protocol": protocol}
        for option, value in (
            *given.items(),
            ("name", None if name in (EPOCHS, "ranks") else name),
        ):
            require(
                value is None, option, "left out: the gauntlet has one figure, its ranks", value
            )
        draw_ranks(records, out or Path("gauntlet_ranks.png"))
        return
    study = get_experiment(experiment)
    if name not in NAMES:
        raise BadInput(
            f"`name` must be one of {', '.join(NAMES)}, but got {name!r}." + nearest(name, NAMES)
        )
    if name == EPOCHS:
        for option, value in (("methods", methods), ("protocol", protocol)):
            rule = f"left out: the figure {EPOCHS} has curves of its own"
            require(value is None, option, rule, value)
    require_records(records)
    chosen = None
    if methods is not None:
        chosen = [each.strip() for each in methods.split(",") if each.strip()]
        require(bool(chosen), "methods", "at least one", methods)
    ending = "" if protocol in (None, "paper") else f"_{protocol}"
    target = out or Path(f"{experiment}_{name}{ending}.png")
    path = draw_file(name, study, records, target, protocol=protocol or "paper", methods=chosen)
    print(f"Picture: {path}")
