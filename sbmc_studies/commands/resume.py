"""`sbmc resume`, `extend` and `merge`: runs that are gone on with, grown, put together."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, require
from sbmc_studies.commands.going_on import check_ground, go_on, require_writable
from sbmc_studies.commands.run import parse_numbers
from sbmc_studies.commands.show import show_comparison
from sbmc_studies.experiments.context import Workshop
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.runs.growing import extend_run, merge_runs, out_of
from sbmc_studies.runs.run_file import Journal, find_runs, read_journal
from sbmc_studies.runs.runner import Run


def resume(
    run: Path, changes: Mapping[str, Any], *, quiet: bool = False, debug: bool = False
) -> int:
    """Go on with a run, or with all runs below a folder that have not ended.

    Args:
        run: the folder.
        changes: options of `Execution` that are to be others now.
        quiet: show results only.
        debug: let unexpected errors through.

    Returns:
        The exit code: 1 if a run failed, 2 if one of several was refused, else 0.

    Raises:
        BadInput: there is no run; or the only one is refused.
    """
    folders = find_runs(_normal(run))
    begun = {folder: read_journal(folder) for folder in folders}
    left = {folder: journal for folder, journal in begun.items() if not journal.finished}
    if not left:
        many = "the run has" if len(begun) == 1 else "all runs have"
        print(f"{run}: {many} ended; nothing to go on with.")
        return 0
    shops: dict[str | None, Workshop] = {}
    runs: list[tuple[Path, Run]] = []
    refused = 0
    for folder, journal in left.items():
        try:
            done = _resume_one(folder, journal, changes, shops, quiet=quiet, debug=debug)
        except BadInput as error:
            if len(left) == 1:
                raise
            print(f"sbmc: {folder}: {error}", file=sys.stderr)
            refused += 1
            continue
        runs.append((out_of(folder), done))
    measured = [(out, done) for out, done in runs if done.record.outcome != "failed"]
    for name in dict.fromkeys(done.record.experiment for _, done in measured):
        own = [(out, done) for out, done in measured if done.record.experiment == name]
        show_comparison(get_experiment(name), [done for _, done in own], own[0][0])
    if refused:
        return 2
    return 1 if len(measured) < len(runs) else 0


def _resume_one(
    folder: Path,
    journal: Journal,
    changes: Mapping[str, Any],
    shops: dict[str | None, Workshop],
    **options: bool,
) -> Run:
    execution = Execution(**journal.execution).changed(**changes)
    workshop = shops.setdefault(journal.data_dir, _workshop(journal, options["quiet"]))
    return go_on(journal, out_of(folder), execution, workshop, **options)


def extend(
    run: Path,
    islands: str,
    changes: Mapping[str, Any],
    *,
    also_islands: str | None = None,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Add islands to a run that has ended; its own files stay as they are.

    Args:
        run: its folder.
        islands: how many in all, or `+` how many more.
        changes: options of `Execution` that are to be others now.
        also_islands: write records of the first so many islands as well.
        quiet: show results only.
        debug: let unexpected errors through.

    Returns:
        The exit code: 1 if the run failed, else 0.

    Raises:
        BadInput: the run is none that can be extended, or would not become larger.
    """
    folder = _normal(run)
    require_writable(out_of(folder))
    also = parse_numbers("also_islands", also_islands) if also_islands else ()
    old = read_journal(folder)
    execution = Execution(**old.execution).changed(**changes)
    rule = "one with a checkpoint, which `extend` needs"
    require(execution.keeps(), "run", rule, str(run))
    check_ground(old, _workshop(old, quiet))
    return _complete(extend_run(folder, islands, also), out_of(folder), execution, quiet, debug)


def merge(
    runs: Sequence[Path],
    out: Path,
    *,
    also_islands: str | None = None,
    data_dir: Path | None = None,
    confidence: bool = False,
    save_posterior: bool = False,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Put runs together that were made apart; nothing is sampled.

    Args:
        runs: their folders.
        out: folder of records for the result.
        also_islands: write records of the first so many islands as well.
        data_dir: where to look for data first.
        confidence: train and test the meta-classifier too.
        save_posterior: write the posterior beside the record.
        quiet: show results only.
        debug: let unexpected errors through.

    Returns:
        The exit code: 0.

    Raises:
        BadInput: they are no parts of one run.
    """
    require_writable(out)
    folders = [_normal(run) for run in runs]
    also = parse_numbers("also_islands", also_islands) if also_islands else ()
    own: dict[str, Any] = {"confidence": confidence, "save_posterior": save_posterior}
    if data_dir is not None:
        own["data_dir"] = str(data_dir)
    first = replace(read_journal(folders[0]), **own)
    check_ground(first, _workshop(first, quiet))
    journal = replace(merge_runs(folders, out, also), **own)
    return _complete(journal, out, Execution(), quiet, debug)


def _complete(journal: Journal, out: Path, execution: Execution, quiet: bool, debug: bool) -> int:
    workshop = _workshop(journal, quiet)
    done = go_on(journal, out, execution, workshop, quiet=quiet, debug=debug)
    if done.record.outcome == "failed":
        return 1
    show_comparison(get_experiment(journal.experiment), [done], out)
    return 0


def _workshop(journal: Journal, quiet: bool) -> Workshop:
    data_dir = None if journal.data_dir is None else Path(journal.data_dir)
    return Workshop(data_dir, progress=not quiet)


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))
