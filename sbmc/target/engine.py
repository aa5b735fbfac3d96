"""The likelihood engine: ℓ(θ) and its gradient for many parameter vectors, streamed in chunks.

It works in the model's own coordinates θ and knows no prior. Data and particles go through in
chunks whose sizes follow from shapes and two limits, so that peak memory does not depend on the
number of examples. Log likelihoods are sums over examples, never means, and are accumulated in
float64, as are gradients across chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.likelihoods import Custom, Likelihood, unweighted
from sbmc.log import logger
from sbmc.model.chunks import Chunks, Footprint
from sbmc.model.data import Examples, rows, tree_map
from sbmc.model.footprint import measure_footprint
from sbmc.model.forward import PROBE_EXAMPLES, Forward, build_forward
from sbmc.model.kernels.choice import BatchKernel, Kernel, choose_kernel, find_batch_kernel
from sbmc.model.threads import side_by_side, thread_count
from sbmc.target.memory_needs import Needs, bytes_of
from sbmc.target.parts import Parts, Source
from sbmc.target.ranges import RangeEvaluator
from sbmc.target.streaming import EngineStream, require_all_data

# (function, items) -> results, in the order of the items
Apply = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]


class LikelihoodEngine:
    """Log likelihood ℓ(θ) of all data, and its gradient in θ, for many parameter vectors.

    An engine can be used at once: it has chunks by rule, and prepares each chunk of the data when
    it is read. `settle` chooses the chunks again and prepares the data once, if they fit.

    Args:
        forward: the model as a function of many parameter vectors.
        examples: the data, targets checked by the likelihood.
        likelihood: log likelihood per example.
        point: parameters `(dim,)` at which a kernel is tried and memory is measured; the engine
            computes in their dtype and on their device.
        chunks: chunk sizes; by rule if not given.
        source: what `forward` was built from. An engine that has it can be pickled; it is built
            again when it is unpickled, by the same path and with the same chunks.
        kernel: whether a kernel may be used instead of autograd.

    Raises:
        BadInput: no examples.
    """

    def __init__(
        self,
        forward: Forward,
        examples: Examples,
        likelihood: Likelihood,
        point: Tensor,
        chunks: Chunks | None = None,
        source: Source | None = None,
        kernel: bool = True,
    ) -> None:
        require(len(examples) > 0, "data", "non-empty", Phrase("0 examples"))
        self._point = point
        self._source = source
        self._measured: Footprint | None = None
        self._with_kernel = kernel
        self._room: int | None = None
        self.limited = False
        # All data, if the examples are a few of them that stand for the rest.
        self.stream: EngineStream | None = None
        self._batches: BatchKernel | bool | None = False  # not looked for yet
        self.kernel_reason = "none was asked for"  # why no compiled kernel is used, in words
        self._ranges = self._evaluate_with(forward, examples, likelihood)
        self.chunks = chunks or self.needs.usual_chunks()

    def settle(
        self, room: int | None = None, chunks: Chunks | None = None, size: int | None = None
    ) -> None:
        """Choose chunks, and prepare the data once if the result may be stored.

        Args:
            room: bytes that an evaluation may take beyond the data, positions and gradients of the
                particles apart; None for no limit.
            chunks: chunk sizes; by rule if not given.
            size: examples per chunk; by rule if not given.

        Raises:
            BadInput: there is no room for one example and one particle.
        """
        usual = self.needs.usual_chunks()
        if size is not None:
            usual = Chunks(min(size, len(self.examples)), usual.particles)
        if room is not None and self.needs.free(usual) <= room:
            room = None
        self._room = room
        self.limited = room is not None or (chunks is not None and chunks != usual)
        kernel = self._ranges.kernel
        if kernel is not None and room is not None:
            least = thread_count() * kernel.working_bytes(1)
            if least > room:
                self._drop_kernel("the memory limit leaves no room for one")
        self._ranges.store(room)
        if room is None:
            self.chunks = chunks or usual
        else:
            self.chunks = chunks or self.needs.small_chunks(
                room - self._ranges.stored_bytes(), size
            )
        why = f" ({self.kernel_reason})" if self.kernel_reason else ""
        logger.info("kernel: %s%s", self.kernel or "none, autograd does the work", why)
        logger.debug(
            "engine: %s path, %s, %s, %d thread(s), %s prepared, about %.1f MiB for 10 particles",
            self.path,
            f"{self.kernel} kernel" if self.kernel else "autograd",
            self.chunks,
            thread_count(),
            "data" if self._ranges.has_stored else "nothing",
            self.bytes(10) / 2**20,
        )

    def without_kernel(self) -> None:
        """Use autograd instead of a kernel; to be called before `settle`."""
        self._drop_kernel("the checkpoint was begun without a kernel")

    def _drop_kernel(self, reason: str) -> None:
        self._ranges.kernel, self._with_kernel, self.kernel_reason = None, False, reason
        self._batches = None

    def _evaluate_with(
        self, forward: Forward, examples: Examples, likelihood: Likelihood
    ) -> RangeEvaluator:
        kernel: Kernel | None = None
        if self._with_kernel:
            choice = choose_kernel(forward, likelihood, examples, self._point)
            kernel, self.kernel_reason = choice
        return RangeEvaluator(forward, examples, likelihood, kernel)

    @property
    def needs(self) -> Needs:
        """Memory of an evaluation, beyond the data and the particles."""
        parts = self._ranges.forward, self._ranges.kernel, self.examples
        return Needs(*parts, self._footprint, self._side_by_side())

    def evaluation_bytes(self, particles: int) -> int:
        """Bytes of an evaluation at its peak and of what is stored, beyond data and particles."""
        return self._ranges.stored_bytes() + self.needs.working(self.chunks, particles)

    def bytes(self, particles: int) -> int:
        """Memory of an evaluation at its peak, estimated from shapes.

        Args:
            particles: how many are evaluated.

        Returns:
            Bytes of the data, of the prepared data, of the activations of one chunk, and of
            positions, parameters and gradients. What libraries hold for themselves (tens of
            megabytes in some) is not included.
        """
        per_particle = particles * self.dim * (3 * self._point.element_size() + 2 * 8)
        return bytes_of(self.examples) + self.evaluation_bytes(particles) + per_particle

    @property
    def kernel(self) -> str | None:
        """The name of the kernel; None if autograd computes the gradient."""
        return None if self._ranges.kernel is None else self._ranges.kernel.name

    def __getstate__(self) -> dict[str, Any]:
        if self._source is None:
            raise TypeError("an engine without `source` cannot be sent to another process.")
        state = {
            **self.__dict__,
            "sent": (self.path, self.examples.compact(), self._ranges.likelihood),
        }
        del state["_ranges"]  # with its forward, its kernel and what is prepared
        state["_batches"] = None if state["_batches"] is None else False
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        path, examples, likelihood = state.pop("sent")
        self.__dict__.update(state)
        assert self._source is not None
        forward = build_forward(*self._source, rows(examples.inputs, 0, PROBE_EXAMPLES), path)
        self._ranges = self._evaluate_with(forward, examples, likelihood)
        self._ranges.store(self._room)

    @property
    def point(self) -> Tensor:
        """Parameters `(dim,)` in whose dtype and on whose device it computes."""
        return self._point

    @property
    def dim(self) -> int:
        """Number of sampled parameters."""
        return len(self._point)

    @property
    def width(self) -> int:
        """Bytes of one parameter vector."""
        return self._point.nbytes

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Number of elements of each sampled parameter; of all together if that is not known."""
        space = getattr(self._ranges.forward, "space", None)
        return (self.dim,) if space is None else tuple(space.sizes)

    @property
    def shareable(self) -> bool:
        """Whether threads may evaluate it side by side."""
        # Other paths write a particle's weights into the one module, and a user's likelihood may
        # have a state.
        return self.path == "fused" and not isinstance(unweighted(self._ranges.likelihood), Custom)

    @property
    def examples(self) -> Examples:
        """The data, as the model, or the sampled part of it, is given them."""
        return self._ranges.examples

    @property
    def rows(self) -> int:
        """How many examples the likelihood is of."""
        return len(self.examples) if self.stream is None else self.stream.rows

    def on(self, examples: Examples) -> LikelihoodEngine:
        """The same engine with other data, such as a mini-batch that all particles share."""
        other = object.__new__(type(self))
        ranges = self._ranges
        parts = ranges.forward, examples, ranges.likelihood, ranges.kernel
        other.__dict__.update({**self.__dict__, "stream": None, "_ranges": RangeEvaluator(*parts)})
        return other

    @property
    def path(self) -> str:
        """How the model is evaluated: fused, vmap or loop."""
        return self._ranges.forward.path

    def __call__(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Log likelihood and gradient over all data; one epoch for each particle.

        Args:
            theta: parameters, `(particles, dim)`.

        Returns:
            The log likelihood `(particles,)` and its gradient `(particles, dim)`, both float64 and
            the caller's to change. Non-finite values are passed on.
        """
        return self.evaluate(theta, torch.clone, lambda gradient: gradient, torch.float64)

    def evaluate(
        self,
        positions: Tensor,
        to_parameters: Callable[[Tensor], Tensor],
        finish: Callable[[Tensor], Tensor],
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """The same in other coordinates, which chunks of particles enter and leave one by one.

        Args:
            positions: `(particles, dim)` in these coordinates.
            to_parameters: parameters of some positions, as a new tensor.
            finish: the float64 gradient in these coordinates from that in the parameters.
            dtype: of what `finish` returns.

        Returns:
            The log likelihood `(particles,)`, float64, and its gradient.
        """
        require_all_data(self.stream)
        chunks = self.chunks.split(len(positions))
        if len(chunks) == 1:
            # Particles that share one reading of the data stay together; then the chunks of
            # examples run in parallel.
            value, gradient = self._sum(to_parameters(positions), self._apply)
            return value, finish(gradient)
        # Chunks of particles are small enough for memory to be used again.
        values = torch.empty(len(positions), dtype=torch.float64, device=positions.device)
        gradients = torch.empty(positions.shape, dtype=dtype, device=positions.device)

        def of_particles(some: slice) -> tuple[Tensor, Tensor]:
            value, gradient = self._sum(to_parameters(positions[some]), several=True)
            return value, finish(gradient)

        results = self._apply(of_particles, chunks)
        for some, (value, gradient) in zip(chunks, results, strict=True):
            values[some], gradients[some] = value, gradient
        return values, gradients

    def log_likelihood(self, theta: Tensor) -> Tensor:
        """Log likelihood alone, `(particles,)` float64: one forward epoch for each particle."""
        require_all_data(self.stream)
        theta = theta.detach()
        chunks = self.chunks.split(len(theta))
        several = len(chunks) > 1
        parts = self._apply(lambda some: self._without_gradient(theta[some], several), chunks)
        return torch.cat([torch.zeros(0, dtype=torch.float64, device=theta.device), *parts])

    def predictions(self, theta: Tensor, index: Tensor, most: int) -> Tensor:
        """Predictions for the examples at `index`, at most so many of each particle in all.

        They are class probabilities, or outputs if there are no classes, `(particles, predictions)`
        float64, and evenly spread ones if there are too many.
        """
        return self._ranges.chunked_predictions(theta, index, most, self.chunks)

    def _apply(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Apply a function to independent chunks, in parallel if the model allows it."""
        return side_by_side(function, items) if self._side_by_side() else map(function, items)

    def _side_by_side(self) -> bool:
        return self.shareable and self._point.device.type == "cpu"

    def split(self, batches: int) -> list[LikelihoodEngine]:
        """Engines of disjoint parts of the data, whose log likelihoods add up to this one's.

        Each takes every `batches`-th example, so that data in the order of their classes are split
        evenly. An evaluation of all of them is one epoch of this one.

        Raises:
            BadInput: if there are fewer examples than batches.
        """
        require_all_data(self.stream)
        size = len(self.examples)
        rule = f"from 1 to the number of examples, {size}"
        require(1 <= batches <= size, "scout_batches", rule, batches)
        return [self.part(slice(index, None, batches)) for index in range(batches)]

    def part(self, some: slice, *, prepare: bool = True) -> LikelihoodEngine:
        """The engine of some of the examples, with the same chunks.

        Args:
            some: which examples.
            prepare: whether to prepare them, which one that is only sent elsewhere does not need.
        """
        inputs = tree_map(lambda t: t[some].contiguous(), self.examples.inputs)
        examples = Examples(inputs, self.examples.targets[some].contiguous())
        parts = self._ranges.forward, examples, self._ranges.likelihood, self._point
        one = LikelihoodEngine(*parts, self.chunks, self._source, self._with_kernel)
        one._room = self._room
        if prepare:
            one._ranges.store(self._room)
        return one

    def forget_prepared(self) -> None:
        """Free what was prepared of the data; it is prepared again where it is needed."""
        self._ranges.laid = self._ranges.prepared = None

    def _sum(
        self, theta: Tensor, apply: Apply = map, *, several: bool = False
    ) -> tuple[Tensor, Tensor]:
        theta = theta.detach().requires_grad_()
        value = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
        gradient = torch.zeros(theta.shape, dtype=torch.float64, device=theta.device)
        size = self.chunks.examples_for(len(theta), several=several)

        def evaluate(start: int) -> tuple[Tensor, Tensor]:
            return self._ranges.with_gradient(theta, start, start + size)

        for sums, slope in apply(evaluate, range(0, len(self.examples), size)):
            value += sums
            gradient += slope
        return value, gradient

    def _without_gradient(self, theta: Tensor, several: bool) -> Tensor:
        theta = theta.clone() if several else theta  # at an aligned address, as above
        total = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
        size = self.chunks.examples_for(len(theta), several=several)
        for start in range(0, len(self.examples), size):
            total += self._ranges.without_gradient(theta, start, start + size)
        return total

    def batch_kernel(self) -> BatchKernel | None:
        """The kernel for mini-batches of the data; None where autograd does the work."""
        if isinstance(self._batches, bool):
            ranges = self._ranges
            model = ranges.kernel, ranges.forward, ranges.likelihood
            self._batches = find_batch_kernel(*model, self.examples, self._point)
        return self._batches

    def parts(self, *, prepare: bool = True) -> Parts:
        """The parts of the engine, for evaluations on other batches.

        Args:
            prepare: whether to prepare all data, if that has not been done: for a few examples it
                would not be worth it.
        """
        ranges = self._ranges
        if ranges.prepared is None and prepare:
            ranges.prepare(self._room)
        parts = ranges.forward, ranges.examples, ranges.prepared, ranges.likelihood
        return Parts(*parts, self._footprint())

    def _footprint(self) -> Footprint:
        if self._measured is None:
            parts = self._ranges.forward, self._ranges.likelihood, self.examples
            self._measured = measure_footprint(*parts, self._point)
        return self._measured
