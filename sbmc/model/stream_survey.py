"""One pass over all rows of a stream: how many there are, their digest, and a few of them.

The few stand for all where a model is tried and measured. They are those with the smallest digests,
whatever the order of the rows is. The sum of all rows' digests identifies the data in the same way.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from heapq import heapreplace
from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.model.data import Examples, Inputs, join, leaves, tree_map

Batch = tuple[Inputs, Tensor]
# Rows that stand for all, and the most bytes that they may take together.
KEPT_ROWS, KEPT_BYTES = 1_024, 2**26
MODULUS = 2**64
# Fewer different rows do not show whether all of them are repeated.
JUDGED_ROWS = 16


class Survey(NamedTuple):
    """What a pass over all rows has found."""

    rows: int
    total: int  # the sum of the rows' digests
    few: Examples


def is_repeated(few: Examples, times: int) -> bool:
    """Whether rows that stand for all are there so many times each, as if each worker read them.

    A handful of different rows may be repeated by chance, and is not judged.

    Args:
        few: the rows that stand for all, in the order of their digests.
        times: how many workers there are.

    Examples:
        >>> once = torch.arange(40.0)
        >>> twice = once.repeat_interleave(2)
        >>> [is_repeated(Examples(rows, rows), 2) for rows in (once, twice)]
        [False, True]
    """
    counts = Counter(row_digests(few.inputs, few.targets))
    whole = list(counts.values())[:-1]  # the last row may have more copies that were not kept
    return times > 1 and len(whole) >= JUDGED_ROWS and all(n % times == 0 for n in whole)


def survey_rows(batches: Iterator[Batch], report: Callable[[int], None] | None = None) -> Survey:
    """Go through checked batches once, and hold no more than a few rows.

    Args:
        batches: of inputs and targets.
        report: is told after each batch how many rows were seen.
    """
    total, seen, most = 0, 0, KEPT_ROWS
    # Of the rows with the smallest digests the largest comes first.
    kept: list[tuple[int, int, Batch]] = []
    for inputs, targets in batches:
        if seen == 0:
            size = sum(t[:1].nbytes for t in (*leaves(inputs), targets))
            most = max(2, min(KEPT_ROWS, KEPT_BYTES // max(1, size)))
        for i, value in enumerate(row_digests(inputs, targets)):
            total += value
            rank = -value, -(seen + i)
            if len(kept) < most:
                kept.append((*rank, _row(inputs, targets, i)))
                if len(kept) == most:
                    kept.sort(key=lambda each: each[:2])
            elif rank > kept[0][:2]:
                heapreplace(kept, (*rank, _row(inputs, targets, i)))
        seen += len(targets)
        if report is not None:
            report(seen)
    kept.sort(key=lambda each: each[:2], reverse=True)
    if not kept:
        return Survey(0, 0, Examples(torch.zeros(0), torch.zeros(0)))
    few = join([Examples(*batch) for _, _, batch in kept])
    return Survey(seen, total % MODULUS, few)


def _row(inputs: Inputs, targets: Tensor, index: int) -> Batch:
    """A copy of one row, so that the others are not held."""
    part = slice(index, index + 1)
    return tree_map(lambda t: t[part].clone(), inputs), targets[part].clone()


def row_digests(inputs: Inputs, targets: Tensor) -> Iterator[int]:
    """A number of 64 bits for each row."""
    parts = [t.contiguous().reshape(len(t), -1) for t in (*leaves(inputs), targets)]
    columns = [part.view(torch.uint8).numpy() for part in parts]
    for row in zip(*columns, strict=True):
        state = hashlib.blake2b(digest_size=8)
        for part in row:
            state.update(part)
        yield int.from_bytes(state.digest(), "little")
