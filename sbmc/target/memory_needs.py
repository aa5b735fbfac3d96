"""The memory of an evaluation, estimated from shapes, and the chunks that follow from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from sbmc.checks import require
from sbmc.model.chunks import Chunks, Footprint, choose_chunks
from sbmc.model.data import Examples, Inputs, leaves, tree_map
from sbmc.model.forward import Forward
from sbmc.model.kernels.choice import Kernel
from sbmc.model.threads import thread_count
from sbmc.storage.lazy_rows import LazyRows

# Bytes of prepared data that may be stored between calls. Larger data are prepared chunk by chunk,
# each time they are used.
PREPARED_BYTES = 64 * 2**20
# Bytes that are read at a time of data that are in a file.
LAZY_BYTES = 2**25
# The backward pass takes up to twice as much memory as the forward pass has saved, on top of that.
PASSES = 3


@dataclass(frozen=True)
class Needs:
    """Memory of an evaluation, beyond the data and the particles.

    Attributes:
        forward: the model as a function of many parameter vectors.
        kernel: the kernel that is used instead of autograd, or None.
        examples: the data.
        footprint: measures the memory of an example; it is slow, and called only without a kernel.
        together: whether threads evaluate chunks side by side.
    """

    forward: Forward
    kernel: Kernel | None
    examples: Examples
    footprint: Callable[[], Footprint]
    together: bool

    @property
    def threads(self) -> int:
        """How many chunks are evaluated at a time."""
        return thread_count() if self.together else 1

    def usual_chunks(self) -> Chunks:
        """Chunks without a memory limit."""
        examples = self._examples_in_memory()
        if self.kernel is not None:
            return self.kernel.chunks(examples)
        return choose_chunks(self.footprint(), examples, alone=self.forward.one_by_one)

    def _examples_in_memory(self) -> int:
        """All examples, or as many as are read from a file at a time."""
        lazy = [t.nbytes for t in leaves(self.examples.inputs) if isinstance(t, LazyRows)]
        examples = len(self.examples)
        return min(examples, max(1, LAZY_BYTES * examples // sum(lazy))) if lazy else examples

    def small_chunks(self, room: int, size: int | None) -> Chunks:
        """Chunks that fit into a memory limit.

        Args:
            room: bytes for all chunks that are evaluated at a time.
            size: examples per chunk; by rule if None.

        Raises:
            BadInput: there is no room for one example and one particle.
        """
        examples = self._examples_in_memory()
        room //= self.threads
        if self.kernel is not None:
            chunks = self.kernel.chunks(examples)
            particles = chunks.particles
            while particles > 1 and self.kernel.working_bytes(particles) > room:
                particles //= 2
            return Chunks(min(size or chunks.examples, examples), particles)
        if size is None:
            alone = self.forward.one_by_one
            return choose_chunks(self.footprint(), examples, room // PASSES, alone=alone)
        footprint, size = self.footprint(), min(size, examples)
        particles = (room // (PASSES * size) - footprint.shared) // footprint.own
        rule = f"enough for {size} examples, as `chunk_size` says, and one particle"
        require(particles >= 1, "memory_limit", rule, room)
        return Chunks(size, min(particles, self.usual_chunks().particles))

    def prepared(self) -> int:
        """Bytes of all data when they are prepared."""
        if self.kernel is None:
            return self.forward.prepared_bytes(self.examples.inputs)
        return self.kernel.prepared_bytes(len(self.examples))

    def usual(self, size: int | None) -> int:
        """Bytes of an evaluation with the usual chunks, or with `size` examples per chunk."""
        chunks = self.usual_chunks()
        return self.free(chunks if size is None else Chunks(size, chunks.particles))

    def free(self, chunks: Chunks) -> int:
        """Bytes of an evaluation without a memory limit."""
        prepared = self.prepared()
        return (prepared if may_store(prepared) else 0) + self.working(chunks, chunks.particles)

    def working(self, chunks: Chunks, particles: int) -> int:
        """Bytes of the chunks on their way through the model."""
        together = min(particles, chunks.particles)
        if self.kernel is not None:
            return self.threads * self.kernel.working_bytes(together)
        footprint = self.footprint()
        each = footprint.shared + together * footprint.own
        examples = min(chunks.examples_for(together), len(self.examples))
        return self.threads * PASSES * each * examples

    def least(self, size: int | None) -> int:
        """The fewest bytes: nothing stored, one example (or `size`) and one particle at a time."""
        examples = min(size or 1, len(self.examples))
        least = PASSES * examples * sum(self.footprint())
        if self.kernel is not None:
            least = min(least, self.kernel.working_bytes(1))
        return self.threads * least


def may_store(size: int, room: int | None = None) -> bool:
    """Whether so many bytes may be stored between calls, if `room` bytes are allowed."""
    return size <= (PREPARED_BYTES if room is None else min(PREPARED_BYTES, room // 2))


def bytes_of(examples: Examples) -> int:
    """Memory that inputs and targets take; rows that are read when they are used take none."""
    sizes = [examples.targets.nbytes]

    def note(tensor: Tensor) -> Tensor:
        sizes.append(0 if isinstance(tensor, LazyRows) else tensor.nbytes)
        return tensor

    tree_map(note, examples.inputs)
    return sum(sizes)


def multiplications(inputs: Inputs, rows: int, weights: int) -> int:
    """A rough upper bound of the multiplications to evaluate models on some rows.

    Args:
        inputs: examples as the models take them; only their shapes matter.
        rows: how many examples go through.
        weights: of all models together.

    Returns:
        One for each weight and row, times the number of pixels of an image or tokens of a text,
        since a weight may be used at all of them.

    Examples:
        >>> import torch
        >>> multiplications(torch.zeros(5, 3), 5, 10), multiplications(torch.zeros(5, 2, 2), 5, 10)
        (50, 200)
    """
    plain = isinstance(inputs, Tensor) and inputs.ndim == 2 and inputs.is_floating_point()
    elements = 1 if plain else sum(math.prod(leaf.shape[1:]) for leaf in leaves(inputs))
    return rows * weights * max(1, elements)
