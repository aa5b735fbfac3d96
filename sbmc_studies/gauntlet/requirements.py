"""The figures that are required of the defaults, beside what the records have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from sbmc_studies.gauntlet.comparison import pair_means, paired_differences

NETWORK, TEMPERATURE, ENSEMBLE = "network", "temperature", "ensemble-5"
NO_WORSE = 0.01

Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Share:
    """How many of how many, as text and as a share."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.count / self.of if self.of else None

    def __str__(self) -> str:
        return f"{100 * self.count / self.of:.0f} % ({self.count} of {self.of})" if self.of else "–"


class Requirement(NamedTuple):
    """A figure: what it is, how it is found, and the least value that is required of it.

    Attributes:
        text: what it is.
        measure: from records, records of the check and a method to a share or a number.
        least: with rows that the network has not seen; None if nothing is required.
        least_without: without such rows.
    """

    text: str
    measure: Callable[[Records, Records, str], Share | float | None]
    least: float | None = None
    least_without: float | None = None


def no_worse_than_network(records: Records, _: Records, method: str) -> Share:
    """Pairs whose mean paired difference of NLL is at most 0.01 and one standard error."""
    found = paired_differences(records, "nll", method, NETWORK).values()
    return Share(sum(each.mean <= NO_WORSE + each.error for each in found), len(found))


def below_ensemble(records: Records, _: Records, method: str) -> Share:
    """Pairs with a lower NLL than the deep ensemble of five."""
    found = paired_differences(records, "nll", method, ENSEMBLE).values()
    return Share(sum(each.mean < 0 for each in found), len(found))


def ratios(records: Records, column: str, method: str) -> dict[str, float]:
    """Seconds or passes of a method over those of the ensemble of five, by pair."""
    means = pair_means(records, column)
    ours, theirs = means.get(method, {}), means.get(ENSEMBLE, {})
    return {pair: ours[pair][1] / theirs[pair][1] for pair in ours if pair in theirs}


def within_time(records: Records, _: Records, method: str) -> Share:
    """Pairs that took no more seconds than the ensemble of five."""
    found = ratios(records, "seconds", method).values()
    return Share(sum(each <= 1 for each in found), len(found))


def below_within_time(records: Records, _: Records, method: str) -> Share:
    """Pairs with a lower NLL than the ensemble of five that took no more seconds either."""
    found = paired_differences(records, "nll", method, ENSEMBLE)
    costs = ratios(records, "seconds", method)
    return Share(sum(each.mean < 0 and costs[p] <= 1 for p, each in found.items()), len(found))


def calibrated(records: Records, _: Records, method: str) -> Share:
    """Pairs whose ECE is at most that of temperature scaling."""
    found = paired_differences(records, "ece", method, TEMPERATURE).values()
    return Share(sum(each.mean <= 0 for each in found), len(found))


def detects_more(records: Records, _: Records, method: str) -> Share:
    """Pairs with a larger AUROC out of domain by epistemic entropy than the ensemble of five."""
    found = paired_differences(records, "ood_ep", method, ENSEMBLE).values()
    return Share(sum(each.mean > 0 for each in found), len(found))


def median_gain(records: Records, _: Records, method: str) -> float | None:
    """The median over pairs of the gain in that AUROC."""
    found = paired_differences(records, "ood_ep", method, ENSEMBLE).values()
    return median(each.mean for each in found) if found else None


def healthy(records: Records, _: Records, method: str) -> Share:
    """Runs whose verdict is ok; one that failed is not."""
    verdicts = []
    for record in records:
        result = record["methods"].get(method, {})
        if result.get("failed"):
            verdicts.append(False)
        elif "health" in result.get("about", {}):
            verdicts.append(result["about"]["health"]["ok"] is not False)
    return Share(sum(verdicts), len(verdicts))


def failing(ok: bool) -> Callable[[Records, Records, str], Share]:
    """Of the checked runs with a verdict, those that differ from chains ten times as long."""

    def share(_: Records, checks: Records, method: str) -> Share:
        results = [each["methods"][method] for each in checks if method in each["methods"]]
        found = [result["fails"] for result in results if result["ok"] is ok]
        return Share(sum(found), len(found))

    return share


REQUIREMENTS = (
    Requirement(
        f"NLL: mean paired difference to the network at most {NO_WORSE} + one standard error",
        no_worse_than_network,
        0.95,
        0.90,
    ),
    Requirement("NLL below the deep ensemble of five's", below_ensemble, 0.70),
    Requirement("within the seconds of the ensemble of five", within_time),
    Requirement("NLL below it within its seconds", below_within_time, 0.70),
    Requirement("ECE at most that of temperature scaling", calibrated, 0.50),
    Requirement(
        "AUROC out of domain by epistemic entropy above the ensemble's", detects_more, 0.75
    ),
    Requirement("its median gain", median_gain, 0.04),
    Requirement("health ok, of runs", healthy, 0.90),
    Requirement(
        "of checked runs that were warned of, differ from long chains", failing(False), 0.8
    ),
    Requirement("of checked runs that were ok, differ from long chains", failing(True)),
)
