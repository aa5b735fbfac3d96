"""The target engine: log likelihood and gradient for a batch of particles, streamed and counted.

Data and particles go through in chunks whose sizes follow from shapes and two limits, so that peak
memory does not depend on the number of examples. Log likelihoods are sums over examples, never
means, and are accumulated in float64, as are gradients across chunks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.examples import Examples, Inputs, rows, tree_map
from sbmc.forward import Forward
from sbmc.likelihoods import Custom, Likelihood
from sbmc.log import logger
from sbmc.prior import AnchoredPrior
from sbmc.threads import side_by_side

# Activations that stay in cache are several times faster than fresh large temporaries, which cost
# page faults; chunks of very few examples lose to the overhead of calls.
ACTIVATION_BYTES = 6 * 2**20
SMALLEST_CHUNK = 24
PARTICLES, SHARING_PARTICLES, MOST_PARTICLES = 10, 256, 4096
# What `prepare` may keep between calls. Beyond it, chunks are prepared each time they are used.
PREPARED_BYTES = 64 * 2**20


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


@dataclass(frozen=True)
class Chunks:
    """How a batch is cut up: stored with a run, since it decides the last bits.

    Args:
        examples: how many go through together with `particles` particles.
        particles: how many go through together, at most.
        alone: how many examples go through with one particle; None means `examples`, whatever the
            number of particles.
    """

    examples: int
    particles: int
    alone: int | None = None

    def examples_for(self, particles: int) -> int:
        """Examples that go through together with so many particles, from 1 to `particles`.

        An example takes bytes a + b·particles, and the examples that fit are in inverse proportion
        to it. So their inverse lies on a line, between those of `alone` and of `examples`.

        Example:
            >>> [Chunks(40, 10, alone=155).examples_for(n) for n in (1, 2, 5, 10)]
            [155, 117, 68, 40]
        """
        if self.alone is None or self.particles == 1:
            return self.examples
        steps, more = self.particles - 1, particles - 1
        below = self.examples * (steps - more) + self.alone * more
        return self.alone * self.examples * steps // below


class Footprint(NamedTuple):
    """Bytes that an example takes on its way through the model: once, and for each particle."""

    shared: int
    own: int


class Parts(NamedTuple):
    """What a target is made of, apart from its prior and its power."""

    forward: Forward
    examples: Examples
    prepared: Inputs | None  # what `forward` needs of the inputs, if it is kept
    likelihood: Likelihood
    footprint: Footprint


def choose_chunks(footprint: Footprint, examples: int) -> Chunks:
    """The deterministic rule: examples whose activations stay in cache, for a chunk of particles.

    Where an example's shared part outweighs what each particle adds, as in a linear head, more
    particles share one reading of it.

    Args:
        footprint: bytes per example.
        examples: how many there are.

    Returns:
        The chunk sizes.

    Example:
        >>> choose_chunks(Footprint(shared=28_000, own=12_500), 1_200)
        Chunks(examples=41, particles=10, alone=155)
        >>> choose_chunks(Footprint(shared=3_072, own=32), 25_000)
        Chunks(examples=1024, particles=96, alone=2026)
    """
    # A whole small data set leaves room for many particles; calls, not arithmetic, are dear then.
    room = (ACTIVATION_BYTES - examples * footprint.shared) // (examples * footprint.own)
    particles = max(PARTICLES, room, min(SHARING_PARTICLES, footprint.shared // footprint.own))
    particles = min(MOST_PARTICLES, particles)

    def fitting(together: int) -> int:
        fit = ACTIVATION_BYTES // (footprint.shared + together * footprint.own)
        return min(examples, max(SMALLEST_CHUNK, fit))

    return Chunks(fitting(particles), particles, fitting(1))


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
    """

    def __init__(
        self,
        forward: Forward,
        examples: Examples,
        likelihood: Likelihood,
        prior: AnchoredPrior,
        chunks: Chunks | None = None,
        power: float = 1.0,
    ) -> None:
        require(len(examples) > 0, "data", "non-empty", Phrase("0 examples"))
        self._forward = forward
        self._likelihood = likelihood
        self._examples = examples
        self.prior = prior
        self.power = power
        self.evaluations = Evaluations()
        self._prepared: Inputs | None = None
        if forward.prepared_bytes(examples.inputs) <= PREPARED_BYTES:
            self._prepared = forward.prepare(examples.inputs)
        self.chunks = chunks or choose_chunks(self._measure(), len(examples))
        logger.debug("target: %s path, %s", forward.path, self.chunks)

    @property
    def dim(self) -> int:
        """Number of sampled parameters."""
        return self.prior.dim

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
        chunks = self._particle_chunks(len(positions))
        if len(chunks) == 1:
            # Particles that share one reading of the data stay together; what is independent then
            # is the chunks of examples.
            return Evaluation(*self._with_gradient(positions, self._apply))
        parts = self._apply(lambda particles: self._with_gradient(positions[particles]), chunks)
        for particles, (value, gradient) in zip(chunks, parts, strict=True):
            values[particles], gradients[particles] = value, gradient
        return Evaluation(values, gradients)

    def log_likelihood(self, positions: Tensor) -> Tensor:
        """Log likelihood alone, `(particles,)` float64: one forward epoch for each particle."""
        self.evaluations.forward += len(positions)
        chunks = self._particle_chunks(len(positions))
        parts = self._apply(lambda p: self._without_gradient(positions[p]), chunks)
        return torch.cat([torch.zeros(0, dtype=torch.float64, device=positions.device), *parts])

    def _apply(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Chunks are independent: side by side, where the model allows it."""
        # Other paths put a particle's weights into a module, of which there is one, and a user's
        # likelihood may keep something to itself.
        own = self.path == "fused" and not isinstance(self._likelihood, Custom)
        if own and self.prior.mean.device.type == "cpu":
            return side_by_side(function, items)
        return map(function, items)

    def with_prior(self, prior: AnchoredPrior) -> Target:
        """The same likelihood in other coordinates; prepared data and counts are shared."""
        other = copy.copy(self)
        other.prior = prior
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
            parts = self._forward, examples, self._likelihood, self.prior, self.chunks
            return Target(*parts, power=self.power)

        return [part(index) for index in range(batches)]

    def _with_gradient(self, positions: Tensor, apply: Apply = map) -> tuple[Tensor, Tensor]:
        theta = self.prior.to_parameters(positions).requires_grad_()
        value = torch.zeros(len(positions), dtype=torch.float64, device=positions.device)
        gradient = torch.zeros(positions.shape, dtype=torch.float64, device=positions.device)
        size = self.chunks.examples_for(len(positions))

        def evaluate(start: int) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():  # whatever the caller's mode is
                sums = self._sums(theta, *self._batch(start, start + size))
                (part,) = torch.autograd.grad(sums.sum(), theta)
            return sums.detach(), part

        for sums, part in apply(evaluate, range(0, len(self._examples), size)):
            value += sums
            gradient += part
        gradient = self.power * gradient * self.prior.scale
        return self.power * value, gradient.to(positions.dtype)

    def _without_gradient(self, positions: Tensor) -> Tensor:
        total = torch.zeros(len(positions), dtype=torch.float64, device=positions.device)
        size = self.chunks.examples_for(len(positions))
        with torch.no_grad():
            theta = self.prior.to_parameters(positions)
            for start in range(0, len(self._examples), size):
                total += self._sums(theta, *self._batch(start, start + size))
        return self.power * total

    def _sums(self, theta: Tensor, inputs: Inputs, targets: Tensor) -> Tensor:
        each = self._likelihood.log_prob(self._forward(theta, inputs), targets)
        return each.sum(-1, dtype=torch.float64)

    def _particle_chunks(self, particles: int) -> list[slice]:
        size = self.chunks.particles
        return [slice(i, min(i + size, particles)) for i in range(0, particles, size)]

    def _batch(self, start: int, end: int) -> tuple[Inputs, Tensor]:
        inputs, targets = self._examples.slice(start, end)
        if self._prepared is None:
            return self._forward.prepare(inputs), targets
        return rows(self._prepared, start, end), targets

    def _measure(self) -> Footprint:
        """Bytes saved for the backward pass, from batches of two sizes; shapes alone decide."""

        def saved_bytes(examples: int, particles: int) -> int:
            storages: dict[int, int] = {}

            def note(tensor: Tensor) -> Tensor:
                storage = tensor.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
                return tensor

            inputs, targets = self._examples.slice(0, 1)
            inputs = tree_map(lambda t: t.repeat(examples, *[1] * (t.ndim - 1)), inputs)
            theta = self.prior.mean.repeat(particles, 1).requires_grad_()
            prepared = self._forward.prepare(inputs)
            hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda t: t)
            with torch.enable_grad(), hooks:
                # Held to the end: the address of a storage that is freed may be the next one's.
                sums = self._sums(theta, prepared, targets.expand(examples, *targets.shape[1:]))
            total = sum(storages.values())
            del sums
            return total

        one = saved_bytes(2, 1) - saved_bytes(1, 1)
        two = saved_bytes(2, 2) - saved_bytes(1, 2)
        own = max(1, two - one)
        return Footprint(shared=max(0, one - own), own=own)

    def parts(self) -> Parts:
        """What the target is made of, for an evaluation on other batches than its own."""
        footprint = self._measure()
        return Parts(self._forward, self._examples, self._prepared, self._likelihood, footprint)
