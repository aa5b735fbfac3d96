"""The study's tables: what is required, then each network with its methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from sbmc_studies.gauntlet.comparison import pair_means, paired_differences
from sbmc_studies.gauntlet.fitted import DEFAULT
from sbmc_studies.mnist.pairs import CLAIMS, DEVELOPMENT, mnist_pairs, mnist_seeds
from sbmc_studies.mnist.running import METHODS, read_mnist_records

ENSEMBLE = "ensemble-5"
NOTHING = "–"
COLUMNS = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "ece": "ECE",
    "ood_ep": "AUROC, epistemic",
    "ood_tot": "AUROC, total",
    "seconds": "seconds",
    "passes": "passes",
}

Records = Sequence[Mapping[str, Any]]


class Requirement(NamedTuple):
    """A figure of a network: ours minus the ensemble's, or over it, and what is required of it."""

    text: str
    measure: Callable[[Records, str], float | None]
    holds: Callable[[float], bool]
    shown: str


def difference(column: str) -> Callable[[Records, str], float | None]:
    """The mean over seeds of a method of ours minus the ensemble."""

    def measure(records: Records, ours: str) -> float | None:
        found = paired_differences(records, column, ours, ENSEMBLE)
        return None if not found else mean(each.mean for each in found.values())

    return measure


def ratio(column: str) -> Callable[[Records, str], float | None]:
    """A method of ours over the ensemble, of means over seeds."""

    def measure(records: Records, ours: str) -> float | None:
        means = pair_means(records, column)
        if not means.get(ours) or not means.get(ENSEMBLE):
            return None
        own, theirs = (
            mean(value for _, value in means[name].values()) for name in (ours, ENSEMBLE)
        )
        return own / theirs

    return measure


REQUIREMENTS = (
    Requirement("NLL minus the ensemble's, at most 0", difference("nll"), lambda d: d <= 0, "+.4f"),
    Requirement(
        "AUROC by epistemic entropy minus the ensemble's, at least 0",
        difference("ood_ep"),
        lambda d: d >= 0,
        "+.4f",
    ),
    Requirement(
        "seconds over the ensemble's, the first network's training included in both, at most 1",
        ratio("seconds"),
        lambda r: r <= 1,
        ".2f",
    ),
)


def mnist_lines(out: Path) -> list[str]:
    """All tables in Markdown, as lines, from the records and from nothing else."""
    lines = part_lines(out, CLAIMS)
    if read_mnist_records(out, DEVELOPMENT):
        lines += ["", "### Development", "", *part_lines(out, DEVELOPMENT)]
    return lines


def part_lines(out: Path, part: str) -> list[str]:
    """The tables of a part: what is required, then each network with its methods."""
    records = read_mnist_records(out, part)
    by_pair = {
        pair.name: [record for record in records if record["pair"] == pair.name]
        for pair in mnist_pairs(part)
    }
    lines = _head(["required", *by_pair])
    for each in REQUIREMENTS:
        verdicts = [_verdict(each, own, DEFAULT) for own in by_pair.values()]
        lines.append(_row([f"{DEFAULT}: {each.text}", *verdicts]))
    for name, own in by_pair.items():
        about = _about(own, len(mnist_seeds(part)))
        lines += ["", f"**{name}**: {about}", "", *_methods(own)]
    return lines


def _verdict(requirement: Requirement, records: Records, ours: str) -> str:
    value = requirement.measure(records, ours)
    if value is None:
        return NOTHING
    verdict = "holds" if requirement.holds(value) else "missed"
    return f"{value:{requirement.shown}}: {verdict}"


def _about(records: Records, all_seeds: int) -> str:
    if not records:
        return "no record yet; `sbmc run mnist` makes them."
    rows, seeds = records[0]["rows"], len(records)
    return (
        f"{rows['train']:,} images to train on, {rows['validation']:,} set aside, {rows['test']:,} "
        f"to test; {seeds} of {all_seeds} seeds, of which a row has the means"
    )


def _methods(records: Records) -> list[str]:
    lines = _head(["method", "seeds", *COLUMNS.values(), "health ok"])
    for method in METHODS:
        results = [each["methods"][method] for each in records if method in each["methods"]]
        if not results:
            continue
        reasons = {each["missing"] for each in results if "missing" in each}
        measured = sum("scores" in each for each in results)
        cells = [str(measured), *(_mean(results, column) for column in COLUMNS)]
        verdicts = [each["about"]["health"]["ok"] for each in results if _has_verdict(each)]
        health = f"{sum(map(bool, verdicts))} of {len(verdicts)}" if verdicts else NOTHING
        lines.append(_row([method, *cells, "; ".join(reasons) or health]))
    return lines


def _has_verdict(result: Mapping[str, Any]) -> bool:
    return "health" in result.get("about", {})


def _mean(results: Sequence[Mapping[str, Any]], column: str) -> str:
    found = [
        each[column] if column in ("seconds", "passes") else each["scores"][column]
        for each in results
        if "scores" in each
    ]
    if not found or None in found:
        return NOTHING
    value = mean(found)
    return f"{value:.0f}" if column in ("seconds", "passes") else f"{value:.4f}"


def _head(cells: Sequence[str]) -> list[str]:
    return [_row(cells), _row(["---"] * len(cells))]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
