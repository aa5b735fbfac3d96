"""Inputs of a data set without its targets, for predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader

from sbmc.checks import BadInput, Phrase, require
from sbmc.model.data import (
    Inputs,
    batch_inputs,
    is_array,
    join_inputs,
    leaves,
)
from sbmc.model.hugging_face import in_torch_format
from sbmc.model.reading import READ_BATCH, dataset_length, read_batch

# The inputs of larger data sets are read in batches as they are predicted.
HELD_BYTES = 4 * 2**30


def is_dataset(value: Any) -> bool:
    """Whether it is a map-style data set: neither an array, nor a list, tuple, dict or loader."""
    readable = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    other = isinstance(value, (list, tuple, DataLoader)) or hasattr(value, "__array__")
    return readable and not other and not is_array(value)


def dataset_inputs(dataset: Any, arity: int | None = None, name: str = "inputs") -> Inputs:
    """The inputs of all items of a data set, in its order; targets, if it has any, are dropped.

    Args:
        dataset: a map-style data set, whose items are inputs, `(inputs, target)`, `(a, b, target)`
            or dicts.
        arity: inputs that the model takes, if it is known; see `batch_inputs`.
        name: what error messages call it.

    Returns:
        The inputs.

    Raises:
        BadInput: it is empty, or its items cannot be put together.

    Examples:
        >>> import torch
        >>> from torch.utils.data import TensorDataset
        >>> dataset_inputs(TensorDataset(torch.ones(3, 2), torch.tensor([0, 1, 1]))).shape
        torch.Size([3, 2])
    """
    total = dataset_length(dataset, name)
    require(total > 0, name, "non-empty", Phrase("0 examples"))
    dataset = in_torch_format(dataset, name)
    parts = []
    for start in range(0, total, READ_BATCH):
        batch = read_batch(dataset, range(start, min(start + READ_BATCH, total)), name)
        # A data set of tensors, without targets, is collated into one tensor.
        parts.append(batch_inputs(batch, name, arity))
    try:
        return join_inputs(parts)
    except RuntimeError as error:
        raise BadInput(
            f"`{name}` must be of one shape in all batches, but got batches of others."
        ) from error


def takes_much(dataset: Any, name: str = "inputs") -> bool:
    """Whether all items of a data set take more than `HELD_BYTES`, by the first of them."""
    total = dataset_length(dataset, name)
    if total == 0:
        return False
    first = batch_inputs(read_batch(in_torch_format(dataset, name), [0], name), name)
    return total * sum(tensor.nbytes for tensor in leaves(first)) > HELD_BYTES


def arity_of(described: Mapping[str, Any] | None) -> int | None:
    """Inputs that a model takes by position, by `Posterior.input_description`; None if unknown."""
    rows = (described or {}).get("inputs")
    if not rows or rows["form"] == "dict":
        return None
    return len(rows["leaves"])
