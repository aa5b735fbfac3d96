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


def refuse_splits(data: Any, name: str) -> None:
    """Refuse several splits of one data set, of which one has to be chosen.

    Args:
        data: anything; splits are a dict of data sets.
        name: what error messages call it.

    Raises:
        BadInput: it is such a dict; the message has the names of the splits.
    """
    if not isinstance(data, dict) or not data:
        return
    if all(hasattr(split, "column_names") for split in data.values()):
        raise BadInput(
            f"`{name}` must be one split of a data set, but got a dict of them: "
            f"{', '.join(map(repr, data))}. Choose one, such as data[{next(iter(data))!r}]."
        )
