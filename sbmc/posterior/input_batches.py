"""Inputs of a posterior in checked batches, and the particles that they go through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from sbmc.checks import require_count
from sbmc.model.calling import errors_in_words
from sbmc.model.data import (
    Inputs,
    as_inputs,
    batch_inputs,
    check_inputs,
    count,
    rows,
    tree_map,
)
from sbmc.model.dataset_inputs import arity_of, dataset_inputs, is_dataset, takes_much
from sbmc.model.hugging_face import in_torch_format
from sbmc.model.reading import READ_BATCH, iterable_loader, read_loader
from sbmc.model.threads import threads_for
from sbmc.storage.tables import is_table
from sbmc.target.memory_needs import multiplications

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior


class WeightedParticles(NamedTuple):
    """The particles of positive weight. Positions may be in a mapped file, and are not copied.

    Attributes:
        positions: of all particles, `(particles, dim)`.
        weights: of those that have one, `(chosen,)`.
        chosen: their indices among all particles, `(chosen,)`; None if all have a weight.
    """

    positions: Tensor
    weights: Tensor
    chosen: Tensor | None


def weighted_particles(posterior: Posterior) -> WeightedParticles:
    """The particles of a posterior that have a positive weight."""
    positions, weights = posterior.positions.flatten(0, 1), posterior.weights.flatten()
    weighted = weights > 0
    if bool(weighted.all()):
        return WeightedParticles(positions, weights, None)
    chosen = weighted.nonzero()[:, 0].to(positions.device)
    return WeightedParticles(positions, weights[weighted], chosen)


def held_inputs(posterior: Posterior, inputs: Any) -> Any:
    """Tables and data sets as tensors, read once; anything else as it was given.

    An iterable data set becomes a loader, in its own order; shards are read in theirs. A large data
    set becomes a loader, too.

    Raises:
        BadInput: a table with columns that are no numbers, or a data set that cannot be read.
    """
    if is_table(inputs):
        return as_inputs(inputs)
    if isinstance(inputs, IterableDataset):
        return iterable_loader(inputs.in_order() if hasattr(inputs, "in_order") else inputs)
    if is_dataset(inputs) and takes_much(inputs):
        return DataLoader(in_torch_format(inputs, "inputs"), READ_BATCH)
    if is_dataset(inputs):
        return dataset_inputs(inputs, arity_of(posterior.input_description))
    return inputs


def input_batches(
    posterior: Posterior, inputs: Any, size: int | None
) -> tuple[int, Iterator[Inputs]]:
    """The number of examples (0 if unknown), and the inputs in checked batches.

    Args:
        posterior: what predicts.
        inputs: as for `Posterior.predict`.
        size: examples per batch; by rule if None.

    Raises:
        BadInput: a size that is no positive integer, or bad inputs.
    """
    require_count("batch_size", size, optional=True)

    def rows_together(everything: Inputs) -> int:
        with errors_in_words(posterior.model, everything, "inputs"):
            return int(size or posterior._predictor_for(everything)[0].batch)

    arity = arity_of(posterior.input_description)
    return checked_batches(inputs, posterior.dtype, arity, rows_together)


def checked_batches(
    inputs: Any, dtype: torch.dtype, arity: int | None, rows_together: Callable[[Inputs], int]
) -> tuple[int, Iterator[Inputs]]:
    """The number of examples (0 if unknown), and the inputs in checked batches of a dtype.

    Args:
        inputs: tensors, arrays, a table, or a `DataLoader`, which has batches of its own.
        dtype: of inputs that are no integers.
        arity: inputs that the model takes, if it is known; see `batch_inputs`.
        rows_together: how many examples a batch of these inputs has.

    Raises:
        BadInput: inputs are empty or not finite.
    """

    def ready(batch: Inputs) -> Inputs:
        check_inputs(batch, "inputs")
        return tree_map(lambda t: t.to(dtype) if t.is_floating_point() else t, batch)

    if isinstance(inputs, DataLoader):
        sized = hasattr(inputs.dataset, "__len__")
        total = len(inputs.dataset) if sized else 0  # type: ignore[arg-type]
        batches = read_loader(inputs, "inputs")
        return total, (ready(batch_inputs(batch, arity=arity)) for batch in batches)
    everything = ready(as_inputs(inputs))
    step = rows_together(everything)
    starts = range(0, count(everything), step)
    return count(everything), (rows(everything, start, start + step) for start in starts)


def use_threads(
    posterior: Posterior, inputs: Any, rows_together: int
) -> AbstractContextManager[None]:
    """Use one thread for small computations; see `sbmc.model.threads`."""
    if not isinstance(inputs, Tensor):  # the size of an example is not known
        return nullcontext()
    weights = posterior.positions.numel()
    return threads_for(multiplications(inputs, rows_together, weights), weights, apart=False)


def moved(batch: Inputs, theta: Tensor) -> Inputs:
    """The inputs on the device of the positions."""
    return tree_map(lambda t: t.to(theta.device), batch)
