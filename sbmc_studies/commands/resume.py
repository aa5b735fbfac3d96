"""`sbmc resume`, `extend` and `merge`: runs that are continued, grown, or put together."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, require
from sbmc.storage.provenance import software_versions
from sbmc_studies.commands.execute import execute, require_writable
from sbmc_studies.commands.options import parse_numbers
from sbmc_studies.commands.ranks import on_first_rank
from sbmc_studies.commands.show import show_comparison
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec, records_folder
from sbmc_studies.runs.growing import extend_run, merge_runs
from sbmc_studies.runs.measuring import describe_data
from sbmc_studies.runs.run_file import RunFile, find_runs, read_run_file
from sbmc_studies.runs.runner import Run


def resume(
    run: Path, changes: Mapping[str, Any], *, quiet: bool = False, debug: bool = False
) -> int:
    """Continue a run, or all runs below a folder that have not ended.

    Args:
        run: the folder.
        changes: options of `Execution` that are to be others now.
        quiet: show results only.
        debug: let unexpected errors through.

    Returns:
        The exit code: 1 if a run failed, 2 if one of several was refused, else 0.

    Raises:
        BadInput: there is no run, or the only one is refused.
    """
    run_files = {folder: read_run_file(folder) for folder in find_runs(_normal(run))}
    unfinished = {folder: each for folder, each in run_files.items() if not each.finished}
    if not unfinished:
        subject = "the run has" if len(run_files) == 1 else "all runs have"
        print(f"{run}: {subject} ended; there is nothing to continue.")
        return 0
    unfinished = {folder: _with_changes(each, changes) for folder, each in unfinished.items()}
    shards = next(iter(unfinished.values())).spec.execution.shards
    return on_first_rank(lambda: _resume_all(unfinished, quiet=quiet, debug=debug), shards)


def _resume_all(unfinished: Mapping[Path, RunFile], *, quiet: bool, debug: bool) -> int:
    resources = Resources(progress=not quiet)
    runs: list[tuple[Path, Run]] = []
    refused = 0
    for folder, run_file in unfinished.items():
        try:
            _require_same_origin(run_file, resources)
            out = records_folder(folder)
            done = execute(run_file.spec, out, resources, quiet=quiet, debug=debug)
        except BadInput as error:
            if len(unfinished) == 1:
                raise
            print(f"sbmc: {folder}: {error}", file=sys.stderr)
            refused += 1
            continue
        if done.reused:
            run_file.finish(folder)  # it was killed after it wrote its record and before this
        runs.append((out, done))
    measured = [(out, done) for out, done in runs if done.record.outcome != "failed"]
    for name in dict.fromkeys(done.record.experiment for _, done in measured):
        same = [(out, done) for out, done in measured if done.record.experiment == name]
        show_comparison(get_experiment(name), [done for _, done in same], same[0][0])
    if refused:
        return 2
    return 1 if len(measured) < len(runs) else 0


def extend(
    run: Path,
    islands: str,
    changes: Mapping[str, Any],
    *,
    also_islands: str | None = None,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Add islands to a run that has ended; the files of that run stay as they are.

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
        BadInput: the run cannot be extended, or would not become larger.
    """
    folder = _normal(run)
    also = parse_numbers("also_islands", also_islands)
    # Reading it refuses folders that are no run's, and those are in no folder of records.
    run_file = _with_changes(read_run_file(folder), changes)
    out = records_folder(folder)
    execution = run_file.spec.execution
    rule = "one with a checkpoint, which `extend` needs"
    require(execution.saves_checkpoints, "run", rule, str(run))

    def extend_here() -> int:
        require_writable(out)
        resources = Resources(progress=not quiet)
        _require_same_origin(run_file, resources)
        spec = replace(extend_run(folder, islands, also), execution=execution)
        return _execute_and_show(spec, out, resources, quiet=quiet, debug=debug)

    return on_first_rank(extend_here, execution.shards)


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
        The exit code: 1 if the run failed, else 0.

    Raises:
        BadInput: they are no parts of one run.
    """
    require_writable(out)
    folders = [_normal(run) for run in runs]
    changes: dict[str, Any] = {
        "also_islands": parse_numbers("also_islands", also_islands),
        "confidence": confidence,
        "save_posterior": save_posterior,
        "execution": Execution(),
    }
    first = read_run_file(folders[0])
    if data_dir is not None:
        changes["data_dir"] = str(data_dir.absolute())
        first = replace(first, spec=replace(first.spec, data_dir=changes["data_dir"]))
    resources = Resources(progress=not quiet)
    _require_same_origin(first, resources)
    spec = merge_runs(folders, out, **changes)
    return _execute_and_show(spec, out, resources, quiet=quiet, debug=debug)


def _with_changes(run_file: RunFile, changes: Mapping[str, Any]) -> RunFile:
    """The same run, computed in another way."""
    execution = run_file.spec.execution.changed(**changes)
    return replace(run_file, spec=replace(run_file.spec, execution=execution))


def _require_same_origin(run_file: RunFile, resources: Resources) -> None:
    """Refuse other data or other versions than a run was begun with."""
    data = describe_data(resources.data(run_file.spec))
    run_file.require_same_origin(data, software_versions())


def _execute_and_show(spec: RunSpec, out: Path, resources: Resources, **options: bool) -> int:
    done = execute(spec, out, resources, **options)
    if done.record.outcome == "failed":
        return 1
    show_comparison(get_experiment(spec.experiment), [done], out)
    return 0


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))
