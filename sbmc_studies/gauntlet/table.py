"""The gauntlet's tables: each method by pair, and ours against the others over data sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from sbmc_studies.gauntlet.comparison import Ranking, average_ranks, compare, pair_means
from sbmc_studies.gauntlet.fitted import DEFAULT, WITHOUT_VALIDATION
from sbmc_studies.gauntlet.methods import METHODS
from sbmc_studies.gauntlet.pairs import PARTS, gauntlet_pairs, gauntlet_seeds
from sbmc_studies.gauntlet.requirements import (
    ENSEMBLE,
    NETWORK,
    REQUIREMENTS,
    TEMPERATURE,
    Share,
    healthy,
    ratios,
)
from sbmc_studies.gauntlet.running import PROTOCOL, check_file, read_pair_record, record_file

SHOWN = (
    *("nll", "accuracy", "brier", "ece", "ood_ep", "ood_tot", "error_ep", "error_tot", "aurc"),
    *("seconds", "passes"),
)
# Methods without which a pair is not ranked.
RANKED = (NETWORK, TEMPERATURE, ENSEMBLE, DEFAULT)
NOTHING = "–"
# The rows of the README's table, and what it calls them.
GAINS = {
    NETWORK: "the network",
    TEMPERATURE: "temperature scaling",
    ENSEMBLE: "deep ensemble of five",
    DEFAULT: "**sbmc**",
}


def read_records(out: Path, part: str) -> list[dict[str, Any]]:
    """All records of a part that there are."""
    return _read(out, part, record_file)


def read_checks(out: Path, part: str) -> list[dict[str, Any]]:
    """All records of the check against long chains, of a part."""
    return _read(out, part, check_file)


def _read(out: Path, part: str, file_of: Any) -> list[dict[str, Any]]:
    records = [
        read_pair_record(file_of(out, pair.name, seed))
        for pair in gauntlet_pairs(part)
        for seed in gauntlet_seeds()
    ]
    return [record for record in records if record["methods"]]


def ranking_of(out: Path, part: str) -> Ranking:
    """Average ranks in NLL over the data sets of a part."""
    return average_ranks(read_records(out, part), "nll", RANKED)


def gauntlet_lines(out: Path) -> list[str]:
    """The tables of both parts, in Markdown, as lines."""
    lines = []
    for part in PARTS:
        records, checks = read_records(out, part), read_checks(out, part)
        wanted = len(gauntlet_pairs(part)) * len(gauntlet_seeds())
        lines += [f"## {part.capitalize()} ({len(records)} of {wanted} runs recorded)", ""]
        if not records:
            lines += ["No record yet: `sbmc run gauntlet` makes them.", ""]
            continue
        lines += [
            *_older(records),
            *_means(records),
            "",
            *_missing(records),
            *_by_pair(records),
            "",
        ]
        lines += [*_requirements(records, checks), "", *_tests(records), ""]
        lines += [_ranks(ranking_of(out, part)), ""]
    return lines


def gain_lines(out: Path, part: str = "confirmation") -> list[str]:
    """The README's table: what is gained on average over the pairs of a part, in Markdown.

    A network alone has no epistemic entropy, so inputs out of domain are told by total entropy.
    Time is in seconds and as a multiple of the network's own training.
    """
    records = read_records(out, part)
    names = ("accuracy", "nll", "ood_tot", "seconds")
    means = {name: pair_means(records, name) for name in names}
    values = {
        method: {name: mean(each for _, each in means[name][method].values()) for name in names}
        for method in GAINS
    }
    lines = _head(["", "accuracy", "NLL", "OOD-AUROC", "time"])
    for method, words in GAINS.items():
        own = values[method]
        multiple = own["seconds"] / values[NETWORK]["seconds"]
        cells = [f"{100 * own['accuracy']:.1f} %", f"{own['nll']:.3f}", f"{own['ood_tot']:.3f}"]
        lines.append(_row([words, *cells, f"{multiple:.1f}× ({own['seconds']:.0f} s)"]))
    return lines


def _older(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A remark on records that were made in another way."""
    older = sum(record.get("protocol") != PROTOCOL for record in records)
    if not older:
        return []
    return [
        f"{older} of these runs are of an older protocol: networks and ensembles were trained in a "
        "plain loop of torch. Their seconds are not those of one engine, and flatter sbmc.",
        "",
    ]


