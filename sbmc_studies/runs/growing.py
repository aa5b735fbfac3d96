"""Runs that grow: islands added to a finished one, or islands that were made apart put together.

Islands need nothing of each other but what they start from. So the old ones are copied, byte for
byte, with the networks that they started from, and the run they came from is not touched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, Phrase, require
from sbmc.islands.checkpoints import differences, is_final, open_store
from sbmc.islands.checkpoints.manifest import NAME as MANIFEST
from sbmc.islands.checkpoints.manifest import Manifest
from sbmc.islands.checkpoints.pilot import PILOT
from sbmc.islands.checkpoints.results import island_name, read_islands
from sbmc.posterior.identity import APART
from sbmc_studies.experiments.execution import CHECKPOINT
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.records.record import read_record
from sbmc_studies.runs.run_file import RECORD, TRAINED, Journal, find_runs, read_journal

_MOST_NAMED = 5


def parse_islands(text: str, there: int) -> int:
    """Read how many islands there are to be: in all, or `+` how many more.

    Args:
        text: such as `16` or `+8`.
        there: how many there are.

    Returns:
        How many in all.

    Raises:
        BadInput: no number, or not more than there are.

    Example:
        >>> parse_islands("16", 8), parse_islands("+8", 8)
        (16, 16)
    """
    found = re.fullmatch(r"\s*(\+?)\s*(\d+)\s*", text)
    rule = f"more than the {there} that there are, such as {there + 4} or +4"
    count = 0 if found is None else int(found[2]) + (there if found[1] else 0)
    require(count > there, "islands", rule, text)
    return count


def extend_run(folder: Path, islands: str, also_islands: Sequence[int] = ()) -> Journal:
    """Make the folder of a run with more islands, with the old ones in it.

    Args:
        folder: of a run that has ended.
        islands: how many in all, or `+` how many more.
        also_islands: numbers of islands to write records of besides.

    Returns:
        What is to be run, in the same folder of records; the rest of it, since the old islands are
        done.

    Raises:
        BadInput: the run is none that can be extended, or would not become larger.
    """
    journal = _growing(folder)
    record = read_record((folder / RECORD).resolve())
    rule = "one that has ended (`sbmc resume` goes on with it)"
    require(record.outcome != "failed", "run", rule, Phrase(f"{folder}, which failed"))
    count = parse_islands(islands, journal.settings["islands"])
    _require_prefixes(also_islands, count)
    settings = {**journal.settings, "islands": count}
    # The old run has a record of its own, which is not to be touched.
    also = [number for number in also_islands if number != journal.settings["islands"]]
    new = replace(journal, settings=settings, also_islands=also, finished=False)
    target = new.place(out_of(folder))
    if open_store(target / CHECKPOINT).read(MANIFEST) is None:
        _copy(folder, target, _manifest(folder), None)
    return new


def merge_runs(folders: Sequence[Path], out: Path, also_islands: Sequence[int] = ()) -> Journal:
    """Make the folder of a run that has the islands of several.

    Args:
        folders: of runs that are complete, of the same settings, seed, model and data.
        out: the folder of records that it goes to.
        also_islands: numbers of islands to write records of besides.

    Returns:
        What is to be run: nothing is left to be sampled.

    Raises:
        BadInput: they are not parts of one run; the difference is named, or the islands that are
            missing or double.
    """
    journals = [_growing(folder) for folder in folders]
    require(len(folders) >= 2, "runs", "at least two", Phrase(f"{len(folders)} of them"))
    manifests = [_manifest(folder) for folder in folders]
    for folder, journal, manifest in zip(folders[1:], journals[1:], manifests[1:], strict=True):
        found = differences(_compared(journal, manifest), _compared(journals[0], manifests[0]))
        more = [f"and {len(found) - _MOST_NAMED} more"] if found[_MOST_NAMED:] else []
        words = Phrase(f"{str(folder)!r}, where {'; '.join([*found[:_MOST_NAMED], *more])}")
        require(not found, "runs", "parts of one run", words)
    owned = [_islands(journal) for journal in journals]
    _require_whole(folders, owned)
    for folder, numbers in zip(folders, owned, strict=True):
        done = read_islands(open_store(folder / CHECKPOINT))
        lost = [i for i in numbers if i not in done or not is_final(done[i].report)]
        given = Phrase(f"{str(folder)!r} without island {', '.join(map(str, lost))}")
        require(not lost, "runs", "complete (`sbmc resume` goes on with them)", given)
    count = sum(map(len, owned))
    _require_prefixes(also_islands, count)
    settings = {**journals[0].settings, "islands": count, "first_island": None}
    new = replace(journals[0], settings=settings, also_islands=list(also_islands), finished=False)
    target = new.place(out)
    given = Phrase(f"{str(out)!r} with {target}")
    require(not (target / RECORD).exists(), "out", "a folder without that run", given)
    batches = [batch for manifest in manifests for batch in manifest.batches]
    whole = replace(manifests[0], batches=sorted(batches))
    for folder, numbers in zip(folders, owned, strict=True):
        _copy(folder, target, whole, numbers)
    return new


def bring_networks(source: Path, new: Journal, target: Path) -> None:
    """Have a run start from the networks of another, whose islands it is to be merged with.

    Trained on another kind of processor, they would differ in their last bits.

    Args:
        source: folder of the other run, which may be under way.
        new: what is to be run.
        target: its folder; networks that it has stay.

    Raises:
        BadInput: the two could not be merged, or there are no networks.
    """
    other = read_journal(source)
    found = differences(_asked(other), _asked(new))
    words = Phrase(f"{str(source)!r}, where {'; '.join(found[:_MOST_NAMED])}")
    require(not found, "trained_from", "a run of the same settings and seed", words)
    paths = sorted(source.glob(TRAINED))
    rule = "a run with trained networks in its folder"
    require(bool(paths), "trained_from", rule, str(source))
    target.mkdir(parents=True, exist_ok=True)
    for path in paths:
        _copy_file(open_store(source), open_store(target), path.name)


def out_of(folder: Path) -> Path:
    """The folder of records that a run's folder stands in."""
    return folder.parents[3] if len(folder.parents) > 3 else folder.absolute().parents[3]


