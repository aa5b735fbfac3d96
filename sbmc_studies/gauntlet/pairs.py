"""The list of pairs, `pairs.toml`: which network, which data, how it was trained."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from sbmc.checks import BadInput, nearest

PARTS = ("development", "confirmation")


@dataclass(frozen=True)
class Pair:
    """A network and a data set, as the list has them.

    Attributes:
        name: of the pair.
        part: `"development"`, where defaults may be chosen, or `"confirmation"`, where they are
            judged.
        data: name of the data set.
        network: its kind and sizes.
        training: the optimiser, its settings, epochs and batch size.
    """

    name: str
    part: str
    data: str
    network: Mapping[str, Any]
    training: Mapping[str, Any]

    @property
    def parameters(self) -> str:
        """Which parameters are sampled, in the words of `sbmc.fit`."""
        return {"last-layer": "last", "lora": "lora"}.get(self.network["kind"], "all")


@cache
def _content() -> Mapping[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("pairs.toml").read_text("utf-8"))


def gauntlet_seeds() -> tuple[int, ...]:
    """The seeds that every pair is run with."""
    return tuple(_content()["seeds"])


def gauntlet_pairs(part: str | None = None) -> list[Pair]:
    """All pairs, or those of one part, in the order of the list.

    Examples:
        >>> len(gauntlet_pairs("development")), len(gauntlet_pairs("confirmation"))
        (10, 11)
    """
    pairs = [Pair(**each) for each in _content()["pairs"]]
    return [pair for pair in pairs if part is None or pair.part == part]


def get_pair(name: str) -> Pair:
    """The pair of that name.

    Raises:
        BadInput: there is none; the message has the nearest name.
    """
    pairs = {pair.name: pair for pair in gauntlet_pairs()}
    if name not in pairs:
        raise BadInput(
            f"`pair` must be one of {', '.join(pairs)}, but got {name!r}.{nearest(name, pairs)}"
        )
    return pairs[name]


def describe_out_of_domain(data: str) -> str:
    """What stands out of domain for a data set, in words."""
    return str(_content()["data"][data]["ood"])
