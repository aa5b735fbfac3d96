"""Outputs of many particles for prediction: in C where the model is a chain of layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sbmc.likelihoods import Categorical
from sbmc.log import logger
from sbmc.model.calling import errors_in_words
from sbmc.model.chunks import ACTIVATION_BYTES
from sbmc.model.data import Inputs, count, rows
from sbmc.model.forward import Forward, build_forward
from sbmc.model.frozen_part import SplitModel, split_model
from sbmc.model.functional import call_model, evaluation_copy
from sbmc.model.fused import FusedForward
from sbmc.model.kernels.native.chain import ChainKernel
from sbmc.model.kernels.native.plan import NotAChain, find_steps
from sbmc.model.parameters import ParameterSpace
from sbmc.model.threads import side_by_side, thread_count
from sbmc.storage.mapped import release_pages

PARTICLES_AT_ONCE, MOST_AT_ONCE = 10, 256
# Examples that go through together. Of a single layer, whose weights are most of the reading, more.
BATCH, BATCH_OF_ONE_LAYER = 128, 512
# Of its outputs, that are at hand at once: probabilities, their logarithms, entropies.
COPIES = 4
PROBE_EXAMPLES = 2
# Relative to the largest output: far above rounding, far below what a wrong kernel gives.
TOLERANCE = 1e-3


class Predictor(NamedTuple):
    """How a model's outputs are computed, and in which pieces.

    Attributes:
        forward: the model as a function of many parameter vectors.
        kernel: the same in C, if it is a chain of layers; without likelihood and gradient.
        batch: examples that go through together, by rule.
        values: numbers that an example and a particle make on their way; None if not known.
    """

    forward: Forward
    kernel: ChainKernel | None
    batch: int
    values: int | None

    @classmethod
    def build(cls, forward: Forward, theta: Tensor, inputs: Inputs) -> Predictor:
        """Find the fastest way, tried on two examples.

        Args:
            forward: the model.
            theta: parameters to try it at, `(dim,)`.
            inputs: some examples.
        """
        few = rows(inputs, 0, PROBE_EXAMPLES)
        if not isinstance(forward, FusedForward) or not isinstance(few, Tensor):
            return cls(forward, None, BATCH, None)
        layers = forward.layers()
        if layers is None:
            return cls(forward, None, BATCH, None)
        try:
            steps = find_steps(layers, few)
        except NotAChain:
            return cls(forward, None, BATCH, None)
        values = sum(step.shape[0] * step.shape[1] * step.shape[2] for step in steps[1:])
        if len(steps) == 2:  # one matrix product for all particles: nothing is faster
            return cls(forward, None, BATCH_OF_ONE_LAYER, values)
        kernel = _find_chain(forward, layers, theta, few)
        if kernel is None:
            return cls(forward, None, BATCH, values)
        # Whole batches of the kernel: what fills the last of them up is computed for nothing. It
        # takes one particle after another, so that only outputs are held, and what becomes of them.
        batch = -(-BATCH // kernel.batch) * kernel.batch
        return cls(forward, kernel, batch, COPIES * steps[-1].shape[0])

    def outputs(
        self,
        theta: Tensor,
        inputs: Inputs,
        dtype: torch.dtype | None = None,
        most: int | None = None,
        chosen: Tensor | None = None,
    ) -> Iterator[tuple[slice, Tensor]]:
        """Go through all particles, some at a time.

        Args:
            theta: `(particles, dim)`, possibly in a mapped file, of which some are read at a time.
            inputs: a batch of examples.
            dtype: to which particles are converted, some at a time; as they are if None.
            most: particles that go through together, at most; by rule if None.
            chosen: the indices of those that are to go through, `(chosen,)`; all if None.

        Yields:
            Which of them, and their outputs `(particles, examples, ...)`.
        """
        examples = count(inputs)
        size = self._particles_at_once(examples)
        size = size if most is None else min(size, most)
        total = len(theta) if chosen is None else len(chosen)
        parts = [slice(start, start + size) for start in range(0, total, size)]

        def particles(part: slice) -> Tensor:
            some = theta[part] if chosen is None else theta[chosen[part]]
            return some.to(dtype or theta.dtype)

        if self.kernel is None:
            prepared = self.forward.prepare(inputs)
            for part in parts:
                yield part, self.forward(particles(part), prepared)
                release_pages(theta)
            return
        kernel = self.kernel
        assert isinstance(inputs, Tensor)  # or there is no kernel
        laid = kernel.lay(inputs)

        def of_particles(part: slice) -> Tensor:
            return kernel.outputs(particles(part), laid, examples)

        together = thread_count()  # not all: their outputs would be held at once
        for first in range(0, len(parts), together):
            some = parts[first : first + together]
            made = side_by_side(of_particles, some)
            release_pages(theta)
            yield from zip(some, made, strict=True)

    def _particles_at_once(self, examples: int) -> int:
        """How many go through together: their activations for a batch should stay in cache."""
        if self.values is None:
            return PARTICLES_AT_ONCE
        fitting = ACTIVATION_BYTES // max(1, self.values * examples * 8)
        return max(PARTICLES_AT_ONCE, min(fitting, MOST_AT_ONCE))


def _find_chain(
    forward: FusedForward, layers: list, theta: Tensor, few: Tensor
) -> ChainKernel | None:
    """The chain in C, if there is one and it gives what the model gives."""
    try:
        kernel = ChainKernel(layers, forward.space, Categorical(), few[:1])
    except NotAChain as error:
        logger.debug("prediction: no kernel (%s)", error)
        return None
    wave = torch.arange(len(theta)).sin().to(theta)
    both = torch.stack([theta, theta + 0.1 * (theta.abs().mean() + 0.1) * wave])
    with torch.no_grad():
        expected = forward(both, forward.prepare(few))
    ours = kernel.outputs(both, kernel.lay(few), len(few))
    finite = torch.isfinite(expected)
    scale = float(expected[finite].abs().max()) if bool(finite.any()) else 0.0
    if ours.shape != expected.shape:
        return None
    close = (ours - expected).abs() <= TOLERANCE * (scale + 1e-6)
    if not bool((close | ~finite).all()):
        logger.info("prediction: the chain kernel differs from the model")
        return None
    logger.debug("prediction: chain kernel")
    return kernel


def build_evaluator(
    model: nn.Module, space: ParameterSpace, few: Inputs, inputs: Inputs
) -> tuple[Forward, SplitModel | None]:
    """The forward for `space`; of the final layer only, if nothing else is sampled.

    Args:
        model: the network.
        space: the parameters that vary between particles.
        few: examples to try it on, where the model is.
        inputs: all of them, of which a refusal speaks.

    Raises:
        BadInput: the model cannot be called with the inputs.
    """
    # In a copy: the call must not draw dropout, nor move the statistics of a BatchNorm.
    module = evaluation_copy(model, space)
    with torch.no_grad(), errors_in_words(module, inputs, "inputs"):
        call_model(module, {}, few)
    split = split_model(model, space, few)
    if split is None:
        return build_forward(model, space, few, gradient=False), None
    features = split.features(few)
    return build_forward(split.head, split.space, features, gradient=False), split
