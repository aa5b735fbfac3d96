"""Inputs of a posterior in checked batches, and the particles that they go through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils.data import DataLoader

from sbmc.checks import is_whole, require
from sbmc.model.data import (
    Inputs,
    as_inputs,
    batch_inputs,
    check_inputs,
    count,
    rows,
    tree_map,
)
from sbmc.model.threads import threads_for
from sbmc.target.memory_needs import multiplications

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior


def weighted_particles(posterior: Posterior) -> tuple[Tensor, Tensor]:
    """Positions `(particles, dim)` and weights `(particles,)` of particles with positive weight."""
    weighted = posterior.weights.flatten() > 0
    theta, weights = posterior.positions.flatten(0, 1), posterior.weights.flatten()
    if bool(weighted.all()):  # a copy of all particles is saved
        return theta, weights
    return theta[weighted.to(theta.device)], weights[weighted]


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
    good = size is None or (is_whole(size) and size > 0)
    require(good, "batch_size", "a positive integer", size)
    dtype = posterior.dtype

    def ready(batch: Inputs) -> Inputs:
        check_inputs(batch, "inputs")
        return tree_map(lambda t: t.to(dtype) if t.is_floating_point() else t, batch)

    if isinstance(inputs, DataLoader):
        sized = hasattr(inputs.dataset, "__len__")
        total = len(inputs.dataset) if sized else 0  # type: ignore[arg-type]
        return total, (ready(batch_inputs(batch)) for batch in inputs)
    everything = ready(as_inputs(inputs))
    step = int(size or posterior._predictor_for(everything)[0].batch)
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
