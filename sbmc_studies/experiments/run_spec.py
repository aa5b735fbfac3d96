"""`RunSpec`: what the command line reads, the run file stores and the runner runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, is_whole, nearest, require
from sbmc.storage.files import mismatch
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.settings import settings_hash

_REMEDY = "Undo what was edited, or run it again with `sbmc run`."


@dataclass(frozen=True)
class RunSpec:
    """One run of one method on one experiment with one seed.

    The first four fields decide the result: two runs that agree in them are the same run, and they
    name its folder. The others say what is written besides, and how it is computed.

    Args:
        experiment: the experiment's name.
        method: the method's name.
        settings: resolved settings; see `resolve`.
        seed: of everything random.
        also_islands: numbers of islands; a record of the first so many is written for each.
        confidence: also train and test the meta-classifier.
        save_posterior: write the posterior beside the record.
        execution: how islands are run.
        data_dir: the folder where data are looked for first.

    Raises:
        BadInput: the seed is negative, the settings have no number of islands, or `also_islands`
            has a number that is larger than that.

    Examples:
        >>> spec = RunSpec("digits", "map", {"s": 0.0, "islands": 1}, seed=3)
        >>> spec.folder(Path("runs")).as_posix()
        'runs/digits/map/7426d966c7b2/seed-3'
        >>> RunSpec.from_json(spec.to_json()) == spec
        True
    """

    experiment: str
    method: str
    settings: dict[str, Any]
    seed: int
    also_islands: tuple[int, ...] = ()
    confidence: bool = False
    save_posterior: bool = False
    execution: Execution = field(default_factory=Execution)
    data_dir: str | None = None

    def __post_init__(self) -> None:
        good = is_whole(self.seed) and self.seed >= 0
        require(good, "seed", "a non-negative integer", self.seed)
        islands: Any = self.settings.get("islands")
        good = is_whole(islands) and islands >= 1
        require(good, "islands", "a positive integer in the settings of a run", islands)
        for number in self.also_islands:
            rule = f"between 1 and the number of islands ({islands})"
            require(is_whole(number) and 1 <= number <= islands, "also_islands", rule, number)
        # One form for what means the same, so that equal runs have equal specs.
        others = sorted(set(self.also_islands) - {islands})
        object.__setattr__(self, "also_islands", tuple(others))

    def __str__(self) -> str:
        return f"{self.experiment} {self.method} seed {self.seed}"

    @property
    def islands(self) -> int:
        """The number of islands."""
        return self.settings["islands"]

    @property
    def hash(self) -> str:
        """The 12-digit name of the settings."""
        return settings_hash(self.experiment, self.method, self.settings)

    def folder(self, out: Path) -> Path:
        """The run's folder, in a folder of records."""
        return run_folder(out, self.experiment, self.method, self.hash, self.seed)

    def first(self, islands: int) -> RunSpec:
        """The run of its first islands alone."""
        return replace(self, settings={**self.settings, "islands": islands}, also_islands=())

    def with_prefixes(self) -> dict[int, RunSpec]:
        """All runs that it writes records of, by their number of islands; itself comes first."""
        return {islands: self.first(islands) for islands in (self.islands, *self.also_islands)}

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values that JSON has."""
        execution = self.execution.to_json()
        return {**asdict(self), "also_islands": list(self.also_islands), "execution": execution}

    @classmethod
    def from_json(cls, content: Any) -> RunSpec:
        """Read what `to_json` made.

        Args:
            content: the JSON object, which anyone may have edited.

        Returns:
            The spec.

        Raises:
            BadInput: a key is unknown or missing, or has a value of another type; the message says
                which one, and what to do.
        """
        require(isinstance(content, dict), "run", "a JSON object", content)
        known = [each.name for each in fields(cls)]
        for name in content:
            if name not in known:
                raise BadInput(
                    f"`{name}` must be left out: a run has the keys {', '.join(known)}, "
                    f"but got {content[name]!r}.{nearest(name, known)} {_REMEDY}"
                )
        wrong = mismatch(cls, content)
        if wrong:
            raise BadInput(f"`run` must have values of the right types, but {wrong}. {_REMEDY}")
        numbers = content.get("also_islands", [])
        good = isinstance(numbers, list) and all(map(is_whole, numbers))
        require(good, "also_islands", "a list of integers", numbers)
        execution = Execution.from_json(content.get("execution", {}))
        return cls(**{**content, "also_islands": tuple(numbers), "execution": execution})


def run_folder(out: Path, experiment: str, method: str, digest: str, seed: int) -> Path:
    """The folder of a run, in a folder of records.

    Args:
        out: the folder of all records.
        experiment: the experiment's name.
        method: the method's name.
        digest: the hash of the settings.
        seed: the seed.

    Returns:
        The folder, whether it exists or not.
    """
    return Path(out) / experiment / method / digest / f"seed-{seed}"


def records_folder(folder: Path) -> Path:
    """The folder of records that a run's folder is in: the reverse of `run_folder`.

    Examples:
        >>> records_folder(Path("runs/digits/map/7426d966c7b2/seed-3")).as_posix()
        'runs'
    """
    return folder.parents[3] if len(folder.parents) > 3 else folder.absolute().parents[3]
