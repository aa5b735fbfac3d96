"""Reads data sets and loaders of users, whose errors it puts into words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from torch.utils.data import DataLoader, default_collate

from sbmc.checks import BadInput, describe_value

# Items of a data set that are read and put together at a time.
READ_BATCH = 256


def read_loader(loader: DataLoader[Any], name: str) -> Iterator[Any]:
    """The batches of a loader, whose errors are in words."""
    batches = iter(loader)
    for number in count():
        try:
            batch = next(batches)
        except StopIteration:
            return
        except Exception as error:  # whatever a user's data set meets
            raise BadInput(
                f"`{name}` must be a DataLoader that can be read, but got an error in its batch "
                f"{number}. The error is above."
            ) from error
        yield batch


def iterable_loader(dataset: Any) -> DataLoader[Any]:
    """A loader of an iterable data set; one that makes batches itself says `makes_batches`."""
    batched = getattr(dataset, "makes_batches", False)
    return DataLoader(dataset, batch_size=None if batched else READ_BATCH)


def dataset_length(data: Any, name: str) -> int:
    """The number of items of a data set, whose errors are in words."""
    try:
        return len(data)
    except (TypeError, ValueError) as error:
        failed = f"a {type(data).__name__} whose length fails"
        raise BadInput(f"`{name}` must be a data set with a length, but got {failed}.") from error


def read_batch(
    dataset: Any,
    indices: Sequence[Any],
    name: str,
    collate: Callable[[list[Any]], Any] = default_collate,
) -> Any:
    """Some items of a data set, put together; errors are in words.

    Args:
        dataset: a map-style data set.
        indices: of the items.
        name: what error messages call it.
        collate: puts them together.

    Returns:
        What `collate` returns.

    Raises:
        BadInput: an item cannot be read, or the items do not go together.
    """
    samples = []
    for index in indices:
        try:
            samples.append(dataset[index])
        except Exception as error:  # whatever a user's data set meets
            raise BadInput(
                f"`{name}` must be a data set whose items can be read, but got an error at item "
                f"{index}. The error is above."
            ) from error
    try:
        return collate(samples)
    except (TypeError, RuntimeError, KeyError, ValueError) as error:
        shown = describe_value(samples[0])
        raise BadInput(
            f"`{name}` must be samples that collate into a batch, but got samples such as "
            f"{shown}. Give tensors of one shape, or a DataLoader with a collate_fn."
        ) from error
