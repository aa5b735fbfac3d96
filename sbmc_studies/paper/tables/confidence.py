"""Tables of the meta-classifier from records: ours beside the paper's, in both protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sbmc.checks import BadInput, nearest
from sbmc.report.numbers import MISSING
from sbmc_studies.experiments.experiment import Experiment, Row
from sbmc_studies.paper.numbers import read_table, table_names
from sbmc_studies.paper.tables.lines import (
    PAPER,
    Column,
    Entry,
    Line,
    markdown_lines,
    our_cells,
    plain,
    seeded_label,
)
from sbmc_studies.paper.tables.pages import fill_marks
from sbmc_studies.paper.tables.specs import Block
from sbmc_studies.records.finding import Runs, runs_of
from sbmc_studies.records.pooling import Pooled, pool, row_islands
from sbmc_studies.runs.confidence import PROTOCOLS, has_confidence

# Metric after the prefix of the table, heading, digits.
_DECISIONS = (
    ("precision", "precision", 3),
    ("recall", "recall", 3),
    ("f1", "F1", 3),
    ("auc_roc", "AUC-ROC", 3),
    ("accuracy", "accuracy", 3),
    ("threshold", "threshold", 3),
)
_GUARANTEE = (
    *(
        (f"{kind}.splits.{metric}", f"{label}: {metric}", 4 if metric == "error" else 3)
        for kind, label in (("in_domain", "in domain"), ("mixed", "50/50"))
        for metric in ("error", "coverage", "violations")
    ),
    ("in_domain.error", "test images: error", 4),
    ("in_domain.coverage", "test images: coverage", 3),
)
_OOD = tuple(
    (f"{score}.{metric}", f"{label}: {heading}", 3)
    for score, label in (
        ("max_probability", "max p"),
        ("total", "H_tot"),
        ("epistemic", "H_ep"),
        ("meta_classifier", "classifier"),
    )
    for metric, heading in (("auroc", "AUROC"), ("aupr", "AUPR"), ("fpr95", "FPR95"))
)


@dataclass(frozen=True)
class Kind:
    """One of the tables.

    Attributes:
        title: the text above it.
        prefix: of its metrics in a record, with a place for the protocol.
        columns: metric, heading and digits of each column.
        protocols: those that it exists in.
        paper: name of the paper's table after the experiment's, or None if it has none.
    """

    title: str
    prefix: str
    columns: tuple[tuple[str, str, int], ...]
    protocols: tuple[str, ...] = PROTOCOLS
    paper: str | None = None

    def metric(self, protocol: str, name: str) -> str:
        """The name of a column's metric in a record."""
        infix = "" if protocol == "paper" else f"{protocol}."
        return f"{self.prefix.format(infix)}{name}"

    def headings(self) -> list[str]:
        """The columns."""
        return ["", "P", *(heading for _, heading, _ in self.columns)]


# The paper prints the F1-optimal table twice: as its Table 2, and with errors in the appendix.
KINDS = {
    "optimal_f1": Kind(
        "F1-optimal threshold (the paper's Table 2, and its appendix table with errors)",
        "confidence.{}optimal_f1.",
        _DECISIONS,
        paper="confidence_optimal_f1",
    ),
    "default": Kind(
        "threshold 0.5 (the paper's appendix table)",
        "confidence.{}default.",
        _DECISIONS[:-1],  # its threshold is in the title
        paper="confidence_default",
    ),
    "guarantee": Kind(
        "guaranteed mode: error at most 2 % with probability 95 %, over 200 calibration sets",
        "confidence.{}guarantee.",
        _GUARANTEE,
        protocols=("clean",),
    ),
    "ood": Kind("out-of-domain against in-domain inputs, by each score", "ood.{}", _OOD),
}
# What the marks of a page can ask for; a mark without words asks for everything.
WORDS = (*PROTOCOLS, *KINDS)

FOOTNOTE = (
    'Mean ± standard error over seeds 0–4. Class 1 is "incorrect or out of domain"; accuracy is '
    "that of the two-level estimator. The paper gives no P for its ensemble here: its numbers "
    "stand beside P = 1. S-SMC's islands are combined by evidence unless a row says otherwise, and "
    f"the paper's row for P = 8 stands beside that one. {MISSING}: no record, or not given."
)


def confidence_rows(experiment: Experiment) -> tuple[Row, ...]:
    """The rows of an experiment's confidence tables and figures.

    Args:
        experiment: whose.

    Returns:
        Those that it names; else all rows of its table that show their records' own weighting.
    """
    rows = tuple(row for row in experiment.rows if row.weighting is None)
    return experiment.confidence_rows or rows


def find_confidence(source: Path | Runs, experiment: Experiment, row: Row) -> Pooled | None:
    """Pool the seeds of a row that the meta-classifier has been run on.

    Args:
        source: the folder of all records, or runs that were found otherwise.
        experiment: whose table it is.
        row: the row.

    Returns:
        The pooled records, or None if there are none.
    """
    runs = runs_of(source, experiment.name)
    records = [each for each in runs.records_of(row) if has_confidence(each)]
    return pool(records) if records else None


