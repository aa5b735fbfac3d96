"""Means over splits, and paired differences between methods on the same splits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from sbmc_studies.tables.methods import METHODS
from sbmc_studies.tables.running import read_table_record, record_file
from sbmc_studies.tables.sets import TableSet, table_sets


class Figure(NamedTuple):
    """A mean over splits with its standard error.

    Attributes:
        mean: over splits.
        error: None with one split.
        splits: how many.
    """

    mean: float
    error: float | None
    splits: int


@dataclass(frozen=True)
class SetResults:
    """All records of one set.

    Attributes:
        table_set: which.
        records: from a method and a split to its record, where there are scores.
        missing: from a method to the reasons why it has none, with the splits.
    """

    table_set: TableSet
    records: Mapping[str, Mapping[int, Mapping[str, Any]]]
    missing: Mapping[str, Mapping[str, list[int]]] = field(default_factory=dict)

    def values(self, method: str, column: str) -> dict[int, float]:
        """A column of a method, by split; `seconds` is one too."""
        found = {}
        for split, record in self.records.get(method, {}).items():
            value = record["seconds"] if column == "seconds" else record["scores"].get(column)
            if value is not None:
                found[split] = float(value)
        return found

    def figure(self, method: str, column: str) -> Figure | None:
        """The mean over splits; None without any."""
        return _figure(list(self.values(method, column).values()))

    def difference(self, method: str, other: str, column: str) -> Figure | None:
        """A method minus another one, over the splits that both have.

        Every split is one pair, so that what is hard about a split is hard for both.
        """
        ours, theirs = self.values(method, column), self.values(other, column)
        return _figure([ours[split] - theirs[split] for split in ours if split in theirs])


def _figure(values: list[float]) -> Figure | None:
    if not values:
        return None
    if len(values) == 1:
        return Figure(values[0], None, 1)
    return Figure(mean(values), stdev(values) / len(values) ** 0.5, len(values))


def read_results(out: Path) -> dict[str, SetResults]:
    """All records that there are, by set.

    Args:
        out: the folder of all records.

    Returns:
        An entry for every set of the list, with or without records.
    """
    return {each.name: _read_set(out, each) for each in table_sets()}


def _read_set(out: Path, table_set: TableSet) -> SetResults:
    records: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    missing: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for method in METHODS:
        for split in range(table_set.splits):
            record = read_table_record(record_file(out, table_set.name, split, method))
            if record is None:
                continue
            if "scores" in record:
                records[method][split] = record
            else:
                missing[method][record["missing"]].append(split)
    return SetResults(table_set, records, missing)
