"""Data sets of Hugging Face's package `datasets`, recognised by their methods."""

from __future__ import annotations

from typing import Any

from sbmc.checks import BadInput


def in_torch_format(dataset: Any, name: str) -> Any:
    """A data set of Hugging Face's `datasets` that gives tensors; any other one as it is.

    Args:
        dataset: a data set. One of Hugging Face's with a format of its own keeps it.
        name: what error messages call it.

    Raises:
        BadInput: it has columns of text; the message has their names.
    """
    if not (hasattr(dataset, "with_format") and hasattr(dataset, "column_names")):
        return dataset
    if dict(getattr(dataset, "format", None) or {}).get("type") is None:
        dataset = dataset.with_format("torch")
    first = dataset[0] if len(dataset) else {}
    texts = [key for key, value in first.items() if isinstance(value, str)]
    if texts:
        raise BadInput(
            f"`{name}` must have columns of numbers, but got text in {', '.join(map(repr, texts))}."
            f" Tokenise it, and leave it out: dataset.remove_columns({texts!r})."
        )
    return dataset
