"""Runs that grow: islands added to a finished run, or the islands of several runs merged.

Islands depend on each other in nothing but the networks that they start from. So the islands that
are there are copied, byte for byte, with those networks, and the runs they come from stay as they
are.
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
from sbmc.posterior.identity import DIVISIBLE
from sbmc_studies.experiments.execution import CHECKPOINT
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.run_spec import RunSpec, records_folder
from sbmc_studies.records.record import RECORD, read_record
from sbmc_studies.runs.run_file import TRAINED, RunFile, find_runs, read_run_file

_MOST_NAMED = 5


def parse_islands(text: str, present: int) -> int:
    """Read how many islands there are to be: in all, or `+` how many more.

    Args:
        text: such as `16` or `+8`.
        present: how many islands the run has.

    Returns:
        How many in all.

    Raises:
        BadInput: the text is no number, or not more than the run has.

    Examples:
        >>> parse_islands("16", 8), parse_islands("+8", 8)
        (16, 16)
    """
    match = re.fullmatch(r"\s*(\+?)\s*(\d+)\s*", text)
    rule = f"more than the {present} that there are, such as {present + 4} or +4"
    count = 0 if match is None else int(match[2]) + (present if match[1] else 0)
    require(count > present, "islands", rule, text)
    return count


def extend_run(folder: Path, islands: str, also_islands: Sequence[int] = ()) -> RunSpec:
    """Make the folder of a run with more islands, and copy those of a finished run into it.

    Args:
        folder: of a run that has ended.
        islands: how many in all, or `+` how many more.
        also_islands: numbers of islands; a record of the first so many is to be written for each.

    Returns:
        The run to make, in the same folder of records; only the new islands are left to sample.

    Raises:
        BadInput: the run cannot be extended, or would not become larger.
    """
    spec = _read_growable(folder).spec
    record = read_record((folder / RECORD).resolve())
    rule = "one that has ended (`sbmc resume` continues it)"
    require(record.outcome != "failed", "run", rule, Phrase(f"{folder}, which failed"))
    count = parse_islands(islands, spec.islands)
    # The old run has a record, which must not be replaced.
    others = tuple(number for number in also_islands if number != spec.islands)
    settings = {**spec.settings, "islands": count}
    extended = replace(spec, settings=settings, also_islands=others)
    target = extended.folder(records_folder(folder))
    if open_store(target / CHECKPOINT).read(MANIFEST) is None:
        _copy(folder, target, _read_manifest(folder), None)
    return extended


def merge_runs(folders: Sequence[Path], out: Path, **changes: Any) -> RunSpec:
    """Make the folder of a run that has the islands of several.

    Args:
        folders: of runs that are complete, of the same settings, seed, model and data.
        out: the folder of records that it goes to.
        changes: fields of the new spec that differ from those of the first run.

    Returns:
        The run to make; nothing is left to sample.

    Raises:
        BadInput: they are not parts of one run. The message names the difference, or the islands
            that are missing or double.
    """
    run_files = [_read_growable(folder) for folder in folders]
    require(len(folders) >= 2, "runs", "at least two", Phrase(f"{len(folders)} of them"))
    manifests = [_read_manifest(folder) for folder in folders]
    parts = [_compared(*each) for each in zip(run_files, manifests, strict=True)]
    for folder, part in zip(folders[1:], parts[1:], strict=True):
        differing = differences(part, parts[0])
        more = [f"and {len(differing) - _MOST_NAMED} more"] if differing[_MOST_NAMED:] else []
        listed = "; ".join([*differing[:_MOST_NAMED], *more])
        given = Phrase(f"{str(folder)!r}, where {listed}")
        require(not differing, "runs", "parts of one run", given)
    numbers_of = [_island_numbers(each.spec) for each in run_files]
    _require_each_island_once(folders, numbers_of)
    for folder, numbers in zip(folders, numbers_of, strict=True):
        results = read_islands(open_store(folder / CHECKPOINT))
        lost = [i for i in numbers if i not in results or not is_final(results[i].report)]
        given = Phrase(f"{str(folder)!r} without island {', '.join(map(str, lost))}")
        require(not lost, "runs", "complete (`sbmc resume` continues them)", given)
    first = run_files[0].spec
    settings = {**first.settings, "islands": sum(map(len, numbers_of)), "first_island": None}
    merged = replace(first, settings=settings, **changes)
    target = merged.folder(out)
    given = Phrase(f"{str(out)!r} with {target}")
    require(not (target / RECORD).exists(), "out", "a folder without that run", given)
    batches = sorted(batch for manifest in manifests for batch in manifest.batches)
    manifest = replace(manifests[0], batches=batches)
    for folder, numbers in zip(folders, numbers_of, strict=True):
        _copy(folder, target, manifest, numbers)
    return merged


def copy_networks(source: Path, spec: RunSpec, target: Path) -> None:
    """Let a run start from the trained networks of another, with which it is to be merged.

    Networks that are trained on another kind of processor differ in their last bits.

    Args:
        source: folder of the other run, which may still be running.
        spec: what is to be run.
        target: its folder; networks that are there already are not replaced.

    Raises:
        BadInput: the two runs could not be merged, or the other has no networks.
    """
    differing = differences(_shared_settings(read_run_file(source).spec), _shared_settings(spec))
    given = Phrase(f"{str(source)!r}, where {'; '.join(differing[:_MOST_NAMED])}")
    require(not differing, "trained_from", "a run of the same settings and seed", given)
    paths = sorted(source.glob(TRAINED))
    rule = "a run with trained networks in its folder"
    require(bool(paths), "trained_from", rule, str(source))
    target.mkdir(parents=True, exist_ok=True)
    for path in paths:
        _copy_file(open_store(source), open_store(target), path.name)


def _read_growable(folder: Path) -> RunFile:
    """The run file of a run that can be grown."""
    require(find_runs(folder) == [folder], "run", "the folder of one run", str(folder))
    run_file = read_run_file(folder)
    rule = "of a method whose islands all start from the same networks, such as s-hmc"
    method = run_file.spec.method
    require(get_method(method).grows, "run", rule, Phrase(f"one of {method}"))
    rule = "one that has ended (`sbmc resume` continues it)"
    require((folder / RECORD).exists(), "run", rule, str(folder))
    return run_file


def _read_manifest(folder: Path) -> Manifest:
    store = open_store(folder / CHECKPOINT)
    data = store.read(MANIFEST)
    if data is None:
        raise BadInput(f"`run` must be one with a {CHECKPOINT} folder, but got {str(folder)!r}.")
    return Manifest.from_json(data, store.where())


def _island_numbers(spec: RunSpec) -> range:
    first = spec.settings.get("first_island") or 0
    return range(first, first + spec.islands)


def _shared_settings(spec: RunSpec) -> dict[str, Any]:
    """What two parts of one run must agree in, of what they were asked for."""
    settings = {
        name: value
        for name, value in spec.settings.items()
        if name not in DIVISIBLE and value is not None
    }
    identity = {"experiment": spec.experiment, "method": spec.method, "seed": spec.seed}
    return {**identity, **settings}


def _compared(run_file: RunFile, manifest: Manifest) -> dict[str, Any]:
    """What two parts of one run must agree in."""
    data = {"checksum": run_file.data.get("checksum")}
    return {**_shared_settings(run_file.spec), "data": data, "islands": manifest.identity}


def _require_each_island_once(folders: Sequence[Path], numbers_of: Sequence[range]) -> None:
    """Refuse islands that two runs have, and islands from 0 on that none has."""
    owner: dict[int, Path] = {}
    for folder, numbers in zip(folders, numbers_of, strict=True):
        for index in numbers:
            given = Phrase(f"island {index} in both {owner.get(index)} and {folder}")
            require(index not in owner, "runs", "of islands that differ", given)
            owner[index] = folder
    missing = sorted(set(range(max(owner) + 1)) - owner.keys())
    listed = ", ".join(map(str, missing[:_MOST_NAMED])) + (", …" if missing[_MOST_NAMED:] else "")
    rule = f"all islands from 0 to {max(owner)}"
    require(not missing, "runs", rule, Phrase(f"none with island {listed}"))


def _copy(source: Path, target: Path, manifest: Manifest, numbers: Sequence[int] | None) -> None:
    """Copy networks, then the manifest, then islands.

    If that is stopped halfway, the run computes the islands that were not copied.
    """
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
