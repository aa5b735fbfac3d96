"""Tables of accuracy, disagreement and cost, from records of one experiment, pooled over seeds."""

from __future__ import annotations

from pathlib import Path

from sbmc.report.numbers import MISSING
from sbmc_studies.paper.tables.columns import COLUMNS
from sbmc_studies.paper.tables.lines import Line, count, markdown_lines, our_cells, seeded_label
from sbmc_studies.records.health import pooled_verdict
from sbmc_studies.records.pooling import find_records, pool
from sbmc_studies.reviewers.questions import Question

HEADINGS = (
    "",
    *(column.heading for column in COLUMNS),
    "epochs a particle",
    "epochs in all, training counted",
    "health",
)


def question_table(question: Question, records: Path) -> str:
    """A question's table, in Markdown.

    Args:
        question: which rows.
        records: the folder of all records.

    Returns:
        Means over seeds with standard errors. Costs in all have the training of the anchors in
        them; a row without records has dashes.
    """
    lines = []
    for row in question.rows:
        completed = find_records(records, question.experiment, row)
        if not completed:
            lines.append(Line((row.label, *[MISSING] * (len(HEADINGS) - 1))))
            continue
        pooled = pool(completed).weighted(row.weighting or "")
        # A method without gradients counts forward epochs alone.
        epochs = (pooled.cost["epochs"] or 0) + (pooled.cost["forward_epochs"] or 0)
        spent = (count(epochs), count(pooled.cost["total_epochs"]), pooled_verdict(completed))
        label = seeded_label(row.label, pooled)
        lines.append(Line((label, *our_cells(pooled, COLUMNS), *spent)))
    return markdown_lines(HEADINGS, lines)
