"""What the records do not bear out: required figures that are missed, and claims that fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.gauntlet.fitted import DEFAULT, WITHOUT_VALIDATION
from sbmc_studies.gauntlet.requirements import REQUIREMENTS as GAUNTLET_FIGURES
from sbmc_studies.gauntlet.requirements import Share
from sbmc_studies.gauntlet.table import read_checks, read_records
from sbmc_studies.paper.claims.all_studies import CONFIDENCE, STUDIES
from sbmc_studies.paper.claims.claim import Claim, check_claim
from sbmc_studies.paper.tables.lines import Line, markdown_lines
from sbmc_studies.paper.tables.study import differences
from sbmc_studies.reviewers.gauntlet_tables import PART
from sbmc_studies.tables.comparison import read_results
from sbmc_studies.tables.requirements import MISSED
from sbmc_studies.tables.requirements import REQUIREMENTS as TABLE_FIGURES


def missed_figures(records: Path) -> str:
    """The required figures of the gauntlet's confirmation part and of the tables that are missed.

    Args:
        records: the folder of all records.

    Returns:
        A line for each, with what was measured, in Markdown.
    """
    lines = [*_gauntlet_misses(records), *_table_misses(records)]
    return _words(("study", "required", "measured"), lines)


def _gauntlet_misses(records: Path) -> Iterator[Line]:
    runs, checks = read_records(records, PART), read_checks(records, PART)
    for figure in GAUNTLET_FIGURES:
        for method, least in ((DEFAULT, figure.least), (WITHOUT_VALIDATION, figure.least_without)):
            measured = figure.measure(runs, checks, method)
            value = measured.value if isinstance(measured, Share) else measured
            if least is None or value is None or value >= least:
                continue
            share = isinstance(measured, Share)
            bound = f"{100 * least:.0f} %" if share else f"{least:g}"
            shown = str(measured) if share else f"{value:+.3f}"
            yield Line((f"gauntlet, {method}", f"{figure.text}: {bound}", shown))


def _table_misses(records: Path) -> Iterator[Line]:
    results = read_results(records)
    for figure in TABLE_FIGURES:
        verdict = figure.measure(results)
        if verdict.verdict == MISSED:
            yield Line(("tables", figure.text, verdict.measured))


def missed_claims(records: Path) -> str:
    """The claims of the paper, and of ours on its studies, that the records do not bear out.

    Args:
        records: the folder of all records.

    Returns:
        A line for each reason, with the claims that fail for it and their numbers, in Markdown.
    """
    failing: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, (made, reasons) in STUDIES.items():
        for text, why in _failing(name, made, reasons, records):
            failing[name, why].append(text)
    for name, (by_protocol, reasons) in CONFIDENCE.items():
        for protocol, made in by_protocol.items():
            for text, why in _failing(name, made, reasons, records):
                failing[f"{name}, confidence", why].append(f"{text}, {protocol} protocol")
    lines = [Line((name, "<br>".join(texts), why)) for (name, why), texts in failing.items()]
    return _words(("study", "claims that fail", "what is known of the reason"), lines)


def _failing(
    name: str, made: Iterable[Claim], reasons: Mapping[str, str], records: Path
) -> Iterator[tuple[str, str]]:
    for claim in made:
        verdict = check_claim(claim, records, name)
        if not verdict.holds:
            why = reasons.get(claim.name, "no reason is known")
            yield f"{verdict.statement}: {verdict.evidence}", why


def outside_tolerance(records: Path) -> str:
    """How many rows of the paper's tables have a number outside the tolerance, by study.

    Args:
        records: the folder of all records.

    Returns:
        The counts, and the command that names the rows with their reasons, in Markdown.
    """
    lines = []
    for name in STUDIES:
        study = get_experiment(name)
        compared = sum(row.paper is not None for row in study.rows)
        outside = len(differences(study, records))
        lines.append(Line((name, str(compared), str(outside), f"`sbmc table {name}`")))
    headings = ("study", "rows beside the paper's", "with a number outside", "named by")
    return markdown_lines(headings, lines)


def _words(headings: Sequence[str], lines: Sequence[Line]) -> str:
    """A table of words, whose columns begin at the left."""
    return markdown_lines(headings, lines).replace("---:", "---", len(headings))
