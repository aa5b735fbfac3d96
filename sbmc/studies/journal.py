"""What a run was asked to do, written down when it begins, so that it can be gone on with.

OUT/<experiment>/<method>/<hash>/seed-<k>/
    run.json                 this journal
    trained-*.safetensors    networks that the run starts from
    checkpoint/              where its islands are
    record.json              what came of it
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from sbmc.checkpoints import differences, open_store
from sbmc.checks import BadInput, Phrase, require
from sbmc.studies.execution import CHECKPOINT
from sbmc.studies.records import read_record, record_path
from sbmc.studies.settings import settings_hash

NAME = "run.json"
RECORD = "record.json"
TRAINED = "trained-*.safetensors"
LOCK = ".lock"
FORMAT = "sbmc-run"
VERSION = 1
# What decides the last bits, of what a record says of versions.
_DECISIVE = ("sbmc", "torch")


@dataclass(frozen=True)
class Journal:
    """One run of one method on one experiment with one seed, as it was asked for.

    Attributes:
        experiment: the experiment's name.
        method: the method's name.
        settings: resolved settings.
        seed: of everything random.
        also_islands: numbers of islands to write records of besides.
        confidence: whether the meta-classifier is trained too.
        save_posterior: whether the posterior is written beside the record.
        execution: how islands are run.
        data_dir: where data are looked for first.
        data: `name` and `checksum` of the data set.
        versions: of what computed it.
        finished: whether its record is written and complete.
    """

    experiment: str
    method: str
    settings: dict[str, Any]
    seed: int
    also_islands: list[int] = field(default_factory=list)
    confidence: bool = False
    save_posterior: bool = False
    execution: dict[str, Any] = field(default_factory=dict)
    data_dir: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    finished: bool = False

    @property
    def hash(self) -> str:
        """The 12-digit name of the settings."""
        return settings_hash(self.experiment, self.method, self.settings)

    def place(self, out: Path) -> Path:
        """The run's folder, in a folder of records."""
        return record_path(out, self.experiment, self.method, self.hash, self.seed).parent

    def write(self, folder: Path) -> None:
        """Write it, whole or not at all.

        Raises:
            CheckpointError: it could not be written.
        """
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        folder.mkdir(parents=True, exist_ok=True)
        open_store(folder).write(NAME, (json.dumps(content, indent=1) + "\n").encode())

    def finish(self, folder: Path) -> None:
        """Note that the record is complete."""
        if not self.finished:
            replace(self, finished=True).write(folder)

    def require_same_ground(self, data: dict[str, Any], versions: dict[str, str]) -> None:
        """Refuse to go on with other data or with other versions than the run began with.

        Raises:
            BadInput: they differ; the difference is named.
        """
        old = {"versions": _decisive(self.versions), "data": self.data.get("checksum")}
        new = {"versions": _decisive(versions), "data": data.get("checksum")}
        known = {name: old[name] for name in old if old[name]}
        found = differences(known, {name: new[name] for name in known})
        words = Phrase(f"one where {'; '.join(found)}")
        require(not found, "run", "one of the same data and versions", words)


def _decisive(versions: dict[str, str]) -> dict[str, str]:
    own = {name: versions[name] for name in _DECISIVE if name in versions}
    return {name: value.partition("+")[0] for name, value in own.items()}


def read_journal(folder: Path) -> Journal:
    """The journal of a run's folder; made from its record if there is no other.

    Args:
        folder: such as runs/digits/s-hmc/1c3235eaf985/seed-0.

    Raises:
        BadInput: no run, a damaged journal, or a folder that was moved.
    """
    path = folder / NAME
    if not path.exists():
        require((folder / RECORD).exists(), "run", f"a folder with a {NAME}", str(folder))
        return _from_record(folder)
    try:
        content = json.loads(path.read_text("utf-8"))
        kind = content.pop("format"), content.pop("version")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"`run` must have a readable {NAME}, but got {path}: {error}.") from error
    given = Phrase(f"{path} of {kind[0]} version {kind[1]}")
    require(kind == (FORMAT, VERSION), "run", f"of format {FORMAT} version {VERSION}", given)
    known = {each.name for each in fields(Journal)}
    required = {"experiment", "method", "settings", "seed"}
    good = required <= set(content) <= known
    require(good, "run", f"a folder with a {NAME} of this version of sbmc", str(path))
    journal = Journal(**content)
    place = journal.place(Path()).parts
    moved = folder.resolve().parts[-len(place) :] != place
    rule = f"at {'/'.join(place)} by its own settings"
    require(not moved, "run", rule, Phrase(f"{folder}: it was moved or edited"))
    return journal


def _from_record(folder: Path) -> Journal:
    record = read_record((folder / RECORD).resolve())
    return Journal(
        record.experiment,
        record.method,
        record.settings,
        record.seed,
        data=record.data,
        versions=record.versions,
        finished=record.outcome == "completed",
    )


def find_runs(folder: Path) -> list[Path]:
    """The run at a folder, or all runs below it that have a journal, by path.

    Args:
        folder: of one run, or above several.

    Returns:
        The folders of runs; none if all that is there are records.

    Raises:
        BadInput: there is neither.
    """
    require(folder.is_dir(), "run", "an existing folder", str(folder))
    if any((folder / mark).exists() for mark in (NAME, RECORD)):
        return [folder]
    found = {path.parent for path in folder.rglob(NAME)}
    rule = f"the folder of a run, with a {NAME}, or one above such folders"
    require(bool(found) or any(folder.rglob(RECORD)), "run", rule, str(folder))
    return sorted(found, key=lambda path: (*path.parts[:-1], len(path.name), path.name))


def begin_anew(folder: Path) -> None:
    """Remove what an earlier run could be gone on from; its record stays until it is replaced."""
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    for path in folder.glob(TRAINED):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def under_way(journal: Journal, folder: Path) -> Iterator[None]:
    """A run from its first line in the journal to its last, with the folder to itself.

    What the user could mend is refused without a trace: on `BadInput`, a folder that was not there
    before is gone, and a journal that was there before is back.

    Args:
        journal: what is run.
        folder: the run's.

    Raises:
        BadInput: another process is at it.
    """
    new, path = _first_missing(folder), folder / NAME
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        before = path.read_bytes() if path.exists() else None
        try:
            journal.write(folder)
            yield
        except BadInput:
            if new is not None:
                shutil.rmtree(new, ignore_errors=True)
            elif before is not None:
                open_store(folder).write(NAME, before)
            else:
                path.unlink(missing_ok=True)
            raise


def _first_missing(folder: Path) -> Path | None:
    """The outermost folder that has to be made."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    return missing[-1] if missing else None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes away; the lock ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    path = folder / LOCK
    with open(path, "a+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it may have removed the file between our opening and our locking it.
            mine = path.exists() and os.fstat(file.fileno()).st_ino == path.stat().st_ino
        except (BlockingIOError, PermissionError):
            mine = False
        except OSError:  # a file system without locks
            mine = True
        require(mine, "run", "one that no other process is at", str(folder))
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
