"""Tables from the records of the gauntlet: larger networks, OOD as a proxy, cost in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from scipy import stats

from sbmc.report.numbers import MISSING
from sbmc_studies.gauntlet.comparison import pair_means
from sbmc_studies.gauntlet.fitted import DEFAULT
from sbmc_studies.gauntlet.methods import METHODS
from sbmc_studies.gauntlet.pairs import gauntlet_pairs
from sbmc_studies.gauntlet.requirements import ENSEMBLE, NETWORK
from sbmc_studies.gauntlet.table import read_records
from sbmc_studies.paper.tables.lines import Line, markdown_lines
from sbmc_studies.reviewers.questions import weights_of_pairs

PART = "confirmation"  # claims are made on these pairs alone
# Each score of uncertainty beside each task that it is asked for, by its column in a record.
SCORES = {"epistemic": "ep", "total": "tot"}

Records = Sequence[Mapping[str, Any]]


def size_table(records: Path) -> str:
    """Pairs of the gauntlet by the number of weights that are sampled, the smallest first."""
    runs = read_records(records, PART)
    weights = weights_of_pairs()
    nll, ood = pair_means(runs, "nll"), pair_means(runs, "ood_ep")
    names = [pair.name for pair in gauntlet_pairs(PART)]
    names.sort(key=lambda name: weights.get(name, float("inf")))
    lines = []
    for name in names:
        ours = [run for run in runs if run["pair"] == name and DEFAULT in run["methods"]]
        healthy = sum(run["methods"][DEFAULT]["about"]["health"]["ok"] for run in ours)
        cells = [f"{weights[name]:,}" if name in weights else MISSING]
        cells += [_cell(nll, method, name) for method in (NETWORK, ENSEMBLE, DEFAULT)]
        cells += [_cell(ood, method, name) for method in (ENSEMBLE, DEFAULT)]
        lines.append(Line((name, *cells, f"{healthy} of {len(ours)}")))
    headings = [
        *("pair", "weights sampled", "NLL network", "NLL ensemble of 5", "NLL sbmc"),
        *("OOD-AUROC ensemble of 5", "OOD-AUROC sbmc", "health ok"),
    ]
    return markdown_lines(headings, lines)


def proxy_table(records: Path) -> str:
    """Whether a method that tells inputs out of domain also tells its own errors.

    For each score, methods are ranked within a pair by the area under the ROC curve out of domain,
    and by that for wrong answers; Spearman's correlation of the two is taken over the methods, and
    its median over the pairs. The last column compares the ranks out of domain with those in NLL.
    """
    runs = read_records(records, PART)
    lines = []
    for label, short in SCORES.items():
        found, errors = pair_means(runs, f"ood_{short}"), pair_means(runs, f"error_{short}")
        nll = pair_means(runs, "nll")
        methods = [name for name in METHODS if name != NETWORK or short == "tot"]
        own = _correlations(found, errors, methods)
        with_nll = _correlations(found, nll, methods, sign=-1)
        lines.append(Line((f"{label} entropy", str(len(own)), _summary(own), _summary(with_nll))))
    headings = ("score", "pairs", "out of domain and own errors", "out of domain and NLL")
    return markdown_lines(headings, lines)


def _correlations(
    first: Mapping[str, Any], second: Mapping[str, Any], methods: Sequence[str], sign: int = 1
) -> list[float]:
    """Spearman's correlation over methods, for each pair that has five of them or more."""
    found = []
    for pair in gauntlet_pairs(PART):
        known = [
            name
            for name in methods
            if pair.name in first.get(name, {}) and pair.name in second.get(name, {})
        ]
        if len(known) >= 5:
            columns = [[each[name][pair.name][1] for name in known] for each in (first, second)]
            found.append(sign * float(stats.spearmanr(*columns).statistic))
    return found


def _summary(correlations: Sequence[float]) -> str:
    if not correlations:
        return MISSING
    above = sum(value > 0 for value in correlations)
    return f"median {median(correlations):+.2f}, above 0 on {above} of {len(correlations)}"


def cost_table(records: Path) -> str:
    """Gradient passes and seconds of whole methods, as ratios to the ensemble of five."""
    runs = read_records(records, PART)
    passes, seconds = pair_means(runs, "passes"), pair_means(runs, "seconds")
    lines = []
    for method in METHODS:
        ratios = [_ratios(each, method) for each in (passes, seconds)]
        if ratios[0]:
            lines.append(Line((method, str(len(ratios[0])), *map(_spread, ratios))))
    headings = ("method", "pairs", "passes over the ensemble's", "seconds over the ensemble's")
    return markdown_lines(headings, lines)


def _ratios(values: Mapping[str, Any], method: str) -> list[float]:
    reference = values.get(ENSEMBLE, {})
    known = values.get(method, {})
    return [known[pair][1] / reference[pair][1] for pair in known if pair in reference]


def _spread(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else MISSING


def _cell(values: Mapping[str, Any], method: str, pair: str) -> str:
    known = values.get(method, {})
    return f"{known[pair][1]:.3f}" if pair in known else MISSING
