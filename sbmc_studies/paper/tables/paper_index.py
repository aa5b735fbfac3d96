"""A line for every table and figure of the paper: how it is made here, and one number of each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from sbmc.checks import BadInput
from sbmc.report.numbers import MISSING
from sbmc_studies.experiments.experiment import Experiment, Row, experiment_names, get_experiment
from sbmc_studies.experiments.methods import METHODS
from sbmc_studies.paper.numbers import groups, paper_rows, read_table
from sbmc_studies.paper.tables.appendix import row_like
from sbmc_studies.paper.tables.confidence import KINDS, confidence_rows, find_confidence
from sbmc_studies.paper.tables.lines import Line, markdown_lines
from sbmc_studies.paper.tables.specs import Spec, appendix_specs, paper_setting
from sbmc_studies.records.pooling import Pooled, find_records, pool
from sbmc_studies.records.record import Record, read_seeds

METHOD = "s-hmc"  # whose numbers are shown for a table
HEADINGS = (
    *("of the paper", "what", "command", "minutes", "records"),
    *("S-HMC∥, largest P", "paper", "ours"),
)
TEXT_COLUMNS = (0, 1, 2, 4, 5)
FOOTNOTE = (
    "One number stands for each: accuracy (%) and NLL, or the meta-classifier's AUC-ROC, or a "
    "group's H_ep, of S-HMC∥ with the largest P that the paper's table has. minutes: wall time of "
    "all runs behind it together, five seeds or as many as there are, one thread each; runs serve "
    f"several tables. {MISSING}: no record, or nothing to compare."
)
_MARKS = re.compile(r"(<!-- index -->\n).*?(<!-- end index -->)", re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """A table or figure of the paper.

    Attributes:
        name: its number or label there.
        what: what it shows.
        command: that makes it here.
        study: whose records it needs.
        table: the paper's table whose numbers are shown for it, if there is one.
        confidence: the same, of the meta-classifier.
        group: the group, in a table by groups.
    """

    name: str
    what: str
    command: str
    study: str
    table: str | None = None
    confidence: str | None = None
    group: str | None = None


def read_index() -> tuple[Entry, ...]:
    """All tables and figures that show results, in the order of the paper.

    Examples:
        >>> [entry.command for entry in read_index() if entry.name == "Table 1"]
        ['sbmc table mnist7']
    """
    file = resources.files("sbmc_studies").joinpath("paper/expected/index.toml")
    return tuple(Entry(**each) for each in tomllib.loads(file.read_text("utf-8"))["entry"])


def build_index(records: Path) -> list[Line]:
    """A line for each of them, from the records.

    Args:
        records: the folder of all records.

    Returns:
        The lines; what has no record has no number.
    """
    known = experiment_names()
    return [_line(entry, records, entry.study in known) for entry in read_index()]


def index_markdown(records: Path) -> str:
    """The index as a Markdown table, in a page beside the folder of records."""
    return markdown_lines(HEADINGS, build_index(records), TEXT_COLUMNS)


def write_index(page: str, records: Path) -> str:
    """Put the index between its marks.

    Args:
        page: Markdown with `<!-- index -->` and `<!-- end index -->`.
        records: the folder of all records.

    Returns:
        The page with the newest numbers.

    Raises:
        BadInput: if the page has no such marks.
    """
    if not _MARKS.search(page):
        raise BadInput("`write` must be a page with the marks `<!-- index -->`, but it has none.")
    filled = f"\n{index_markdown(records)}\n\n{FOOTNOTE}\n\n"
    return _MARKS.sub(lambda mark: mark.group(1) + filled + mark.group(2), page)


def _line(entry: Entry, records: Path, runs: bool) -> Line:
    commands = "<br>".join(f"`{part.strip()}`" for part in entry.command.split(";"))
    what, paper, ours, minutes = "", MISSING, MISSING, MISSING
    if runs and (entry.table or entry.confidence):
        study = get_experiment(entry.study)
        if entry.confidence:
            what, paper, ours, used = _confidence(entry, study, records)
        elif entry.group:
            what, paper, ours, used = _group(entry, study, records)
        else:
            what, paper, ours, used = _metrics(entry, study, records)
        minutes = _minutes(used, records)
    has_records = (records / entry.study).is_dir()
    where = entry.study if has_records else MISSING
    return Line((entry.name, entry.what, commands, minutes, where, what or MISSING, paper, ours))


def _metrics(entry: Entry, study: Experiment, records: Path) -> tuple[str, str, str, list[Record]]:
    spec, rows = _spec(entry, study), paper_rows(str(entry.table))
    used = [
        record
        for row in (row_like(study, spec, each) for each in rows if each.method in _known())
        if row is not None
        for record in find_records(records, study, row)
    ]
    ours = [row for row in rows if row.method == METHOD]
    most = max(row.islands or 1 for row in ours)
    paper = next(row for row in ours if (row.islands or 1) == most)
    row = row_like(study, spec, paper)
    assert row is not None  # only long chains have none
    pooled = _pool(find_records(records, study, row))
    at = "" if paper.s is None else f", s = {paper.s:g}"
    theirs, values = _accuracy_and_nll(paper.values), None if pooled is None else pooled.values
    return f"accuracy, NLL (P = {most}{at})", theirs, _accuracy_and_nll(values), used


def _accuracy_and_nll(values: Mapping[str, float] | None) -> str:
    return MISSING if values is None else f"{100 * values['accuracy']:.1f} %, {values['nll']:.3f}"


def _group(entry: Entry, study: Experiment, records: Path) -> tuple[str, str, str, list[Record]]:
    theirs = groups(study.name)[str(entry.group)]
    row = next(
        row
        for row in read_table(str(entry.table))
        if row["method"] == METHOD and row["group"] == theirs
    )
    islands = int(row["islands"] or 1)
    s, v = (float(row[name]) if row.get(name) else None for name in ("s", "v"))
    setting = paper_setting(study, _spec(entry, study), METHOD, s, v, islands)
    used = find_records(records, study, setting)
    pooled, metric = _pool(used), f"entropy.epistemic.ood.{entry.group}"
    ours = MISSING if pooled is None else f"{pooled.values[metric]:.3g}"
    return f"H_ep of {entry.group} (P = {islands})", f"{float(row['h_ep']):.3g}", ours, used


def _confidence(
    entry: Entry, study: Experiment, records: Path
) -> tuple[str, str, str, list[Record]]:
    table = str(entry.confidence)
    kind = next(kind for kind in KINDS.values() if kind.paper and table.endswith(kind.paper))
    belongs = table.removesuffix(f"_{kind.paper}")
    rows = [row for row in confidence_rows(study) if _is_in_table(row, study, belongs)]
    used = [record for row in rows for record in _confident(records, study, row)]
    paper = {int(row["islands"] or 1): row for row in read_table(table) if row["method"] == METHOD}
    most = max(paper)
    pooled = next(
        (
            find_confidence(records, study, row)
            for row in rows
            if row.method == METHOD and row.preset == "paper" and row.overrides["islands"] == most
        ),
        None,
    )
    metric = kind.metric("paper", "auc_roc")
    value = None if pooled is None else pooled.values.get(metric)
    ours = MISSING if value is None else f"{value:.3f}"
    return f"AUC-ROC (P = {most})", f"{float(paper[most]['auc_roc']):.3f}", ours, used


def _is_in_table(row: Row, study: Experiment, belongs: str) -> bool:
    named = (row.paper or {}).get("table", study.name)
    return row.paper is not None and named == belongs


def _confident(records: Path, study: Experiment, row: Row) -> Sequence[Record]:
    pooled = find_confidence(records, study, row)
    return pooled.records if pooled else ()


def _spec(entry: Entry, study: Experiment) -> Spec:
    specs = {spec.paper: spec for spec in appendix_specs(study.name)}
    return specs.get(str(entry.table), Spec(str(entry.table), entry.what))


def _known() -> list[str]:
    return [*METHODS, "hmc-gs"]


def _pool(records: Sequence[Record]) -> Pooled | None:
    return pool(records) if records else None


def _minutes(used: Sequence[Record], records: Path) -> str:
    """Wall time of runs, each counted once; first islands of a run are part of it."""
    seconds: dict[tuple[str, str, int], float] = {}
    for each in used:
        runs = [each]
        if each.derived_from:
            sources = read_seeds(records, each.experiment, each.method, each.derived_from)
            runs = [run for run in sources if run.seed == each.seed]
        for run in runs:
            seconds[run.method, run.hash, run.seed] = run.cost["wall_seconds"] or 0.0
    return f"{sum(seconds.values()) / 60:.0f}" if seconds else MISSING
