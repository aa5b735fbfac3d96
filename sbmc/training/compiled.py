"""Training without autograd: gradients on mini-batches by a kernel, and the optimiser, in C.

Members have nothing to do with each other, so each thread takes some of them through a whole pass
over the data. A member's numbers do not depend on which others are trained with it, nor on threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sbmc.model.data import Examples
from sbmc.model.forward import Forward
from sbmc.model.kernels.choice import BatchKernel, Kernel, choose_kernel, find_batch_kernel
from sbmc.model.threads import even_chunks, side_by_side, thread_count
from sbmc.target.memory_needs import may_store
from sbmc.training.optimiser import Optimiser
from sbmc.training.setup import TrainingData

# Validation examples that are laid out at a time, where not all of them are kept laid out.
VALIDATION_ROWS = 4096


@dataclass(frozen=True)
class CompiledTraining:
    """What the C code needs to train members of an ensemble.

    Args:
        batches: sums over mini-batches of the training data, with gradients.
        kernel: sums over ranges of other data.
        validation: validation data, or None.
        laid: the validation data as `kernel` reads them, if they are kept; else None.
    """

    batches: BatchKernel
    kernel: Kernel
    validation: Examples | None
    laid: Any

    def epoch(
        self,
        theta: Tensor,
        state: Any,
        precision: Tensor,
        centres: Tensor | None,
        order: Tensor,
        *,
        optimiser: Optimiser,
        batch_size: int,
    ) -> tuple[Any, Tensor]:
        """One pass over the data, `theta` and the tensors of `state` changing in place.

        Args:
            theta: `(members, dim)` float32, contiguous.
            state: the optimiser's.
            precision: of the prior over the number of examples, a number or `(dim,)`.
            centres: where each member's prior is centred, `(members, dim)`; None for 0.
            order: in which each member goes through the data, `(members, examples)`.
            optimiser: whose steps are taken.
            batch_size: of a mini-batch; the last may be shorter.

        Returns:
            The state after it, and each member's loss summed over its examples, `(members,)`.
        """
        total = torch.zeros(len(theta), dtype=torch.float64)
        precision = precision.expand(theta.shape[1]).contiguous()
        if centres is not None:
            centres = centres.contiguous()  # one centre for all members is a single row, expanded
        parts = order.split(batch_size, dim=1)
        factors = {
            size: torch.full((theta.shape[1],), -1.0 / size)
            for size in {part.shape[1] for part in parts}
        }

        def of_members(rows: slice) -> None:
            weights, own = theta[rows], state.rows(rows)
            middle = None if centres is None else centres[rows]
            gradient, losses = torch.empty_like(weights), total[rows]
            for part in parts:
                size = part.shape[1]
                value = self.batches(weights, part[rows], factors[size], gradient)
                own, penalty = optimiser.compiled_step(weights, gradient, middle, precision, own)
                losses += size * penalty - value

        _in_chunks(of_members, len(theta))
        return state.after(len(parts)), total

    def log_likelihood(self, theta: Tensor) -> Tensor:
        """Of all validation data, a sum, `(members,)` float64."""
        assert self.validation is not None
        count = len(self.validation)
        if self.laid is not None:
            return self._sums(theta, self.laid, count)
        total = torch.zeros(len(theta), dtype=torch.float64)
        for start in range(0, count, VALIDATION_ROWS):
            inputs, targets = self.validation.slice(start, start + VALIDATION_ROWS)
            assert isinstance(inputs, Tensor)  # or there is no kernel
            total += self._sums(theta, self.kernel.prepare(inputs, targets), len(targets))
        return total

    def _sums(self, theta: Tensor, laid: Any, count: int) -> Tensor:
        sums = torch.empty(len(theta), dtype=torch.float64)

        def of_members(rows: slice) -> None:
            sums[rows] = self.kernel(theta[rows], laid, 0, count, gradient=False)[0]

        _in_chunks(of_members, len(theta))
        return sums


def compile_training(
    forward: Forward, data: TrainingData, theta: Tensor, optimiser: Optimiser
) -> CompiledTraining | None:
    """Kernels for a model, its likelihood and its data, tried against autograd.

    Args:
        forward: the model as a function of many parameter vectors.
        data: what to train on.
        theta: parameters to try the kernels at, `(dim,)`.
        optimiser: whose steps are to be taken.

    Returns:
        None where autograd has to do the work.
    """
    if theta.dtype != torch.float32 or theta.device.type != "cpu" or not optimiser.compiled:
        return None
    kernel = choose_kernel(forward, data.likelihood, data.train, theta).kernel
    batches = find_batch_kernel(kernel, forward, data.likelihood, data.train, theta)
    if kernel is None or batches is None:
        return None
    validation, laid = data.validation, None
    if validation is not None and may_store(kernel.prepared_bytes(len(validation))):
        assert isinstance(validation.inputs, Tensor)  # as the training data are
        laid = kernel.prepare(validation.inputs, validation.targets)
    return CompiledTraining(batches, kernel, validation, laid)


def _in_chunks(of_members: Callable[[slice], None], members: int) -> None:
    """Members side by side, about as many in each thread."""
    list(side_by_side(of_members, even_chunks(members, thread_count())))
