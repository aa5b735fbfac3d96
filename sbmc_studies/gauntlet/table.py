"""The gauntlet's tables: each method by pair, and ours against the others over data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from sbmc_studies.gauntlet.comparison import (
    average_ranks,
    compare,
    critical_difference,
    pair_means,
)
from sbmc_studies.gauntlet.methods import METHODS
from sbmc_studies.gauntlet.pairs import PARTS, gauntlet_pairs, gauntlet_seeds
from sbmc_studies.gauntlet.running import read_pair_record, record_file

OURS, ENSEMBLE, NETWORK = "sbmc", "ensemble-5", "network"
SHOWN = ("nll", "accuracy", "ood_ep", "error_tot", "brier", "ece", "seconds", "passes")
NO_WORSE = 0.01


def read_records(out: Path, part: str) -> list[dict[str, Any]]:
    """All records of a part that there are."""
    records = [
        read_pair_record(record_file(out, pair.name, seed))
        for pair in gauntlet_pairs(part)
        for seed in gauntlet_seeds()
    ]
    return [record for record in records if record["methods"]]


def gauntlet_lines(out: Path) -> list[str]:
    """The tables of both parts, in Markdown, as lines."""
    lines = []
    for part in PARTS:
        records = read_records(out, part)
        made = len(records)
        wanted = len(gauntlet_pairs(part)) * len(gauntlet_seeds())
        lines += [f"## {part.capitalize()} ({made} of {wanted} runs recorded)", ""]
        if not records:
            lines += ["No record yet: `sbmc run gauntlet` makes them.", ""]
            continue
        lines += [*_means(records), "", *_by_pair(records), "", *_verdicts(records), ""]
        lines += [*_tests(records), ""]
    return lines


def _means(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Means over pairs, for each method; a method that is missing somewhere says where."""
    columns = {name: pair_means(records, name) for name in SHOWN}
    pairs = {record["pair"] for record in records}
    lines = [_row(["method", "pairs", *SHOWN]), _row(["---"] * (2 + len(SHOWN)))]
    for method in METHODS:
        known = columns["nll"].get(method, {})
        if not known:
            continue
        cells = []
        for name in SHOWN:
            values = [value for _, value in columns[name].get(method, {}).values()]
            cells.append(_number(mean(values)) if values else "–")
        lines.append(_row([method, f"{len(known)} of {len(pairs)}", *cells]))
    return lines


def _by_pair(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """NLL and AUROC out of domain of the network, the ensemble and ours, pair by pair."""
    nll, ood = pair_means(records, "nll"), pair_means(records, "ood_ep")
    lines = [
        _row(["pair", "NLL network", "ensemble of 5", "sbmc", "OOD ensemble of 5", "sbmc", "ok"]),
        _row(["---"] * 7),
    ]
    for pair in nll.get(OURS, {}):
        cells = [nll.get(name, {}).get(pair) for name in (NETWORK, ENSEMBLE, OURS)]
        cells += [ood.get(name, {}).get(pair) for name in (ENSEMBLE, OURS)]
        health = _health(record for record in records if record["pair"] == pair)
        lines.append(
            _row([pair, *("–" if each is None else _number(each[1]) for each in cells), health])
        )
    return lines


def _health(records: Any) -> str:
    verdicts = [
        record["methods"][OURS]["about"]["health"]["ok"]
        for record in records
        if "about" in record["methods"].get(OURS, {})
    ]
    return f"{sum(map(bool, verdicts))} of {len(verdicts)}"


def _verdicts(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The required figures, with what was measured."""
    nll, ood = pair_means(records, "nll"), pair_means(records, "ood_ep")
    ours = nll.get(OURS, {})
    network, ensemble = nll.get(NETWORK, {}), nll.get(ENSEMBLE, {})
    no_worse = [ours[p][1] <= network[p][1] + NO_WORSE for p in ours.keys() & network.keys()]
    below = [ours[p][1] < ensemble[p][1] for p in ours.keys() & ensemble.keys()]
    shared = ood.get(OURS, {}).keys() & ood.get(ENSEMBLE, {}).keys()
    gains = [ood[OURS][p][1] - ood[ENSEMBLE][p][1] for p in shared]
    runs = [r["methods"][OURS]["about"]["health"]["ok"] for r in records if OURS in r["methods"]]
    lines = [
        f"- NLL at most the network's + {NO_WORSE}: {_share(no_worse)} of pairs (required 95 %).",
        f"- NLL below the ensemble of five's: {_share(below)} of pairs (required 70 %).",
        f"- Health ok: {_share(runs)} of runs (required 90 %).",
    ]
    if gains:
        above = _share([gain > 0 for gain in gains])
        lines.append(
            f"- AUROC out of domain by epistemic entropy above the ensemble's: {above} of pairs "
            f"(required 75 %), median gain {median(gains):+.3f} (required 0.04)."
        )
    return lines


def _tests(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ours against every method: the unit is the data set."""
    headings = ["NLL: sbmc minus", "mean", "better on", "p", "Holm", "detectable"]
    lines = [_row(headings), _row(["---"] * len(headings))]
    for each in compare(records, "nll", OURS):
        lines.append(
            _row(
                [
                    each.method,
                    f"{each.difference:+.3f}",
                    f"{each.wins} of {each.sets} sets",
                    "–" if each.p is None else f"{each.p:.3f}",
                    "–" if each.holm is None else f"{each.holm:.3f}",
                    "–" if each.detectable is None else f"{each.detectable:.3f}",
                ]
            )
        )
    ranks = average_ranks(records, "nll")
    if len(ranks) > 1:
        sets = len({record["data"]["name"] for record in records})
        listed = ", ".join(f"{method} {rank:.2f}" for method, rank in ranks.items())
        difference = critical_difference(len(ranks), sets)
        lines += ["", f"Average ranks in NLL over {sets} data sets: {listed}; critical difference "]
        lines[-1] += f"{difference:.2f} (Nemenyi, level 0.05)."
    return lines


def _share(values: Sequence[Any]) -> str:
    return f"{100 * sum(map(bool, values)) / len(values):.0f} %" if values else "–"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3f}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