def build_confidence(
    experiment: Experiment, source: Path | Runs, protocol: str, kind: str
) -> Block:
    """Make one of the confidence tables.

    Args:
        experiment: whose table it is.
        source: the folder of all records, or runs that were found otherwise.
        protocol: `"paper"` or `"clean"`.
        kind: one of `KINDS`.

    Returns:
        A line for each row and, in the paper's protocol, one of the paper's numbers after it where
        there are such; cells without a record are `MISSING`.

    Raises:
        BadInput: if there is no such protocol or table.
    """
    _check((protocol, kind))
    shape, lines = KINDS[kind], []
    metrics = {shape.metric(protocol, name) for name, _, _ in shape.columns}
    papers: dict[str, None] = {}
    filled = False
    for row in confidence_rows(experiment):
        pooled = find_confidence(source, experiment, row)
        filled = filled or (pooled is not None and not metrics.isdisjoint(pooled.values))
        lines.append(_our_line(experiment, row, pooled, shape, protocol))
        name, paper = paper_row(experiment, row, shape)
        if paper and protocol == "paper":
            papers[name] = None
            cells = [_paper_cell(paper, name) for name, _, _ in shape.columns]
            islands = plain(float(paper["islands"]) if paper["islands"] else None)
            lines.append(Line((PAPER, islands, *cells), quiet=True))
    title, headings = table_title(protocol, kind), tuple(shape.headings())
    return Block(experiment.name, title, headings, tuple(lines), tuple(papers), filled)


def chosen_tables(words: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Which tables some words ask for: protocols, kinds, both or neither.

    Args:
        words: from `WORDS`.

    Returns:
        Pairs of protocol and kind.

    Raises:
        BadInput: if a word is none of them.

    Examples:
        >>> chosen_tables(["clean", "default", "guarantee"])
        [('clean', 'default'), ('clean', 'guarantee')]
    """
    _check(words)
    protocols = [each for each in PROTOCOLS if each in words] or list(PROTOCOLS)
    kinds = [each for each in KINDS if each in words] or list(KINDS)
    return [(p, k) for p in protocols for k in kinds if p in KINDS[k].protocols]


def table_title(protocol: str, kind: str) -> str:
    """The title of a table."""
    name = "the paper's protocol" if protocol == "paper" else "clean protocol"
    title = KINDS[kind].title
    if protocol != "paper":  # the paper has no such table
        title = title.split(" (")[0]
    return f"{name[0].upper()}{name[1:]}, {title}"


def markdown(experiment: Experiment, records: Path, words: Sequence[str] = ()) -> str:
    """Some of the tables as Markdown, each under its title.

    Args:
        experiment: whose tables.
        records: the folder of all records.
        words: which ones; see `chosen_tables`.

    Returns:
        The text, without a line break at its end.
    """
    parts = []
    for protocol, kind in chosen_tables(words):
        block = build_confidence(experiment, records, protocol, kind)
        parts.append(f"**{block.title}**\n\n{markdown_lines(block.headings, block.lines)}")
    return "\n\n".join(parts)


def write_confidence(page: str, experiment: Experiment, records: Path) -> str:
    """Put an experiment's confidence tables into a page, between the marks that name it.

    A mark is `<!-- confidence: NAME -->` or, for some tables only, `<!-- confidence: NAME paper
    optimal_f1 -->` on one line; the end is `<!-- end confidence: NAME -->`.

    Args:
        page: the text of a Markdown page.
        experiment: whose tables.
        records: the folder of all records.

    Returns:
        The page with its tables made anew.

    Raises:
        BadInput: if the page has no such mark, or a mark has a word that is not known.
    """
    make = partial(markdown, experiment, records)
    return fill_marks(page, experiment.name, make, start="confidence", end="end confidence")


def _check(words: Sequence[str]) -> None:
    for word in words:
        if word not in WORDS:
            raise BadInput(
                f"`confidence` must be of {', '.join(WORDS)}, but got {word!r}."
                + nearest(word, WORDS)
            )


def _our_line(
    experiment: Experiment, row: Row, pooled: Pooled | None, shape: Kind, protocol: str
) -> Line:
    islands = plain(row_islands(experiment, row))
    if pooled is None:
        return Line((row.label, islands, *[MISSING] * len(shape.columns)))
    columns = [
        Column(shape.metric(protocol, name), "", digits) for name, _, digits in shape.columns
    ]
    return Line((seeded_label(row.label, pooled), islands, *our_cells(pooled, columns)))


def paper_row(experiment: Experiment, row: Row, shape: Kind) -> tuple[str, dict[str, str] | None]:
    """The name of the paper's table for a row of ours, and its row there; None if it has none."""
    if shape.paper is None or row.paper is None:
        return "", None
    wanted = {"islands": "", **{name: str(value) for name, value in row.paper.items()}}
    name = f"{wanted.pop('table', experiment.name)}_{shape.paper}"
    rows = read_table(name) if name in table_names() else []
    matching = [each for each in rows if all(each[key] == value for key, value in wanted.items())]
    return name, matching[0] if len(matching) == 1 else None


def _paper_cell(paper: dict[str, str], name: str) -> Entry:
    text, error = paper.get(name), paper.get(f"{name}_se")
    if not text:
        return Entry(MISSING)
    # With the paper's own digits.
    return Entry(f"{text}±{error}" if error else text, float(text))
