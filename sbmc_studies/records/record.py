"""Records: what a run was, what it cost and what it measured, one JSON file each.

The path of a record is `OUT/<experiment>/<method>/<hash of the settings>/seed-<k>/record.json`.
Tables, figures and claims are made from records and from nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, is_whole
from sbmc.storage.files import parse_json, write_json
from sbmc_studies.experiments.run_spec import RunSpec, run_folder
from sbmc_studies.experiments.settings import ALWAYS, settings_hash

RECORD = "record.json"
SCHEMA_VERSION = 1
OUTCOMES = ("completed", "partial", "failed")
COST_FIELDS = ("epochs", "forward_epochs", "anchor_epochs", "total_epochs", "wall_seconds")
ISLAND_FIELDS = ("index", "outcome", "log_evidence", "epochs")


class BadRecord(BadInput):
    """A file that is no record, or a record whose settings do not belong to its path."""


@dataclass
class Record:
    """One run of one method on one experiment with one seed.

    Attributes:
        experiment: the experiment's name.
        method: the method's name.
        settings: resolved settings, all of them.
        seed: the seed of the anchor, the islands and the generated out-of-domain groups.
        data: `name` and `checksum` of the data set.
        cost: `epochs`, `forward_epochs`, `anchor_epochs`, `total_epochs`, `wall_seconds`. The wall
            time includes the training of what the run starts from, as the total epochs do, and
            leaves out prediction; None for a run that was derived from another.
        metrics: flat, with dotted names; None where a group is empty.
        islands: a report each: `index`, `outcome`, `log_evidence`, `epochs`, and diagnostics.
        outcome: `"completed"`, `"partial"` (some islands failed) or `"failed"`.
        message: why it failed; empty otherwise.
        derived_from: hash of the run whose islands these are (the first of them, or all with other
            weights), or None.
        details: what a reader may want to know and no table needs, such as chosen chunk sizes.
        versions: of Python and the packages that computed it.
        hardware: processor, cores and threads.
    """

    experiment: str
    method: str
    settings: dict[str, Any]
    seed: int
    data: dict[str, Any]
    cost: dict[str, float | None]
    metrics: dict[str, float | None]
    islands: list[dict[str, Any]]
    outcome: str
    message: str = ""
    derived_from: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def hash(self) -> str:
        """The 12-digit name of the settings."""
        return settings_hash(self.experiment, self.method, self.settings)

    def folder(self, out: Path) -> Path:
        """The folder of its run, in a folder of records."""
        return run_folder(out, self.experiment, self.method, self.hash, self.seed)


def record_path(out: Path, experiment: str, method: str, digest: str, seed: int) -> Path:
    """The path of a record.

    Args:
        out: the folder of all records.
        experiment: the experiment's name.
        method: the method's name.
        digest: the hash of the settings.
        seed: the seed.

    Returns:
        The path of the JSON file, whether it exists or not.
    """
    return run_folder(out, experiment, method, digest, seed) / RECORD


def find_completed(spec: RunSpec, out: Path) -> Record | None:
    """The record of a run, if there is one and it is complete.

    Args:
        spec: the run.
        out: the folder of all records.

    Returns:
        The record, or None.
    """
    path = spec.folder(out) / RECORD
    if not path.exists():
        return None
    record = read_record(path)
    return record if record.outcome == "completed" else None


def write_record(out: Path, record: Record) -> Path:
    """Write a record to its folder; the file is either complete or not there.

    Args:
        out: the folder of all records.
        record: what to write.

    Returns:
        The path of the file.

    Raises:
        BadRecord: if the record breaks the schema.
    """
    content = jsonable(asdict(record))
    validate(content)
    path = record.folder(out) / RECORD
    # A run may be killed while it writes, and no table can read half a record.
    write_json(path, content)
    return path


def read_record(path: Path) -> Record:
    """Read and check a record.

    Args:
        path: of a `record.json`, as `record_path` gives it.

    Returns:
        The record.

    Raises:
        BadRecord: if it is damaged, breaks the schema, or its path is that of other settings.
    """
    path = Path(path)
    try:
        content = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadRecord(f"`{path}` must be a readable record, but got: {error}.") from error
    try:
        validate(content)
    except BadRecord as error:
        raise BadRecord(f"`{path}` must be a valid record, but got: {error}") from error
    record = Record(**content)
    try:
        expected = (record.folder(Path()) / RECORD).parts
    except ValueError as error:  # Python reads NaN and infinities, which JSON does not have
        raise BadRecord(f"`{path}` must have plain settings, but got: {error}.") from error
    if path.parts[-len(expected) :] != expected:
        raise BadRecord(
            f"`{path}` must be at {'/'.join(expected)}, which its settings name: "
            "it was moved or edited."
        )
    return record


def read_seeds(out: Path, experiment: str, method: str, digest: str) -> list[Record]:
    """Read all completed records of one setting, in the order of their seeds.

    Args:
        out: the folder of all records.
        experiment: the experiment's name.
        method: the method's name.
        digest: the hash of the settings.

    Returns:
        The records; an empty list if there are none. Failed and partial runs are left out: they
        have no result that a table could show.
    """
    folder = run_folder(out, experiment, method, digest, seed=0).parent
    records = [read_record(path) for path in folder.glob(f"seed-*/{RECORD}")]
    completed = [record for record in records if record.outcome == "completed"]
    return sorted(completed, key=lambda record: record.seed)


def validate(content: Mapping[str, Any]) -> None:
    """Check the content of a record against the schema.

    Args:
        content: the JSON object.

    Raises:
        BadRecord: with the name of the field and what is wrong with it.
    """
    _need(isinstance(content, Mapping), "record", "a JSON object", content)
    version = content.get("schema_version")
    _need(version == SCHEMA_VERSION, "schema_version", f"{SCHEMA_VERSION}", version)
    known = set(Record.__dataclass_fields__)
    for name in sorted(known - set(content)):
        _need(False, name, "there", None)
    for name in sorted(set(content) - known):
        _need(False, name, "absent: the schema does not know it", content[name])
    for name in ("experiment", "method", "message"):
        _need(isinstance(content[name], str), name, "text", content[name])
    source = content["derived_from"]
    _need(source is None or isinstance(source, str), "derived_from", "a hash or null", source)
    for name in ("settings", "data", "cost", "metrics", "details", "versions", "hardware"):
        _need(isinstance(content[name], Mapping), name, "an object", content[name])
    for name in ALWAYS:
        _need(name in content["settings"], f"settings.{name}", "there", None)
    for name in ("name", "checksum"):
        _need(name in content["data"], f"data.{name}", "there", None)
    for name in COST_FIELDS:
        _need(name in content["cost"], f"cost.{name}", "there", None)
        _need(_number(content["cost"][name]), f"cost.{name}", "a number", content["cost"][name])
    for name, value in content["metrics"].items():
        _need(_number(value), f"metrics.{name}", "a finite number or null", value)
    _need(isinstance(content["islands"], list), "islands", "a list", content["islands"])
    for island in content["islands"]:
        _need(isinstance(island, Mapping), "islands", "a list of objects", island)
        for name in ISLAND_FIELDS:
            _need(name in island, f"islands.{name}", "there", None)
    seed = content["seed"]
    _need(is_whole(seed) and seed >= 0, "seed", "a non-negative integer", seed)
    outcome = content["outcome"]
    _need(outcome in OUTCOMES, "outcome", f"one of {', '.join(OUTCOMES)}", outcome)
    if outcome == "completed":
        _need(
            "accuracy" in content["metrics"], "metrics.accuracy", "there for a completed run", None
        )


def _need(condition: bool, name: str, rule: str, value: object) -> None:
    if not condition:
        raise BadRecord(f"`{name}` must be {rule}, but got {value!r}.")


def _number(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def jsonable(value: Any) -> Any:
    """The value in the form in which a record gives it back.

    NaN (the entropy of an empty group, the evidence of an MCMC run) becomes None, which is null in
    JSON.
    """
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if hasattr(value, "tolist"):  # a tensor or an array
        return jsonable(value.tolist())
    return str(value)
