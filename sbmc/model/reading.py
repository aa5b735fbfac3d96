"""Reads data sets and loaders of users, whose errors it puts into words."""

from __future__ import annotations

import copy
import signal
from collections.abc import Callable, Generator, Sequence
from itertools import count
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from sbmc.checks import BadInput, Phrase, describe_value, require

# Items of a data set that are read and put together at a time.
READ_BATCH = 256


def read_loader(
    loader: DataLoader[Any], name: str, generator: torch.Generator | None = None
) -> Generator[Any, None, None]:
    """The batches of a loader, whose errors are in words.

    A copy of the loader is read, so that the user's own is left as it was. The copy starts new
    workers for each pass: persistent ones would keep the random numbers of the pass before, and a
    run that continues from a checkpoint has no such pass. Ctrl-C stops the process that reads, and
    this one stops its workers.

    Args:
        loader: makes batches.
        name: what error messages call it.
        generator: of what is random in the loader and its workers; the loader's own if None.

    Raises:
        BadInput: the loader makes batches of batches, or a batch cannot be read.
    """
    together = loader.batch_size is None or not getattr(loader.dataset, "makes_batches", False)
    rule = "a DataLoader with batch_size=None, since its data set makes batches itself"
    require(together, name, rule, Phrase(f"batch_size={loader.batch_size}"))
    loader = copy.copy(loader)
    changes: dict[str, Any] = {"persistent_workers": False, "_iterator": None}
    if generator is not None:
        changes["generator"] = generator
    if loader.num_workers:
        changes["worker_init_fn"] = _WorkerStart(loader.worker_init_fn)
    vars(loader).update(changes)  # a loader allows no other way to change `persistent_workers`
    batches = iter(loader)
    try:
        for number in count():
            try:
                batch = next(batches)
            except StopIteration:
                return
            except Exception as error:  # whatever a user's data set meets
                if isinstance(error, BadInput) and not loader.num_workers:
                    raise
                said = _what_it_says(error)
                raise BadInput(
                    f"`{name}` must be data that can be read, but got an error in its batch "
                    f"{number}{said}. The whole error is above."
                ) from error
            yield batch
    finally:
        # An error refers to its iterator. Workers that are left until both are collected as garbage
        # may find their pipes closed before they have ended.
        if loader.num_workers:
            getattr(batches, "_shutdown_workers", lambda: None)()


class _WorkerStart:
    """Prepares a worker: Ctrl-C, which the shell sends to all processes, is not for it.

    Args:
        user_function: the loader's own `worker_init_fn`, if it has one.
    """

    def __init__(self, user_function: Callable[[int], None] | None) -> None:
        self._user_function = user_function

    def __call__(self, worker: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._user_function is not None:
            self._user_function(worker)


def _what_it_says(error: Exception) -> str:
    """The text of an error in brackets; of one in a worker the last line, which has it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, KeyError) or not lines:
        return ""  # the text is a key alone
    if "in DataLoader worker process" in lines[0]:
        return f" ({lines[-1].partition(': ')[2]})"
    return f" ({lines[0]})"


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
