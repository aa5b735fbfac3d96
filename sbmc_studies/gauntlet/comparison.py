"""Comparing methods over data sets: paired differences, Wilcoxon's test, Holm's correction.

The unit is the data set. Seeds are averaged within a pair, and pairs within a data set, before
anything is tested: three seeds of one pair are no three pieces of evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

# Columns, and whether more is better.
COLUMNS = {
    "accuracy": True,
    "nll": False,
    "brier": False,
    "ece": False,
    "ood_ep": True,
    "ood_tot": True,
    "error_ep": True,
    "error_tot": True,
    "aurc": False,
}
LEVEL, POWER = 0.05, 0.8
MISSING = {"missing": "not run"}


@dataclass(frozen=True)
class Comparison:
    """One method against ours in one column.

    Attributes:
        method: the other one.
        column: what is compared.
        difference: ours minus the other, the mean over data sets.
        wins: data sets on which ours is the better.
        sets: data sets on which both have a value.
        p: two-sided, of Wilcoxon's signed-rank test; None with fewer than five data sets.
        holm: the same after Holm's correction over all methods compared in this column.
        detectable: the smallest mean difference that a paired t-test with so many data sets would
            find with probability 0.8, from the spread of the differences.
    """

    method: str
    column: str
    difference: float
    wins: int
    sets: int
    p: float | None
    holm: float | None
    detectable: float | None


def pair_means(
    records: Iterable[Mapping[str, Any]], column: str
) -> dict[str, dict[str, tuple[str, float]]]:
    """Means over seeds: method to pair to (data set, value); pairs without a value are left out."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    data: dict[str, str] = {}
    for record in records:
        data[record["pair"]] = record["data"]["name"]
        for method, result in record["methods"].items():
            value = _value(result, column)
            if value is not None:
                values[method][record["pair"]].append(value)
    return {
        method: {pair: (data[pair], mean(each)) for pair, each in by_pair.items()}
        for method, by_pair in values.items()
    }


class PairedDifference(NamedTuple):
    """One pair: the mean over seeds of ours minus the other's, and its standard error."""

    mean: float
    error: float


def paired_differences(
    records: Iterable[Mapping[str, Any]], column: str, ours: str, other: str
) -> dict[str, PairedDifference]:
    """Our method against another one, pair by pair; both have the same data and network.

    Args:
        records: of the pairs to count.
        column: a key of `COLUMNS`, or `seconds` or `passes`.
        ours: a method.
        other: another one.

    Returns:
        By pair. With one seed there is no standard error, and it counts as 0.
    """
    differences: dict[str, list[float]] = defaultdict(list)
    for record in records:
        values = [_value(record["methods"].get(name, MISSING), column) for name in (ours, other)]
        if values[0] is not None and values[1] is not None:
            differences[record["pair"]].append(values[0] - values[1])
    return {
        pair: PairedDifference(
            mean(each), float(np.std(each, ddof=1)) / len(each) ** 0.5 if len(each) > 1 else 0.0
        )
        for pair, each in differences.items()
    }


def compare(records: Sequence[Mapping[str, Any]], column: str, ours: str) -> list[Comparison]:
    """Our method against every other one.

    Args:
        records: of the pairs to count.
        column: a key of `COLUMNS`, or `seconds` or `passes`.
        ours: our method's name.

    Returns:
        A comparison for each other method that shares a data set with ours.
    """
    means = pair_means(records, column)
    reference = means.pop(ours, {})
    found = []
    for method, by_pair in means.items():
        differences: dict[str, list[float]] = defaultdict(list)
        for pair in reference.keys() & by_pair.keys():
            name, value = by_pair[pair]
            differences[name].append(reference[pair][1] - value)
        if differences:
            by_set = np.array([mean(each) for each in differences.values()])
            found.append(_comparison(method, column, by_set))
    return _with_holm(found)


def _comparison(method: str, column: str, differences: np.ndarray) -> Comparison:
    sign = 1 if COLUMNS.get(column, False) else -1
    count = len(differences)
    enough = count >= 5 and bool(np.any(differences != 0))
    spread = float(differences.std(ddof=1)) if count > 1 else 0.0
    return Comparison(
        method=method,
        column=column,
        difference=float(differences.mean()),
        wins=int((sign * differences > 0).sum()),
        sets=count,
        p=float(stats.wilcoxon(differences).pvalue) if enough else None,
        holm=None,
        detectable=detectable_difference(spread, count),
    )


