"""Log likelihood and gradient over a range of examples, by a kernel or by autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sbmc.likelihoods import Likelihood
from sbmc.model.chunks import Chunks
from sbmc.model.data import Examples, Inputs, rows, tree_map
from sbmc.model.forward import Forward
from sbmc.model.kernels.choice import Kernel
from sbmc.target.memory_needs import may_store


class RangeEvaluator:
    """Sums over the examples of a range; prepared data are stored between calls.

    Args:
        forward: the model as a function of many parameter vectors.
        examples: the data.
        likelihood: log likelihood per example.
        kernel: computes the gradient instead of autograd; None for none.
    """

    def __init__(
        self, forward: Forward, examples: Examples, likelihood: Likelihood, kernel: Kernel | None
    ) -> None:
        self.forward = forward
        self.examples = examples
        self.likelihood = likelihood
        self.kernel = kernel
        self.laid: Any = None  # the data as the kernel needs them, if they are stored
        self.prepared: Inputs | None = (
            None  # the inputs as `forward` needs them, if they are stored
        )

    def store(self, room: int | None) -> None:
        """Prepare all data and store them, if they fit into `room` bytes; None for no limit."""
        self.laid = self.prepared = None
        if self.kernel is None:
            self.prepare(room)
        elif may_store(self.kernel.prepared_bytes(len(self.examples)), room):
            inputs = self.examples.inputs
            assert isinstance(inputs, Tensor)  # or there is no kernel
            self.laid = self.kernel.prepare(inputs, self.examples.targets)

    def prepare(self, room: int | None) -> None:
        """Prepare all inputs for `forward`, also beside a kernel, if they may be stored."""
        inputs = self.examples.inputs
        fits = may_store(self.forward.prepared_bytes(inputs), room)
        self.prepared = self.forward.prepare(inputs) if fits else None

    @property
    def has_stored(self) -> bool:
        """Whether prepared data are stored."""
        return self.laid is not None or self.prepared is not None

    def stored_bytes(self) -> int:
        """Bytes of the prepared data that are stored."""
        if self.laid is not None:
            assert self.kernel is not None
            return self.kernel.prepared_bytes(len(self.examples))
        inputs = self.examples.inputs
        return 0 if self.prepared is None else self.forward.prepared_bytes(inputs)

    def with_gradient(self, theta: Tensor, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Sums and their gradients for `theta` `(particles, dim)`, which requires grad."""
        if self.kernel is not None:
            sums, slope = self._by_kernel(theta, start, end, gradient=True)
            assert slope is not None
            return sums, slope
        with torch.enable_grad():  # whatever the caller's mode is
            sums = self.sums(theta, *self._batch(start, end))
            (slope,) = torch.autograd.grad(sums.sum(), theta)
        return sums.detach(), slope

    def without_gradient(self, theta: Tensor, start: int, end: int) -> Tensor:
        """Sums alone, `(particles,)` float64."""
        if self.kernel is not None:
            return self._by_kernel(theta, start, end, gradient=False)[0]
        with torch.no_grad():
            return self.sums(theta, *self._batch(start, end))

    def predictions(self, theta: Tensor, index: Tensor, most: int) -> Tensor:
        """Class probabilities, or outputs if there are no classes, of some examples.

        Args:
            theta: parameters, `(particles, dim)`.
            index: the numbers of the examples.
            most: numbers of each example; evenly spread ones if there are more.

        Returns:
            `(particles, examples, numbers)` float64.
        """
        inputs = tree_map(lambda tensor: tensor[index.to(tensor.device)], self.examples.inputs)
        with torch.no_grad():
            outputs = self.forward(theta, self.forward.prepare(inputs))
            values = outputs.softmax(-1) if self.likelihood.classification else outputs
        values = values.reshape(*values.shape[:2], -1)
        count = min(most, values.shape[2])
        return values[..., torch.arange(count) * values.shape[2] // count].double()

    def chunked_predictions(
        self, theta: Tensor, index: Tensor, most: int, chunks: Chunks
    ) -> Tensor:
        """The predictions of some examples, in chunks of particles and examples.

        Args:
            theta: parameters, `(particles, dim)`.
            index: the numbers of the examples.
            most: how many predictions of all examples are returned at most.
            chunks: their sizes.

        Returns:
            `(particles, predictions)` float64.
        """
        each = max(1, most // len(index))
        parts = []
        for some in chunks.split(len(theta)):
            size = chunks.examples_for(some.stop - some.start)
            rows_in_turn = [self.predictions(theta[some], i, each) for i in index.split(size)]
            parts.append(torch.cat(rows_in_turn, 1).flatten(1))
        return torch.cat(parts)

    def sums(self, theta: Tensor, inputs: Inputs, targets: Tensor) -> Tensor:
        """Sums over prepared inputs and their targets, by the model and the likelihood."""
        each = self.likelihood.log_prob(self.forward(theta, inputs), targets)
        return each.sum(-1, dtype=torch.float64)

    def _by_kernel(
        self, theta: Tensor, start: int, end: int, *, gradient: bool
    ) -> tuple[Tensor, Tensor | None]:
        assert self.kernel is not None
        end = min(end, len(self.examples))
        if self.laid is not None:
            return self.kernel(theta, self.laid, start, end, gradient=gradient)
        inputs, targets = self.examples.slice(start, end)
        assert isinstance(inputs, Tensor)  # or there is no kernel
        laid = self.kernel.prepare(inputs, targets)
        return self.kernel(theta, laid, 0, end - start, gradient=gradient)

    def _batch(self, start: int, end: int) -> tuple[Inputs, Tensor]:
        inputs, targets = self.examples.slice(start, end)
        if self.prepared is None:
            return self.forward.prepare(inputs), targets
        return rows(self.prepared, start, end), targets
