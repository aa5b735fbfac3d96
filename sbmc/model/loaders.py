"""Which examples a `DataLoader` visits: what its samplers say is understood, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from sbmc.checks import Phrase, require
from sbmc.log import logger

STEADY = "the same each time it is read (no random augmentation)"


def chosen_rows(loader: DataLoader[Any], name: str) -> Sequence[Any]:
    """The examples that a loader visits, in an order that does not depend on its shuffling.

    Args:
        loader: over a map-style data set.
        name: what error messages call it.

    Returns:
        Indices of the data set.

    Raises:
        BadInput: the loader makes no batches, or its sampler draws examples with weights, visits a
            part of them for one of several processes, repeats some, or visits others each time.
    """
    total = len(loader.dataset)  # type: ignore[arg-type]
    batches: Any = loader.batch_sampler
    rule = "a DataLoader that makes batches (with a batch_size or a batch_sampler)"
    require(batches is not None, name, rule, Phrase("batch_size=None"))
    _refuse_other_targets(getattr(batches, "sampler", None), total, name)
    if loader.drop_last:
        logger.info("`%s`: drop_last is for training; all rows of the loader are data", name)
    sampler = batches.sampler if type(batches) is BatchSampler else None
    whole = isinstance(sampler, SequentialSampler) or (
        isinstance(sampler, RandomSampler)
        and not sampler.replacement
        and sampler.num_samples == total
    )
    if whole:
        return range(total)

    def visit() -> list[Any]:
        # A sampler may have no end; one visit too many is enough to see that some are repeated.
        order = chain.from_iterable(batches) if sampler is None else sampler
        return list(islice(order, total + 1))

    with torch.random.fork_rng(devices=[]):
        first, second = visit(), visit()
    rule = "a DataLoader that visits no example twice"
    require(len(set(first)) == len(first), name, rule, Phrase("a sampler that repeats some"))
    same = set(first) == set(second)
    require(same, name, STEADY, Phrase("a sampler that visits other examples each time"))
    return sorted(first)


def _refuse_other_targets(sampler: Any, total: int, name: str) -> None:
    """Refuse samplers that would make the likelihood that of other data."""
    if isinstance(sampler, WeightedRandomSampler):
        rule = (
            "a DataLoader whose sampler has no weights, since they would change the likelihood; "
            "fit(..., weights=...) gives rows weights"
        )
        every_row = not sampler.replacement and sampler.num_samples == total
        require(every_row, name, rule, Phrase("a WeightedRandomSampler"))
    if isinstance(sampler, DistributedSampler):
        rule = (
            "a DataLoader over all rows, since the likelihood is that of all of them; leave the "
            "sampler out"
        )
        shown = f"a DistributedSampler with a part of {sampler.num_replicas}"
        require(sampler.num_replicas == 1, name, rule, Phrase(shown))