def _means(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Means over pairs, for each method, and on how many pairs it has them."""
    columns = {name: pair_means(records, name) for name in SHOWN}
    pairs = {record["pair"] for record in records}
    lines = _head(["method", "pairs", *SHOWN, "health ok"])
    for method in METHODS:
        known = columns["nll"].get(method, {})
        if not known:
            continue
        cells = []
        for name in SHOWN:
            values = [value for _, value in columns[name].get(method, {}).values()]
            cells.append(_number(mean(values)) if values else NOTHING)
        verdicts = healthy(records, [], method)
        health = f"{verdicts.count} of {verdicts.of}" if verdicts.of else NOTHING
        lines.append(_row([method, f"{len(known)} of {len(pairs)}", *cells, health]))
    return lines


def _missing(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which methods cannot be used on which pairs, and why."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in records:
        for method, result in record["methods"].items():
            if "missing" in result and record["pair"] not in found[method, result["missing"]]:
                found[method, result["missing"]].append(record["pair"])
    if not found:
        return []
    lines = _head(["missing", "pairs", "reason"])
    for (method, reason), pairs in found.items():
        if pairs:
            lines.append(_row([method, ", ".join(pairs), reason.replace("|", "/")]))
    return [*lines, ""]


def _by_pair(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The network, temperature scaling, the ensemble and ours, pair by pair."""
    means = {name: pair_means(records, name) for name in ("nll", "ood_ep", "ece")}
    columns = {
        "NLL network": ("nll", NETWORK),
        "ensemble of 5": ("nll", ENSEMBLE),
        "sbmc": ("nll", DEFAULT),
        "without unseen rows": ("nll", WITHOUT_VALIDATION),
        "OOD ensemble of 5": ("ood_ep", ENSEMBLE),
        "sbmc ": ("ood_ep", DEFAULT),
        "ECE temperature": ("ece", TEMPERATURE),
        "sbmc  ": ("ece", DEFAULT),
    }
    costs = {name: ratios(records, name, DEFAULT) for name in ("seconds", "passes")}
    lines = _head(["pair", *columns, "seconds, ratio", "passes, ratio", "ok", "trained by"])
    for pair in means["nll"].get(DEFAULT, {}):
        own = [record for record in records if record["pair"] == pair]
        cells = [means[column].get(method, {}).get(pair) for column, method in columns.values()]
        verdicts = healthy(own, [], DEFAULT)
        lines.append(
            _row(
                [
                    pair,
                    *(NOTHING if each is None else _number(each[1]) for each in cells),
                    *(_ratio(costs[name].get(pair)) for name in ("seconds", "passes")),
                    f"{verdicts.count} of {verdicts.of}",
                    _engine(own),
                ]
            )
        )
    return lines


def _engine(records: Sequence[Mapping[str, Any]]) -> str:
    """What trained the networks of a pair; records of before do not say it."""
    engines = {
        result["about"].get("engine", NOTHING)
        for record in records
        if "about" in (result := record["methods"].get(NETWORK, {}))
    }
    return ", ".join(sorted(engines))


def _requirements(
    records: Sequence[Mapping[str, Any]], checks: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The required figures, with what was measured with unseen rows and without."""
    lines = _head(["of pairs", DEFAULT, "required", WITHOUT_VALIDATION, "required"])
    for each in REQUIREMENTS:
        cells = [each.text]
        for method, least in ((DEFAULT, each.least), (WITHOUT_VALIDATION, each.least_without)):
            measured = each.measure(records, checks, method)
            cells += [_measured(measured), _required(least, measured)]
        lines.append(_row(cells))
    return lines


def _measured(value: Share | float | None) -> str:
    return NOTHING if value is None else str(value) if isinstance(value, Share) else f"{value:+.3f}"


def _required(least: float | None, measured: Share | float | None) -> str:
    if least is None:
        return NOTHING
    value = measured.value if isinstance(measured, Share) else measured
    text = f"{100 * least:.0f} %" if isinstance(measured, Share) else f"{least:g}"
    return text if value is None else f"{text}: {'holds' if value >= least else 'missed'}"


def _tests(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ours against every method: the unit is the data set."""
    lines = _head(["NLL: sbmc minus", "mean", "better on", "p", "Holm", "detectable"])
    for each in compare(records, "nll", DEFAULT):
        tests = (each.p, each.holm, each.detectable)
        lines.append(
            _row(
                [
                    each.method,
                    f"{each.difference:+.3f}",
                    f"{each.wins} of {each.sets} sets",
                    *(NOTHING if value is None else f"{value:.3f}" for value in tests),
                ]
            )
        )
    return lines


def _ranks(ranking: Ranking) -> str:
    if len(ranking.ranks) < 2:
        return f"No ranks: there is no pair on which {', '.join(RANKED)} all have a value."
    listed = ", ".join(f"{method} {rank:.2f}" for method, rank in ranking.ranks.items())
    told = f"Average ranks in NLL over {ranking.sets} data sets: {listed}; critical difference "
    told += f"{ranking.critical:.2f} (Nemenyi, level 0.05)."
    if ranking.left_out:
        told += f" Not on all these pairs, and so not ranked: {', '.join(ranking.left_out)}."
    return told


def _ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3f}"


def _head(cells: Sequence[str]) -> list[str]:
    return [_row([cell.strip() for cell in cells]), _row(["---"] * len(cells))]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
