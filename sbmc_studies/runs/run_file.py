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
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, Phrase, require
from sbmc.islands.checkpoints import differences, locked, open_store
from sbmc.storage.files import misfit, parse_json
from sbmc_studies.experiments.execution import CHECKPOINT, Execution
from sbmc_studies.experiments.settings import settings_hash
from sbmc_studies.records.record import read_record, record_path

NAME = "run.json"
RECORD = "record.json"
TRAINED = "trained-*.safetensors"
CHECKPOINT_FILES = ("manifest.json", "pilot.json", "batch-*.*", "island-*.*", ".*.part")
FORMAT = "sbmc-run"
VERSION = 1
_MEND = "undo what was edited, or make the run anew with `sbmc run`"
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
        content = parse_json(path.read_text("utf-8"))
        kind = content.pop("format"), content.pop("version")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"`run` must have a readable {NAME}, but got {path}: {error}.") from error
    given = Phrase(f"{path} of {kind[0]} version {kind[1]}")
    require(kind == (FORMAT, VERSION), "run", f"of format {FORMAT} version {VERSION}", given)
    wrong = misfit(Journal, content)
    rule = f"a folder with a {NAME} of this version of sbmc"
    require(not wrong, "run", rule, Phrase(f"{path}, where {wrong}; {_MEND}"))
    journal = Journal(**content)
    good = journal.seed >= 0 and all(number >= 1 for number in journal.also_islands)
    require(good, "run", rule, Phrase(f"{path} with a number below its least; {_MEND}"))
    try:
        place = journal.place(Path()).parts
    except ValueError as error:  # Python reads NaN and infinities, which JSON does not have
        raise BadInput(f"`run` must have plain settings, but got {path}: {error}.") from error
    moved = folder.resolve().parts[-len(place) :] != place
    rule = f"at {'/'.join(place)} by its own settings"
    require(not moved, "run", rule, Phrase(f"{folder}: it was moved or edited"))
    try:
        Execution(**journal.execution)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"`run` must have a {NAME} with options of this version of sbmc under `execution`, "
            f"but got {path}: {error} (`{{}}` stands for the usual ones)."
        ) from error
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

    What the user could mend is refused without a trace: on `BadInput`, the files that the run has
    written are gone, with the folders that were made for them and are empty; and a journal that was
    there before is back. Nothing else is touched, since other runs may write beside it.

    Args:
        journal: what is run.
        folder: the run's.

    Raises:
        BadInput: another process is at it.
    """
    path = folder / NAME
    with locked(folder, "run"):
        before = path.read_bytes() if path.exists() else None
        there = set(_own_files(folder))
        try:
            journal.write(folder)
            yield
        except BadInput:
            if before is not None:
                # A run that goes on: what it has finished meanwhile is not to be lost.
                open_store(folder).write(NAME, before)
            else:
                _remove(folder, [each for each in _own_files(folder) if each not in there])
            raise


def _own_files(folder: Path) -> Iterator[Path]:
    """What a run writes before it has a result; whatever else stands there is somebody else's."""
    yield from folder.glob(NAME)
    yield from folder.glob(TRAINED)
    for pattern in CHECKPOINT_FILES:
        yield from (folder / CHECKPOINT).glob(pattern)


def _remove(folder: Path, files: Sequence[Path]) -> None:
    """Remove files, and the checkpoint's folder if it is empty then."""
    for each in files:
        each.unlink(missing_ok=True)
    # It holds something that is not the run's, or is not there at all.
    with contextlib.suppress(OSError):
        (folder / CHECKPOINT).rmdir()