def _require_prefixes(also_islands: Sequence[int], islands: int) -> None:
    for number in also_islands:
        rule = f"between 1 and the number of islands ({islands})"
        require(1 <= number <= islands, "also_islands", rule, number)


def _growing(folder: Path) -> Journal:
    """The journal of a run that can be grown."""
    require(find_runs(folder) == [folder], "run", "the folder of one run", str(folder))
    journal = read_journal(folder)
    can = get_method(journal.method).grows
    rule = "of a method whose islands share all they start from, such as s-hmc"
    require(can, "run", rule, Phrase(f"one of {journal.method}"))
    rule = "one that has ended (`sbmc resume` goes on with it)"
    require((folder / RECORD).exists(), "run", rule, str(folder))
    return journal


def _manifest(folder: Path) -> Manifest:
    store = open_store(folder / CHECKPOINT)
    data = store.read(MANIFEST)
    if data is None:
        raise BadInput(f"`run` must be one with a {CHECKPOINT} folder, but got {str(folder)!r}.")
    return Manifest.from_json(data, store.where())


def _islands(journal: Journal) -> range:
    first = journal.settings.get("first_island") or 0
    return range(first, first + journal.settings["islands"])


def _asked(journal: Journal) -> dict[str, Any]:
    """What parts of one run were asked for alike."""
    settings = {
        name: value
        for name, value in journal.settings.items()
        if name not in APART and value is not None
    }
    own = {"experiment": journal.experiment, "method": journal.method, "seed": journal.seed}
    return {**own, **settings}


def _compared(journal: Journal, manifest: Manifest) -> dict[str, Any]:
    """What parts of one run agree in."""
    data = {"checksum": journal.data.get("checksum")}
    return {**_asked(journal), "data": data, "islands": manifest.identity}


def _require_whole(folders: Sequence[Path], owned: Sequence[range]) -> None:
    """Every island once, from 0 on."""
    owner: dict[int, Path] = {}
    for folder, numbers in zip(folders, owned, strict=True):
        for index in numbers:
            given = Phrase(f"island {index} in both {owner.get(index)} and {folder}")
            require(index not in owner, "runs", "of islands that differ", given)
            owner[index] = folder
    missing = sorted(set(range(max(owner) + 1)) - owner.keys())
    shown = ", ".join(map(str, missing[:_MOST_NAMED])) + (", …" if missing[_MOST_NAMED:] else "")
    rule = f"all islands from 0 to {max(owner)}"
    require(not missing, "runs", rule, Phrase(f"none with island {shown}"))


def _copy(source: Path, target: Path, manifest: Manifest, numbers: Sequence[int] | None) -> None:
    """Copy networks, then the manifest, then islands: what a stop leaves out is made again."""
    old, new = open_store(source), open_store(target)
    (target / CHECKPOINT).mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob(TRAINED)):
        _copy_file(old, new, path.name)
    old, new = open_store(source / CHECKPOINT), open_store(target / CHECKPOINT)
    new.write(MANIFEST, manifest.to_json())
    _copy_file(old, new, PILOT)
    for index in manifest.islands if numbers is None else numbers:
        _copy_file(old, new, island_name(index))


def _copy_file(old: Any, new: Any, name: str) -> None:
    data = old.read(name)
    if data is not None and new.read(name) is None:
        new.write(name, data)
