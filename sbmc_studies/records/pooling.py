"""Records of several seeds taken together: means, and the paper's standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sbmc.checks import BadInput
from sbmc.prediction.metrics import mean_and_error
from sbmc_studies.experiments.experiment import Experiment, Row
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve, settings_hash
from sbmc_studies.records.record import Record, read_seeds

SEEDS = range(5)


@dataclass(frozen=True)
class Pooled:
    """Several seeds of one setting, taken together.

    Attributes:
        records: what was pooled.
        values: metric name to mean over the seeds.
        errors: metric name to standard error, by the paper's formula.
        cost: cost field to mean over the seeds; None where a record has none.
    """

    records: tuple[Record, ...]
    values: dict[str, float]
    errors: dict[str, float]
    cost: dict[str, float | None]

    def weighted(self, weighting: str) -> Pooled:
        """The metrics with islands combined in another way, if the records have them too."""
        start = f"{weighting}."
        if not any(name.startswith(start) for name in self.values):
            return self  # the records were made in this way
        values, errors = (
            {
                name.removeprefix(start): value
                for name, value in each.items()
                if name.startswith(start)
            }
            for each in (self.values, self.errors)
        )
        return replace(self, values=values, errors=errors)


def pool(records: Sequence[Record]) -> Pooled:
    """Take the mean over seeds, with its standard error sqrt(mean squared deviation) / sqrt(R).

    Args:
        records: completed runs that differ in nothing but the seed.

    Returns:
        The means. A metric that one of the records lacks is absent.

    Raises:
        BadInput: if there is none, or they differ in experiment, method, settings or data, or a
            seed occurs twice.
    """
    if not records:
        raise BadInput("`records` must be at least one, but got none.")
    first = records[0]
    for record in records[1:]:
        for name in ("experiment", "method", "hash", "data"):
            ours, theirs = getattr(first, name), getattr(record, name)
            if ours != theirs:
                raise BadInput(
                    f"`records` must agree in all but the seed to be pooled, "
                    f"but got {name} {ours!r} and {theirs!r}."
                )
    seeds = [record.seed for record in records]
    if len(set(seeds)) < len(seeds):
        raise BadInput(f"`records` must have different seeds to be pooled, but got {seeds}.")
    values, errors = {}, {}
    for name in first.metrics:
        column = [record.metrics.get(name) for record in records]
        known = [value for value in column if value is not None]
        if len(known) == len(column):
            values[name], errors[name] = mean_and_error(known)
    cost: dict[str, float | None] = {}
    for name in first.cost:
        spent = [record.cost[name] for record in records]
        known = [value for value in spent if value is not None]
        cost[name] = sum(known) / len(known) if len(known) == len(spent) else None
    return Pooled(tuple(records), values, errors, cost)


def find_records(records: Path, experiment: Experiment, row: Row) -> list[Record]:
    """Find the completed records of a table row, of the seeds that tables pool.

    Args:
        records: the folder of all records.
        experiment: whose table it is.
        row: the row.

    Returns:
        The records, in the order of their seeds; none if they are missing.
    """
    completed = read_seeds(records, experiment.name, row.method, row_hash(experiment, row))
    return [record for record in completed if record.seed in SEEDS]


def row_hash(experiment: Experiment, row: Row) -> str:
    """The hash of a row's settings, which names the folder of its records.

    Raises:
        BadInput: if the row has a setting that this version does not know.
    """
    settings = resolve(experiment, get_method(row.method), row.preset, row.overrides)
    return settings_hash(experiment.name, row.method, settings)


def row_islands(experiment: Experiment, row: Row) -> int:
    """The P of a row."""
    return resolve(experiment, get_method(row.method), row.preset, row.overrides)["islands"]
