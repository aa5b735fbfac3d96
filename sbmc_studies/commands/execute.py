"""Runs one spec for a command: says what begins, how to continue after a stop, and the outcome."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sbmc.checks import BadInput, require
from sbmc.cli.interruption import Interruption
from sbmc.islands.checkpoints import CheckpointError, open_store
from sbmc.islands.scheduler import Interrupted
from sbmc_studies.experiments.execution import CHECKPOINT
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.records.record import find_completed
from sbmc_studies.runs import runner
from sbmc_studies.runs.runner import Run


def execute(
    spec: RunSpec,
    out: Path,
    resources: Resources,
    *,
    force: bool = False,
    several: bool = False,
    quiet: bool = False,
    debug: bool = False,
) -> Run:
    """Run a spec, from its checkpoint if there is one, and print what happens.

    Args:
        spec: what to run.
        out: the folder of all records.
        resources: shared with other runs of this process.
        force: run from the beginning, even if a record or a checkpoint is there.
        several: whether the command makes other runs too.
        quiet: print only what goes wrong.
        debug: let unexpected errors through.

    Returns:
        The run.

    Raises:
        Interruption: there was Ctrl-C, and the run can be resumed.
        CheckpointError: a checkpoint could not be written.
        BadInput: the run is refused.
    """
    if not quiet:
        print(_first_line(spec, out, force), file=sys.stderr)
    with _explain_how_to_resume(spec, spec.folder(out), several):
        done = runner.run(spec, out, resources, force=force, debug=debug)
    _print_outcome(spec, done, quiet)
    return done


def _first_line(spec: RunSpec, out: Path, force: bool) -> str:
    islands = _islands_done(spec.folder(out))
    resumes = islands and not force and spec.execution.saves_checkpoints
    if resumes and find_completed(spec, out) is None:
        return f"{spec} ... continues; {islands} of {spec.islands} islands are done"
    return f"{spec} ..."


def _islands_done(folder: Path) -> int:
    """How many islands have ended, by the checkpoint of a run."""
    return len(open_store(folder / CHECKPOINT).names("island-"))


@contextmanager
def _explain_how_to_resume(spec: RunSpec, folder: Path, several: bool) -> Iterator[None]:
    """Add to the message of whatever stops a run how to resume it."""
    command = f"sbmc resume {shlex.quote(str(folder))}"
    resumable = get_method(spec.method).sampler is not None and spec.execution.saves_checkpoints
    try:
        yield
    except KeyboardInterrupt as error:
        if not resumable or not folder.exists():
            raise
        islands = error.done if isinstance(error, Interrupted) else _islands_done(folder)
        other = " the same command, or with this run alone" if several else ""
        raise Interruption(
            f"interrupted; {islands} of {spec.islands} islands are done. "
            f"Continue with{other}: {command}"
        ) from error
    except CheckpointError as error:
        raise CheckpointError(f"{error} Continue with: {command}") from error
    except BadInput as error:
        if "`checkpoint` must be of the same run" not in str(error):
            raise
        raise BadInput(f"{error} `sbmc run` with --force starts from the beginning.") from error


def _print_outcome(spec: RunSpec, done: Run, quiet: bool) -> None:
    record = done.record
    if record.outcome == "failed":
        message = f"sbmc: {spec} failed: {record.message} (record: {done.path})"
        print(message, file=sys.stderr)
        return
    if record.outcome == "partial":
        lost = sum(island["outcome"] != "completed" for island in record.islands)
        message = f"sbmc: {spec}: {lost} of {len(record.islands)} islands failed"
        print(f"{message} (record: {done.path})", file=sys.stderr)
    if not quiet:
        note = "reused (--force runs it again)" if done.reused else "written"
        print(f"{spec}: record {note}: {done.path}", file=sys.stderr)


def require_writable(out: Path) -> None:
    """Find out before a run whether its records could be written.

    Args:
        out: the folder of all records, which is made if it is not there.

    Raises:
        BadInput: they could not.
    """
    require(not out.is_file(), "out", "a folder", str(out))
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as file:
            file.write(b"sbmc")
    except OSError as error:
        rule = "a folder that can be written to"
        raise BadInput(f"`out` must be {rule}, but got {str(out)!r} ({error}).") from error
