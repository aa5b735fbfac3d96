"""The list of data sets, `sets.toml`, and the rows that others published, `published.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from sbmc.checks import BadInput, nearest

REGRESSION, CLASSIFICATION = "regression", "classification"


@dataclass(frozen=True)
class TableSet:
    """A data set with its protocol, as the list has it.

    Attributes:
        name: of the set in the study; that of a gap split ends in `-gap`.
        group: of the table that it stands in.
        kind: `"regression"` or `"classification"`.
        protocol: how rows are split; see `sbmc_studies.tables.data`.
        data: its name in the data file.
        splits: how many there are.
        hidden: widths of the hidden layers of all networks; None for the estimators' default.
        likelihood: of all networks, likewise.
        budget: of our method, likewise.
    """

    name: str
    group: str
    kind: str
    protocol: str
    data: str
    splits: int
    hidden: tuple[int, ...] | None = None
    likelihood: str | None = None
    budget: str | None = None


@dataclass(frozen=True)
class Group:
    """Sets that share a protocol and a heading."""

    name: str
    title: str
    sets: tuple[TableSet, ...]


@dataclass(frozen=True)
class Published:
    """One published row.

    Attributes:
        method: whose it is.
        source: where it is from, in words.
        values: from a column to its value.
    """

    method: str
    source: str
    values: Mapping[str, float]


@cache
def _content(file: str) -> Mapping[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(file).read_text("utf-8"))


@cache
def table_groups() -> tuple[Group, ...]:
    """All groups of the list, in its order.

    Examples:
        >>> {group.name: len(group.sets) for group in table_groups()}
        {'standard': 6, 'gap': 5, 'bde': 2, 'classification': 5}
    """
    return tuple(_group(each) for each in _content("sets.toml")["groups"])


def _group(content: Mapping[str, Any]) -> Group:
    protocol = content["protocol"]
    suffix = "-gap" if protocol == "gap" else ""
    sets = tuple(
        TableSet(
            name=each["name"] + suffix,
            group=content["name"],
            kind=content["kind"],
            protocol=protocol,
            data=each["name"],
            splits=each["splits"],
            hidden=tuple(content["hidden"]),
            likelihood=content.get("likelihood"),
            budget=each.get("budget"),
        )
        for each in content["sets"]
    )
    return Group(content["name"], content["title"], sets)


def table_sets() -> list[TableSet]:
    """All sets of all groups."""
    return [each for group in table_groups() for each in group.sets]


def find_sets(names: Iterable[str]) -> list[TableSet]:
    """The sets of these names, where the name of a group stands for all its sets.

    Raises:
        BadInput: there is no such set; the message has the nearest name.

    Examples:
        >>> [each.name for each in find_sets(["bde", "yacht-gap"])]
        ['airfoil', 'bikesharing', 'yacht-gap']
    """
    known: dict[str, tuple[TableSet, ...]] = {each.name: (each,) for each in table_sets()}
    known |= {group.name: group.sets for group in table_groups()}
    found: list[TableSet] = []
    for name in names:
        if name not in known:
            raise BadInput(
                f"`sets` must be among {', '.join(known)}, but got {name!r}.{nearest(name, known)}"
            )
        found += known[name]
    return found


def published_rows(table_set: TableSet) -> list[Published]:
    """The rows that others published for a set."""
    content = _content("published.toml")
    found = []
    for row in content["rows"]:
        values = {
            column: by_set[table_set.data]
            for column, by_set in row.items()
            if isinstance(by_set, dict) and table_set.data in by_set
        }
        if row["group"] == table_set.group and values:
            found.append(Published(row["method"], content["sources"][row["source"]], values))
    return found