def detectable_difference(spread: float, count: int) -> float | None:
    """The mean difference that a paired t-test finds with probability 0.8 at a level of 0.05.

    Examples:
        >>> round(detectable_difference(1.0, 16), 2)
        0.75
    """
    if count < 2:
        return None
    degrees = count - 1
    quantiles = stats.t.ppf(1 - LEVEL / 2, degrees) + stats.t.ppf(POWER, degrees)
    return float(quantiles * spread / count**0.5)


def _with_holm(found: list[Comparison]) -> list[Comparison]:
    """Holm's step-down correction of the p values that there are."""
    tested = sorted((each for each in found if each.p is not None), key=lambda each: each.p or 0.0)
    corrected: dict[str, float] = {}
    highest = 0.0
    for rank, each in enumerate(tested):
        highest = max(highest, min(1.0, (len(tested) - rank) * (each.p or 0.0)))
        corrected[each.method] = highest
    return [replace(each, holm=corrected.get(each.method)) for each in found]


@dataclass(frozen=True)
class Ranking:
    """Average ranks over data sets, and how far apart they have to be to tell methods apart.

    Attributes:
        ranks: method to average rank, 1 the best, the best first.
        sets: how many data sets.
        left_out: methods without a value on one of the pairs.
    """

    ranks: dict[str, float]
    sets: int
    left_out: tuple[str, ...]

    @property
    def critical(self) -> float:
        """Nemenyi's critical difference."""
        return critical_difference(len(self.ranks), self.sets)

    def groups(self) -> list[tuple[str, ...]]:
        """Methods that the test does not tell apart, as large as can be, in the order of ranks.

        Examples:
            >>> Ranking({"a": 1.0, "b": 2.0, "c": 3.0}, 5, ()).groups()
            [('a', 'b'), ('b', 'c')]
        """
        names, ranks = list(self.ranks), list(self.ranks.values())
        found: list[tuple[int, int]] = []
        for first, rank in enumerate(ranks):
            last = max(i for i, other in enumerate(ranks) if other - rank < self.critical)
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return [tuple(names[first : last + 1]) for first, last in found]


def average_ranks(
    records: Sequence[Mapping[str, Any]], column: str, reference: Sequence[str]
) -> Ranking:
    """Rank methods on each data set, and average over data sets.

    Args:
        records: of the pairs to count.
        column: a key of `COLUMNS`.
        reference: methods that have to be there: the pairs are those on which all of them have a
            value. Other methods are ranked too, if they have one on all these pairs.

    Returns:
        The ranking; without ranks if no pair is left. Equal values share their ranks.
    """
    means = pair_means(records, column)
    pairs = set.intersection(*(set(means.get(method, {})) for method in reference))
    table: dict[str, list[float]] = {}
    left_out = []
    sets: set[str] = set()
    for method, by_pair in means.items():
        by_set: dict[str, list[float]] = defaultdict(list)
        for pair in pairs & by_pair.keys():
            by_set[by_pair[pair][0]].append(by_pair[pair][1])
        if pairs <= by_pair.keys():
            table[method] = [mean(by_set[name]) for name in sorted(by_set)]
            sets |= by_set.keys()
        else:
            left_out.append(method)
    if not pairs:
        return Ranking({}, 0, tuple(means))
    sign = -1 if COLUMNS.get(column, False) else 1
    ranks = np.apply_along_axis(stats.rankdata, 0, sign * np.array(list(table.values())))
    averages = dict(zip(table, ranks.mean(1).tolist(), strict=True))
    ordered = dict(sorted(averages.items(), key=lambda item: item[1]))
    return Ranking(ordered, len(sets), tuple(left_out))


def critical_difference(methods: int, sets: int) -> float:
    """Nemenyi's critical difference of average ranks, at a level of 0.05 (Demšar, 2006).

    Examples:
        >>> round(critical_difference(4, 14), 2)
        1.25
    """
    quantile = stats.studentized_range.ppf(1 - LEVEL, methods, np.inf) / 2**0.5
    return float(quantile * (methods * (methods + 1) / (6 * sets)) ** 0.5)


def _value(result: Mapping[str, Any], column: str) -> float | None:
    if "missing" in result:
        return None
    value = result["scores"].get(column) if column in COLUMNS else result.get(column)
    return None if value is None else float(value)
