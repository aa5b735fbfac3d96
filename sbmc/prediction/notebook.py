"""The HTML of a prediction in a notebook: what it is, and its first rows."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from sbmc.storage.html_tables import html_table

# As many rows as pandas shows of a long table's beginning, and few enough columns for a page.
ROWS, COLUMNS = 5, 9


def prediction_card(caption: str, columns: Mapping[str, Tensor], unit: str) -> str:
    """HTML of the first examples of a prediction.

    Args:
        caption: what is predicted, of how many examples.
        columns: quantities by name, each `(examples,)` or `(examples, outputs)`.
        unit: what the quantities are measured in, as a sentence.

    Returns:
        A table; wide ones are cut, and say so.
    """
    cells: dict[str, list[str]] = {}
    for name, values in columns.items():
        first = values[:ROWS].detach().cpu()
        if first.ndim == 1:
            cells[name] = _texts(first)
            continue
        flat = first.reshape(len(first), -1)
        for output in range(flat.shape[1]):
            cells[f"{name} {output}" if flat.shape[1] > 1 else name] = _texts(flat[:, output])
    shown = list(cells)[:COLUMNS]
    examples = len(next(iter(columns.values())))
    notes = [unit]
    if examples > ROWS:
        notes.append(f"These are the first {ROWS} of {examples:,} examples.")
    if len(cells) > len(shown):
        notes.append(f"These are {len(shown)} of {len(cells)} columns; `to_pandas` has all.")
    rows = [
        [str(example), *(cells[name][example] for name in shown)]
        for example in range(min(ROWS, examples))
    ]
    return html_table(rows, caption=caption, headings=["example", *shown], notes=[" ".join(notes)])


def _texts(values: Tensor) -> list[str]:
    if not values.is_floating_point():
        return [str(value) for value in values.tolist()]
    return [f"{value:.4g}" for value in values.tolist()]
