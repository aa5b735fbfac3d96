"""The figures that are required of our default, beside what the records have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sbmc_studies.tables.comparison import SetResults
from sbmc_studies.tables.methods import DEFAULT, ENSEMBLES
from sbmc_studies.tables.sets import TableSet, table_groups

Results = Mapping[str, SetResults]
# NLL of the mixture, at most.
UCI_BOUNDS = {
    "concrete": 2.95,
    "energy": 1.00,
    "kin8nm": -1.22,
    "power": 2.79,
    "wine_red": 0.95,
    "yacht": 1.10,
}
HOLDS, MISSED, OPEN = "holds", "missed", "open"


class Verdict(NamedTuple):
    """What was measured, in words, and whether the required figure holds.

    Attributes:
        measured: in words.
        verdict: `HOLDS`, `MISSED`, or `OPEN` while records that decide it are missing.
    """

    measured: str
    verdict: str


class Requirement(NamedTuple):
    """A required figure: what it is, and how it is found in the records."""

    text: str
    measure: Callable[[Results], Verdict]


def at_most(name: str, column: str, bound: float) -> Callable[[Results], Verdict]:
    """A column's mean over the splits of one set must not exceed a bound."""

    def measure(results: Results) -> Verdict:
        figure = results[name].figure(DEFAULT, column)
        if figure is None:
            return Verdict("–", OPEN)
        return Verdict(f"{figure.mean:.3g}", HOLDS if figure.mean <= bound else MISSED)

    return measure


def count_of(
    group: str, least: int, holds: Callable[[SetResults], bool | None]
) -> Callable[[Results], Verdict]:
    """On so many sets of a group something must hold; None says that a set has no records."""

    def measure(results: Results) -> Verdict:
        found = [holds(results[each.name]) for each in _sets(group)]
        count, unknown = sum(each is True for each in found), found.count(None)
        measured = f"{count} of {len(found) - unknown}"
        if unknown == len(found):
            measured = "–"
        if count >= least:
            return Verdict(measured, HOLDS)
        return Verdict(measured, MISSED if count + unknown < least else OPEN)

    return measure


def below_bound(results: SetResults) -> bool | None:
    """NLL of the mixture at most the bound of the set."""
    figure = results.figure(DEFAULT, "nll")
    return None if figure is None else figure.mean <= UCI_BOUNDS[results.table_set.data]


def below_ensemble(results: SetResults) -> bool | None:
    """The mean paired difference of NLL to each of our own ensembles is negative."""
    figures = [results.difference(DEFAULT, each, "nll") for each in ENSEMBLES]
    means = [figure.mean for figure in figures if figure is not None]
    return max(means) < 0 if means else None


def covers(column: str, low: float, high: float = 1.0) -> Callable[[SetResults], bool | None]:
    """Intervals cover a share between two bounds, as the mean over splits."""

    def measure(results: SetResults) -> bool | None:
        figure = results.figure(DEFAULT, column)
        return None if figure is None else low <= figure.mean <= high

    return measure


def _sets(group: str) -> tuple[TableSet, ...]:
    return next(each.sets for each in table_groups() if each.name == group)


REQUIREMENTS = (
    Requirement(
        "airfoil: NLL of the Gaussian with the mixture's moments ≤ −0.88",
        at_most("airfoil", "nll_moments", -0.88),
    ),
    Requirement("airfoil: the same, aim ≤ −0.93", at_most("airfoil", "nll_moments", -0.93)),
    Requirement(
        "bike sharing: NLL of the Gaussian with the mixture's moments ≤ −0.68",
        at_most("bikesharing", "nll_moments", -0.68),
    ),
    Requirement(
        "bike sharing: the same, aim ≤ −0.73", at_most("bikesharing", "nll_moments", -0.73)
    ),
    Requirement("bike sharing: within ten minutes", at_most("bikesharing", "seconds", 600.0)),
    Requirement(
        "standard splits: NLL at most "
        + ", ".join(f"{bound:g} ({name})" for name, bound in UCI_BOUNDS.items())
        + ", on five of six",
        count_of("standard", 5, below_bound),
    ),
    Requirement(
        "standard splits: NLL below both of our own ensembles', paired, on four of six",
        count_of("standard", 4, below_ensemble),
    ),
    Requirement(
        "standard splits: 90 % intervals cover 87–93 % on four of six",
        count_of("standard", 4, covers("cover_90", 0.87, 0.93)),
    ),
    Requirement(
        "standard splits: 90 % intervals never cover less than 85 %",
        count_of("standard", 6, covers("cover_90", 0.85)),
    ),
    Requirement(
        "gap splits: log score above both of our own ensembles', paired, on four of five",
        count_of("gap", 4, below_ensemble),
    ),
    Requirement(
        "gap splits: 95 % intervals cover at least 90 % on five of five",
        count_of("gap", 5, covers("cover_95", 0.90)),
    ),
)
