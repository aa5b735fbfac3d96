"""The run file: what a run was asked to do, written when it begins, so that it can be resumed.

OUT/<experiment>/<method>/<hash>/seed-<k>/
    run.json                 the run file
    trained-*.safetensors    networks that the run starts from
    checkpoint/              snapshots and results of its islands
    record.json              what it cost and measured
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, Phrase, require
from sbmc.islands.checkpoints import differences, locked, open_store
from sbmc.storage.files import mismatch, parse_json
from sbmc_studies.experiments.execution import CHECKPOINT
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.records.record import RECORD, read_record

NAME = "run.json"
TRAINED = "trained-*.safetensors"
CHECKPOINT_FILES = ("manifest.json", "pilot.json", "batch-*.*", "island-*.*", ".*.part")
FORMAT = "sbmc-run"
VERSION = 1
# The packages whose versions decide the last bits of a result.
_DECISIVE = ("sbmc", "torch")


@dataclass(frozen=True)
class RunFile:
    """The content of a run file: the spec of a run, and what it was begun with.

    Attributes:
        spec: what is run.
        data: `name` and `checksum` of the data set.
        versions: of the packages that computed it.
        finished: whether its record is written and complete.
    """

    spec: RunSpec
    data: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    finished: bool = False

    def to_json(self) -> dict[str, Any]:
        """The content of the file: the keys of the spec, then those of the run file."""
        return {
            "format": FORMAT,
            "version": VERSION,
            **self.spec.to_json(),
            "data": self.data,
            "versions": self.versions,
            "finished": self.finished,
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> RunFile:
        """Read what `to_json` made, without its format and version.

        Raises:
            BadInput: a key is unknown or missing, or has a value of another type.
        """
        names = ("data", "versions", "finished")
        values = {name: content[name] for name in names if name in content}
        wrong = mismatch(cls, {"spec": None, **values})
        require(not wrong, "run", "as `sbmc run` wrote it", Phrase(f"a file where {wrong}"))
        spec = {name: value for name, value in content.items() if name not in names}
        return cls(RunSpec.from_json(spec), **values)

    def write(self, folder: Path) -> None:
        """Write the file; it is either complete or not there.

        Args:
            folder: the run's, which is made if it is not there.

        Raises:
            CheckpointError: it could not be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        open_store(folder).write(NAME, (json.dumps(self.to_json(), indent=1) + "\n").encode())

    def finish(self, folder: Path) -> None:
        """Note that the record is complete."""
        if not self.finished:
            replace(self, finished=True).write(folder)

    def require_same_origin(self, data: dict[str, Any], versions: dict[str, str]) -> None:
        """Refuse to resume a run with other data or other versions than it was begun with.

        Args:
            data: `checksum` of the data that are here now.
            versions: of the packages that are here now.

        Raises:
            BadInput: they differ; the message names the difference.
        """
        old = {"versions": _decisive(self.versions), "data": self.data.get("checksum")}
        new = {"versions": _decisive(versions), "data": data.get("checksum")}
        known = {name: old[name] for name in old if old[name]}
        differing = differences(known, {name: new[name] for name in known})
        given = Phrase(f"one where {'; '.join(differing)}")
        require(not differing, "run", "one of the same data and versions", given)


def _decisive(versions: dict[str, str]) -> dict[str, str]:
    known = {name: versions[name] for name in _DECISIVE if name in versions}
    return {name: version.partition("+")[0] for name, version in known.items()}


def read_run_file(folder: Path) -> RunFile:
    """Read the run file of a folder; a folder with only a record has one made from that.

    Args:
        folder: such as runs/digits/s-hmc/1c3235eaf985/seed-0.

    Returns:
        The content.

    Raises:
        BadInput: there is no run, the file is damaged, or the folder was moved.
    """
    path = folder / NAME
    if not path.exists():
        require((folder / RECORD).exists(), "run", f"a folder with a {NAME}", str(folder))
        return _from_record(folder)
    try:
        content = parse_json(path.read_text("utf-8"))
        kind = content.pop("format"), content.pop("version")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"`run` must have a readable {NAME}, but got {path}: {error}.") from error
    given = Phrase(f"{path} of {kind[0]} version {kind[1]}")
    require(kind == (FORMAT, VERSION), "run", f"of format {FORMAT} version {VERSION}", given)
    try:
        run_file = RunFile.from_json(content)
        expected = run_file.spec.folder(Path()).parts
    except ValueError as error:  # also of settings with NaN or infinity, which JSON does not have
        raise BadInput(f"`run` must have a valid {NAME}, but got {path}: {error}") from error
    moved = folder.resolve().parts[-len(expected) :] != expected
    rule = f"at {'/'.join(expected)}, which its settings name"
    require(not moved, "run", rule, Phrase(f"{folder}: it was moved or edited"))
    return run_file


def _from_record(folder: Path) -> RunFile:
    record = read_record((folder / RECORD).resolve())
    spec = RunSpec(record.experiment, record.method, record.settings, record.seed)
    return RunFile(spec, record.data, record.versions, finished=record.outcome == "completed")


def find_runs(folder: Path) -> list[Path]:
    """The run in a folder, or all runs below it that have a run file, sorted by path.

    Args:
        folder: of one run, or above several.

    Returns:
        The folders of runs; an empty list if there are only records.

    Raises:
        BadInput: there is neither a run nor a record.
    """
    require(folder.is_dir(), "run", "an existing folder", str(folder))
    if any((folder / name).exists() for name in (NAME, RECORD)):
        return [folder]
    runs = {path.parent for path in folder.rglob(NAME)}
    rule = f"the folder of a run, with a {NAME}, or one above such folders"
    require(bool(runs) or any(folder.rglob(RECORD)), "run", rule, str(folder))
    return sorted(runs, key=lambda path: (*path.parts[:-1], len(path.name), path.name))


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint and the trained networks of a run; its record stays."""
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    for path in folder.glob(TRAINED):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def open_run(run_file: RunFile, folder: Path) -> Iterator[None]:
    """Lock the folder of a run and write its run file, for as long as the run is computed.

    A run that is refused leaves no trace: on `BadInput`, the files that it has written are removed,
    and with them the folders that were made for them and are empty. A run file that was there
    before is restored. Nothing else is touched, since other runs may write beside it.

    Args:
        run_file: what is run.
        folder: the run's.

    Raises:
        BadInput: another process computes this run.
    """
    path = folder / NAME
    with locked(folder, "run"):
        content_before = path.read_bytes() if path.exists() else None
        files_before = set(_files_of_run(folder))
        try:
            run_file.write(folder)
            yield
        except BadInput:
            if content_before is not None:
                # A resumed run: what it has finished meanwhile must not be lost.
                open_store(folder).write(NAME, content_before)
            else:
                _remove(
                    folder, [each for each in _files_of_run(folder) if each not in files_before]
                )
            raise


def _files_of_run(folder: Path) -> Iterator[Path]:
    """The files that a run writes before it has a result; other files are not touched."""
    yield from folder.glob(NAME)
    yield from folder.glob(TRAINED)
    for pattern in CHECKPOINT_FILES:
        yield from (folder / CHECKPOINT).glob(pattern)


def _remove(folder: Path, files: Sequence[Path]) -> None:
    """Remove files, and then the checkpoint's folder if it is empty."""
    for each in files:
        each.unlink(missing_ok=True)
    # The folder may hold files that are not the run's, or may not be there at all.
    with contextlib.suppress(OSError):
        (folder / CHECKPOINT).rmdir()
