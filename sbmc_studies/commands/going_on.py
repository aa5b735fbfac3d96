"""What a run that was stopped says, and how it is gone on with."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sbmc.checks import BadInput, require
from sbmc.cli.interruption import Interruption
from sbmc.islands.checkpoints import CheckpointError, open_store
from sbmc.islands.scheduler import Interrupted
from sbmc.storage.provenance import software_versions
from sbmc_studies.experiments.context import Workshop
from sbmc_studies.experiments.execution import CHECKPOINT, Execution
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import Method, get_method
from sbmc_studies.records.record import Record
from sbmc_studies.runs.run_file import Journal
from sbmc_studies.runs.runner import Run, run_study


def islands_done(folder: Path) -> int:
    """How many islands of a run have ended, in its checkpoint."""
    return len(open_store(folder / CHECKPOINT).names("island-"))


@contextmanager
def saying_how(
    folder: Path, method: Method, islands: int, execution: Execution, several: bool = False
) -> Iterator[None]:
    """Say in the words of whatever stops a run how to go on with it.

    Args:
        folder: of the run.
        method: what is run.
        islands: how many it has.
        execution: how they are run.
        several: whether the command has other runs to make.

    Raises:
        Interruption: there was Ctrl-C, and there is something to go on from.
        CheckpointError: the same for a disk that is full.
        BadInput: a checkpoint of something else is in the way.
    """
    command = f"sbmc resume {shlex.quote(str(folder))}"
    keeps = method.sampler is not None and execution.keeps()
    try:
        yield
    except KeyboardInterrupt as error:
        if not keeps or not folder.exists():
            raise
        done = error.done if isinstance(error, Interrupted) else islands_done(folder)
        other = " the same command, or with this run alone" if several else ""
        how = f"Go on with{other}: {command}"
        words = f"interrupted; {done} of {islands} islands are done. {how}"
        raise Interruption(words) from error
    except CheckpointError as error:
        raise CheckpointError(f"{error} Go on with: {command}") from error
    except BadInput as error:
        if "`checkpoint` must be of the same run" not in str(error):
            raise
        raise BadInput(f"{error} `sbmc run` with --force begins anew.") from error


def check_ground(journal: Journal, workshop: Workshop) -> None:
    """Refuse other data or other versions than a run began with.

    Raises:
        BadInput: they differ; the difference is named.
    """
    data = workshop.data(get_experiment(journal.experiment), journal.seed)
    own = {"name": data.name, "checksum": data.checksum}
    journal.require_same_ground(own, software_versions())


def go_on(
    journal: Journal,
    out: Path,
    execution: Execution,
    workshop: Workshop,
    *,
    quiet: bool = False,
    debug: bool = False,
) -> Run:
    """Run what is left of a run, and say what came of it.

    Args:
        journal: what was asked for.
        out: the folder of all records.
        execution: how islands are run.
        workshop: shared with other runs of this process.
        quiet: say nothing but what went wrong.
        debug: let unexpected errors through.

    Returns:
        The run.

    Raises:
        BadInput: the data or the versions are not those that it began with.
    """
    check_ground(journal, workshop)
    experiment, method = get_experiment(journal.experiment), get_method(journal.method)
    folder, islands = journal.place(out), journal.settings["islands"]
    if not quiet:
        name = f"{experiment.name} {method.name} seed {journal.seed}"
        known = f" going on: {islands_done(folder)} of {islands} islands are done"
        print(f"{name} ...{known if method.sampler else ''}", file=sys.stderr)
    with saying_how(folder, method, islands, execution):
        done = run_study(
            experiment,
            method,
            journal.settings,
            journal.seed,
            out,
            also_islands=journal.also_islands,
            confidence=journal.confidence,
            save_posterior=journal.save_posterior,
            workshop=workshop,
            execution=execution,
            debug=debug,
        )
    if done.reused:
        journal.finish(folder)  # it was stopped between its record and this line
    say(done, quiet=quiet)
    return done


def say(done: Run, quiet: bool) -> None:
    """Say on standard error what came of a run; if `quiet`, only what went wrong."""
    record: Record = done.record
    where = f"{record.experiment} {record.method} seed {record.seed}"
    if record.outcome == "failed":
        print(f"sbmc: {where} failed: {record.message} (record: {done.path})", file=sys.stderr)
        return
    if record.outcome == "partial":
        lost = sum(island["outcome"] != "completed" for island in record.islands)
        text = (
            f"sbmc: {where}: {lost} of {len(record.islands)} islands failed (record: {done.path})"
        )
        print(text, file=sys.stderr)
    if not quiet:
        note = "reused (--force runs it again)" if done.reused else "written"
        print(f"{where}: record {note}: {done.path}", file=sys.stderr)


def require_writable(out: Path) -> None:
    """Find out before a run whether its records could be written.

    Raises:
        BadInput: they could not.
    """
    import tempfile

    require(not out.is_file(), "out", "a folder", str(out))
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as file:
            file.write(b"sbmc")
    except OSError as error:
        rule = "a folder that can be written to"
        raise BadInput(f"`out` must be {rule}, but got {str(out)!r} ({error}).") from error
