"""`sbmc figure`: a picture from the stored records."""

from __future__ import annotations

from pathlib import Path

from sbmc.checks import BadInput, nearest, require
from sbmc_studies.commands.completion import GAUNTLET
from sbmc_studies.commands.gauntlet import draw_ranks
from sbmc_studies.commands.options import RUNS, require_records
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.figures.catalogue import (
    EPOCHS,
    FIGURES,
    NAMES,
    SURE_UNSURE,
    WITH_PICTURES,
    draw_file,
    first_figure,
)
from sbmc_studies.records.stored import FOLDER, REPOSITORY, stored_records


def draw_figure(
    experiment: str,
    name: str | None,
    records: Path | None,
    *,
    out: Path | None = None,
    protocol: str | None = None,
    methods: str | None = None,
) -> None:
    """Draw one of an experiment's figures into a file and say where it is.

    Args:
        experiment: the experiment's name, or gauntlet, which has the figure `ranks`.
        name: one of `sbmc_studies.figures.catalogue.NAMES`; None for the first that it has.
        records: the folder of all records; None for the stored ones, or `runs` for pictures of
            single runs.
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
            ("name", None if name == "ranks" else name),
        ):
            require(
                value is None, option, "left out: the gauntlet has one figure, its ranks", value
            )
        draw_ranks(records or stored_records(), out or Path("gauntlet_ranks.png"))
        return
    study = get_experiment(experiment)
    name = name or first_figure(study)
    if name not in NAMES:
        raise BadInput(
            f"`name` must be one of {', '.join(NAMES)}, but got {name!r}." + nearest(name, NAMES)
        )
    if name == EPOCHS:
        for option, value in (("methods", methods), ("protocol", protocol)):
            rule = f"left out: the figure {EPOCHS} has curves of its own"
            require(value is None, option, rule, value)
    if name == SURE_UNSURE:
        rule = f"one of {' and '.join(WITH_PICTURES)} for the figure {SURE_UNSURE}"
        if experiment not in WITH_PICTURES:
            raise BadInput(
                f"`experiment` must be {rule}, which shows grey pictures, but got {experiment!r}. "
                f"`sbmc table {experiment}` prints its results."
            )
        require(protocol is None, "protocol", "left out: the figure shows one run", protocol)
    if records is None:
        records = RUNS if name == SURE_UNSURE else _stored(name)
    else:
        require_records(records)
    chosen = None
    if methods is not None:
        chosen = [each.strip() for each in methods.split(",") if each.strip()]
        require(bool(chosen), "methods", "at least one", methods)
    ending = "" if protocol in (None, "paper") else f"_{protocol}"
    target = out or Path(f"{experiment}_{name}{ending}.png")
    path = draw_file(name, study, records, target, protocol=protocol or "paper", methods=chosen)
    print(f"Picture: {path}")


def _stored(name: str) -> Path:
    """The stored records; those of the package have no arrays to draw confidences from."""
    if name in FIGURES and not (FOLDER.is_dir() or REPOSITORY.is_dir()):
        raise BadInput(
            f"`records` must be given for {name}, whose arrays are too large for the package, but "
            "got nothing. The repository has them: `git clone "
            f"https://github.com/sbmc-project/sbmc`, then `--records sbmc/{FOLDER.as_posix()}`."
        )
    return stored_records()
