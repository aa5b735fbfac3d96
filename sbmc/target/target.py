"""The target engine: log likelihood and gradient for a batch of particles, streamed and counted.

Data and particles go through in chunks whose sizes follow from shapes and two limits, so that peak
memory does not depend on the number of examples. Log likelihoods are sums over examples, never
means, and are accumulated in float64, as are gradients across chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sbmc.checks import Phrase, require
from sbmc.likelihoods import Custom, Likelihood
from sbmc.log import logger
from sbmc.model.chunks import Chunks, Footprint
from sbmc.model.data import Examples, Inputs, rows, tree_map
from sbmc.model.footprint import measure_footprint
from sbmc.model.forward import PROBE_EXAMPLES, Forward, build_forward
from sbmc.model.kernels.choice import Kernel, choose_kernel
from sbmc.model.parameters import ParameterSpace
from sbmc.model.threads import side_by_side, thread_count
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.target.memory_needs import Needs, bytes_of, may_keep

# (function, items) -> results, in the order of the items
Apply = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]


class Evaluation(NamedTuple):
    """The likelihood at a batch of positions; the leading axis is the particle."""

    log_likelihood: Tensor  # (particles,) float64, a sum over examples
    gradient: Tensor  # (particles, dim), with respect to the whitened position


@dataclass
class Evaluations:
    """How many particles were evaluated over all data, with and without gradient."""

    gradient: int = 0
    forward: int = 0


class Source(NamedTuple):
    """What a forward was built from, so that it can be built again in another process."""

    model: nn.Module
    space: ParameterSpace


class Parts(NamedTuple):
    """What a target is made of, apart from its prior and its power."""

    forward: Forward
    examples: Examples
    prepared: Inputs | None  # what `forward` needs of the inputs, if it is kept
    likelihood: Likelihood
    footprint: Footprint


class Target:
    """ℓ(θ(z)) and its gradient in z, for whitened positions z.

    The tempered target is λ·ℓ(θ(z)) − ‖z‖²/2. The prior's part is left to the sampler, which needs
    no evaluation for it, so that a change of temperature costs none either. With a `power`, ℓ is
    that many times the log likelihood of the data.

    Args:
        forward: the model as a function of many parameter vectors.
        examples: the data, targets checked by the likelihood.
        likelihood: log likelihood per example.
        prior: the coordinates.
        chunks: chunk sizes; by rule if not given.
        power: of the likelihood, as for a cold posterior or a part of the likelihood.
        source: what `forward` was built from. A target that has it can be pickled; it is built
            again on the other side, by the same path and with the same chunks.
        memory_limit: bytes that the data and an evaluation may take, positions and gradients of the
            particles apart; chunks are made small enough. None for no limit.
        kernel: whether code that knows the likelihood, too, may take over from autograd.
        later: leave the choice of chunks, and what is prepared of the data, to a call of `settle`.

    Raises:
        BadInput: no examples, or a memory limit that leaves no room for one of them.
    """

    def __init__(
        self,
        forward: Forward,
        examples: Examples,
        likelihood: Likelihood,
        prior: AnchoredPrior,
        chunks: Chunks | None = None,
        power: float = 1.0,
        source: Source | None = None,
        memory_limit: int | None = None,
        kernel: bool = True,
        later: bool = False,
    ) -> None:
        require(len(examples) > 0, "data", "non-empty", Phrase("0 examples"))
        self._forward = forward
        self._likelihood = likelihood
        self._examples = examples
        self._source = source
        self.prior = prior
        self.power = power
        self.evaluations = Evaluations()
        self._measured: Footprint | None = None
        self._with_kernel = kernel
        self._room: int | None = None
        self.limited = False
        self.kernel_reason = "none was asked for"  # why no compiled kernel is used, in words
        self._kernel: Kernel | None = self._find_kernel()
        self._laid: Any = None  # the data as the kernel wants them, if they are kept
        self._prepared: Inputs | None = None
        room = None if memory_limit is None else memory_limit - bytes_of(examples)
        rule = f"more than the data take, {bytes_of(examples)} bytes"
        require(room is None or room > 0, "memory_limit", rule, memory_limit)
        self.chunks = chunks or self._needs.usual_chunks()
        if not later:
            self.settle(room, chunks)

    def settle(
        self, room: int | None = None, chunks: Chunks | None = None, size: int | None = None
    ) -> None:
        """Choose chunks, and prepare the data once if the result may be kept.

        Args:
            room: bytes that an evaluation may take beyond the data, positions and gradients of the
                particles apart; None for no limit.
            chunks: chunk sizes; by rule if not given.
            size: examples per chunk; by rule if not given.

        Raises:
            BadInput: there is no room for one example and one particle.
        """
        usual = self._needs.usual_chunks()
        if size is not None:
            usual = Chunks(min(size, len(self._examples)), usual.particles)
        if room is not None and self._needs.free(usual) <= room:
            room = None
        self._room = room
        self.limited = room is not None or (chunks is not None and chunks != usual)
        if self._kernel is not None and room is not None:
            least = thread_count() * self._kernel.working_bytes(1)
            if least > room:
                self._drop_kernel("the memory limit leaves no room for one")
        self._keep()
        if room is None:
            self.chunks = chunks or usual
        else:
            self.chunks = chunks or self._needs.small_chunks(room - self._kept_bytes(), size)
        why = f" ({self.kernel_reason})" if self.kernel_reason else ""
        logger.info("kernel: %s%s", self.kernel or "none, autograd does the work", why)
        logger.debug(
            "target: %s path, %s, %s, %d thread(s), %s prepared, about %.1f MiB for 10 particles",
            self._forward.path,
            f"{self._kernel.name} kernel" if self._kernel else "autograd",
            self.chunks,
            thread_count(),
            "data" if self._prepared is not None or self._laid is not None else "nothing",
            self.bytes(10) / 2**20,
        )

    def without_kernel(self) -> None:
        """Have autograd do the work, before anything is settled."""
        self._drop_kernel("the checkpoint was begun without a kernel")

    def _drop_kernel(self, reason: str) -> None:
        self._kernel, self._with_kernel, self.kernel_reason = None, False, reason

    def _find_kernel(self) -> Kernel | None:
        if not self._with_kernel:
            return None
        parts = self._forward, self._likelihood, self._examples, self.prior.mean
        kernel, self.kernel_reason = choose_kernel(*parts)
        return kernel

    def _keep(self) -> None:
        """What is made of the data, and not sent to other processes."""
        self._laid = self._prepared = None
        if self._kernel is None:
            self._prepared = self._prepare()
        elif may_keep(self._kernel.prepared_bytes(len(self._examples)), self._room):
            inputs = self._examples.inputs
            assert isinstance(inputs, Tensor)  # or there is no kernel
            self._laid = self._kernel.prepare(inputs, self._examples.targets)

    def _prepare(self) -> Inputs | None:
        inputs = self._examples.inputs
        fits = may_keep(self._forward.prepared_bytes(inputs), self._room)
        return self._forward.prepare(inputs) if fits else None

    @property
    def _needs(self) -> Needs:
        parts = self._forward, self._kernel, self._examples
        return Needs(*parts, self._footprint, self._side_by_side())

    def usual_bytes(self, size: int | None = None) -> int:
        """What an evaluation would take where nothing limits it, beyond data and particles.

        Args:
            size: examples per chunk; by rule if not given.
        """
        needs = self._needs
        chunks = needs.usual_chunks()
        return needs.free(chunks if size is None else Chunks(size, chunks.particles))

    def least_bytes(self, size: int | None = None) -> int:
        """The least that an evaluation can do with: nothing kept, one example, one particle.

        Args:
            size: examples per chunk, if that is given.
        """
        return self._needs.least(size)

    def _kept_bytes(self) -> int:
        if self._laid is not None:
            return self._needs.prepared()
        prepared = self._prepared is not None
        return self._forward.prepared_bytes(self._examples.inputs) if prepared else 0

    def evaluation_bytes(self, particles: int) -> int:
        """What is kept, and what an evaluation takes at its peak, beyond data and particles."""
        return self._kept_bytes() + self._needs.working(self.chunks, particles)

    def bytes(self, particles: int) -> int:
        """Memory of an evaluation at its peak, estimated from shapes.

        Args:
            particles: how many are evaluated.

        Returns:
            Bytes of the data, of what is prepared of them, of what passes through the model
            together, and of positions, parameters and gradients. What libraries keep for
            themselves (tens of megabytes in some) is not among them.
        """
        own = particles * self.dim * (3 * self.prior.mean.element_size() + 2 * 8)
        return bytes_of(self._examples) + self.evaluation_bytes(particles) + own

    @property
    def kernel(self) -> str | None:
        """The code that knows the likelihood, too; None where autograd does the work."""
        return None if self._kernel is None else self._kernel.name

    def __getstate__(self) -> dict[str, Any]:
        if self._source is None:
            raise TypeError("a target without `source` cannot be sent to another process.")
        state = {**self.__dict__, "path": self.path}
        for made_again in ("_forward", "_prepared", "_kernel", "_laid"):
            del state[made_again]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        path = state.pop("path")
        self.__dict__.update(state)
        assert self._source is not None
        few = rows(self._examples.inputs, 0, PROBE_EXAMPLES)
        self._forward = build_forward(*self._source, few, path)
        self._kernel = self._find_kernel()
        self._keep()

    @property
    def dim(self) -> int:
        """Number of sampled parameters."""
        return self.prior.dim

    @property
    def shareable(self) -> bool:
        """Whether threads may evaluate it side by side."""
        # Other paths put a particle's weights into a module, of which there is one, and a user's
        # likelihood may keep something to itself.
        return self.path == "fused" and not isinstance(self._likelihood, Custom)

    @property
    def examples(self) -> Examples:
        """The data, as the model, or the sampled part of it, is given them."""
        return self._examples

    @property
    def path(self) -> str:
        """How the model is evaluated: fused, vmap or loop."""
        return self._forward.path

    def __call__(self, positions: Tensor) -> Evaluation:
        """Log likelihood and gradient over all data; one epoch for each particle.

        Args:
            positions: whitened, `(particles, dim)`.

        Returns:
            The evaluation. Non-finite values are passed on, for the sampler to reject.
        """
        self.evaluations.gradient += len(positions)
        values = torch.empty(len(positions), dtype=torch.float64, device=positions.device)
        gradients = torch.empty_like(positions)
        chunks = self.chunks.split(len(positions))
        if len(chunks) == 1:
            # Particles that share one reading of the data stay together; what is independent then
            # is the chunks of examples.
            return Evaluation(*self._with_gradient(positions, self._apply))

        def with_gradient(particles: slice) -> tuple[Tensor, Tensor]:
            return self._with_gradient(positions[particles], several=True)

        parts = self._apply(with_gradient, chunks)
        for particles, (value, gradient) in zip(chunks, parts, strict=True):
            values[particles], gradients[particles] = value, gradient
        return Evaluation(values, gradients)

    def log_likelihood(self, positions: Tensor) -> Tensor:
        """Log likelihood alone, `(particles,)` float64: one forward epoch for each particle."""
        self.evaluations.forward += len(positions)
        chunks = self.chunks.split(len(positions))
        several = len(chunks) > 1
        parts = self._apply(lambda p: self._without_gradient(positions[p], several), chunks)
        return torch.cat([torch.zeros(0, dtype=torch.float64, device=positions.device), *parts])

    def _apply(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Chunks are independent: side by side, where the model allows it."""
        return side_by_side(function, items) if self._side_by_side() else map(function, items)

    def _side_by_side(self) -> bool:
        return self.shareable and self.prior.mean.device.type == "cpu"

    def with_prior(self, prior: AnchoredPrior) -> Target:
        """The same likelihood in other coordinates; prepared data and counts are shared."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, prior=prior)
        return other

    def split(self, batches: int) -> list[Target]:
        """Targets of disjoint parts of the data, whose log likelihoods add up to this one's.

        Args:
            batches: how many. Each takes every `batches`-th example, so that data in the order of
                their classes are split evenly.

        Returns:
            The targets, with their own counts of evaluations: an evaluation of all of them is one
            epoch of this one, for the caller to count.

        Raises:
            BadInput: if there are fewer examples than batches.
        """
        size = len(self._examples)
        rule = f"from 1 to the number of examples, {size}"
        require(1 <= batches <= size, "scout_batches", rule, batches)

        def part(index: int) -> Target:
            inputs = tree_map(lambda t: t[index::batches].contiguous(), self._examples.inputs)
            targets = self._examples.targets[index::batches].contiguous()
            examples = Examples(inputs, targets)
            made = self._forward, examples, self._likelihood, self.prior, self.chunks
            one = Target(*made, power=self.power, kernel=self._with_kernel, later=True)
            one._room = self._room
            one._keep()
            return one

        return [part(index) for index in range(batches)]

    def _with_gradient(
        self, positions: Tensor, apply: Apply = map, *, several: bool = False
    ) -> tuple[Tensor, Tensor]:
        theta = self.prior.to_parameters(positions).requires_grad_()
        value = torch.zeros(len(positions), dtype=torch.float64, device=positions.device)
        gradient = torch.zeros(positions.shape, dtype=torch.float64, device=positions.device)
        size = self.chunks.examples_for(len(positions), several=several)

        def evaluate(start: int) -> tuple[Tensor, Tensor]:
            if self._kernel is not None:
                value, slope = self._by_kernel(theta, start, size, gradient=True)
                assert slope is not None
                return value, slope
            with torch.enable_grad():  # whatever the caller's mode is
                sums = self._sums(theta, *self._batch(start, start + size))
                (part,) = torch.autograd.grad(sums.sum(), theta)
            return sums.detach(), part

        for sums, part in apply(evaluate, range(0, len(self._examples), size)):
            value += sums
            gradient += part
        # In place: in float64, a copy is as large as two of the positions.
        gradient.mul_(self.power).mul_(self.prior.scale)
        return self.power * value, gradient.to(positions.dtype)

    def _without_gradient(self, positions: Tensor, several: bool) -> Tensor:
        total = torch.zeros(len(positions), dtype=torch.float64, device=positions.device)
        size = self.chunks.examples_for(len(positions), several=several)
        with torch.no_grad():
            theta = self.prior.to_parameters(positions)
            for start in range(0, len(self._examples), size):
                if self._kernel is not None:
                    total += self._by_kernel(theta, start, size, gradient=False)[0]
                else:
                    total += self._sums(theta, *self._batch(start, start + size))
        return self.power * total

    def _by_kernel(
        self, theta: Tensor, start: int, size: int, *, gradient: bool
    ) -> tuple[Tensor, Tensor | None]:
        assert self._kernel is not None
        end = min(start + size, len(self._examples))
        if self._laid is not None:
            return self._kernel(theta, self._laid, start, end, gradient=gradient)
        inputs, targets = self._examples.slice(start, end)
        assert isinstance(inputs, Tensor)  # or there is no kernel
        laid = self._kernel.prepare(inputs, targets)
        return self._kernel(theta, laid, 0, end - start, gradient=gradient)

    def _sums(self, theta: Tensor, inputs: Inputs, targets: Tensor) -> Tensor:
        each = self._likelihood.log_prob(self._forward(theta, inputs), targets)
        return each.sum(-1, dtype=torch.float64)

    def _batch(self, start: int, end: int) -> tuple[Inputs, Tensor]:
        inputs, targets = self._examples.slice(start, end)
        if self._prepared is None:
            return self._forward.prepare(inputs), targets
        return rows(self._prepared, start, end), targets

    def _measure(self) -> Footprint:
        return measure_footprint(self._forward, self._likelihood, self._examples, self.prior.mean)

    def parts(self, *, prepare: bool = True) -> Parts:
        """What the target is made of, for an evaluation on other batches than its own.

        Args:
            prepare: whether to prepare all data, if that has not been done: for a few examples it
                would not be worth it.
        """
        if self._prepared is None and prepare:
            self._prepared = self._prepare()
        parts = self._forward, self._examples, self._prepared, self._likelihood
        return Parts(*parts, self._footprint())

    def _footprint(self) -> Footprint:
        if self._measured is None:
            self._measured = self._measure()
        return self._measured
