"""Outputs of every particle, computed batch by batch when they are asked for.

All outputs together, `(particles, examples, ...)`, may be far larger than what is asked of them: an
interval has two numbers for each example. So they are computed for some examples at a time, the
question is answered for these, and they are forgotten, unless they are to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from sbmc.checks import is_whole, require, require_count
from sbmc.likelihoods import Custom, Likelihood
from sbmc.prediction.drawing import draw
from sbmc.prediction.entropies import Split, entropy_split
from sbmc.prediction.predictive import PredictiveMixture, weighted_quantile
from sbmc.randomness import Stream, generator

# Outputs that are held at once, of all particles: 4 MB as float64, and several copies of them.
VALUES_AT_ONCE = 2**19


class OutputSource(Protocol):
    """Where outputs come from."""

    def __len__(self) -> int:
        """How many examples there are."""

    def batches(self, index: Tensor | None) -> Iterator[Tensor]:
        """Outputs `(particles, examples, ...)` of the examples at an index, or of all in order."""

    def inputs(self, index: Tensor | None) -> Any:
        """The inputs of the same examples; None if they are not known."""


class KeptOutputs:
    """Outputs that are held in memory.

    Args:
        outputs: `(particles, examples, ...)`.
        inputs: of the examples, if they are known.
    """

    def __init__(self, outputs: Tensor, inputs: Any = None) -> None:
        self._outputs, self._inputs = outputs, inputs

    def __len__(self) -> int:
        return self._outputs.shape[1]

    def batches(self, index: Tensor | None) -> Iterator[Tensor]:
        """Views of what is held, as many examples at a time as fit."""
        chosen = self._outputs if index is None else self._outputs[:, index]
        example = chosen[:, :1].numel()
        yield from chosen.split(rows_at_once(example), dim=1)

    def inputs(self, index: Tensor | None) -> Any:
        """Those that were given."""
        return self._inputs if index is None or self._inputs is None else self._inputs[index]


class Samples:
    """The outputs of every particle for some examples, with the particles' weights.

    Made by `posterior.samples(x)`. Going through it gives outputs `(particles, rows, ...)` for some
    rows at a time, in order; each time they are computed anew, unless they are kept.

    Attributes:
        weights: `(particles,)` float64, positive, of sum 1. Particles of weight zero are left out.
        likelihood: of the outputs.

    Examples:
        >>> from sbmc.likelihoods import Gaussian
        >>> source = KeptOutputs(torch.zeros(3, 5, 1))
        >>> samples = Samples(source, torch.full((3,), 1 / 3), Gaussian(noise_variance=1.0))
        >>> len(samples), samples[1:4].outputs().shape
        (5, torch.Size([3, 3, 1]))
    """

    def __init__(
        self,
        source: OutputSource,
        weights: Tensor,
        likelihood: Likelihood,
        index: Tensor | None = None,
    ) -> None:
        self._source = source
        self._index = index
        self.weights = weights.double() / weights.double().sum()
        self.likelihood = likelihood

    def __len__(self) -> int:
        return len(self._source) if self._index is None else len(self._index)

    def __iter__(self) -> Iterator[Tensor]:
        return self._source.batches(self._index)

    def __getitem__(self, index: Any) -> Samples:
        rows = torch.arange(len(self)) if self._index is None else self._index
        return Samples(
            self._source, self.weights, self.likelihood, rows[row_index(index, len(self))]
        )

    def __repr__(self) -> str:
        return f"Samples(particles={len(self.weights)}, examples={len(self)})"

    @property
    def are_kept(self) -> bool:
        """Whether the outputs are held in memory."""
        return isinstance(self._source, KeptOutputs)

    @property
    def has_distribution(self) -> bool:
        """Whether targets have a distribution: a user's log likelihood of numbers gives none."""
        return self.likelihood.classification or not isinstance(self.likelihood, Custom)

    @property
    def inputs(self) -> Any:
        """The inputs of the examples; None if they are not known."""
        return self._source.inputs(self._index)

    def outputs(self) -> Tensor:
        """All outputs in one tensor, `(particles, examples, ...)`."""
        return torch.cat(list(self), dim=1)

    def kept(self) -> Samples:
        """The same samples, with the outputs held in memory, so that they are computed once."""
        return Samples(KeptOutputs(self.outputs(), self.inputs), self.weights, self.likelihood)

    def mixtures(self) -> Iterator[PredictiveMixture]:
        """The predictive distributions of some examples at a time, in order."""
        for outputs in self:
            yield PredictiveMixture(self.likelihood.distribution(outputs.double()), self.weights)

    def quantiles(self, levels: Sequence[float]) -> Tensor:
        """Quantiles of the targets, `(levels, examples, ...)`."""
        return self._ask(lambda m, _: torch.stack([m.quantile(level) for level in levels]))

    def credible_quantiles(self, levels: Sequence[float]) -> Tensor:
        """Quantiles over particles of what they expect, `(levels, examples, ...)`.

        Of numbers these are their means, noise left out; of classes, the probabilities.
        """
        parts = []
        for outputs in self:
            expected = self._expected(outputs.double())
            found = [weighted_quantile(expected, self.weights, level) for level in levels]
            parts.append(torch.stack(found))
        return torch.cat(parts, dim=1)

    def cdf(self, targets: Tensor) -> Tensor:
        """P(Y ≤ target), of the shape of the targets."""
        return self._ask(lambda m, rows: m.cdf(targets[rows]).unsqueeze(0))[0]

    def probability_within(self, lower: Tensor, upper: Tensor) -> Tensor:
        """P(lower ≤ Y ≤ upper) for all outputs of an example together, `(examples,)`."""
        answer = self._ask(lambda m, rows: m.probability_within(lower[rows], upper[rows])[None])
        return answer[0]

    def crps(self, targets: Tensor) -> Tensor:
        """The continuous ranked probability score, of the shape of the targets."""
        return self._ask(lambda m, rows: m.crps(targets[rows]).unsqueeze(0))[0]

    def entropies(self) -> Split:
        """The split of the entropy of numbers or counts, each part `(examples, ...)`."""
        parts = self._ask(lambda m, _: torch.stack(entropy_split(m)))
        return Split(*parts)

    def log_prob(self, targets: Tensor) -> Tensor:
        """Log density of each example's target under the mixture, log Σ_i w_i p_i(y|x).

        Args:
            targets: `(examples, ...)`, as the likelihood takes them.

        Returns:
            `(examples,)` float64.
        """
        parts, start = [], 0
        for outputs in self:
            some = targets[start : start + outputs.shape[1]].to(outputs.device)
            start += outputs.shape[1]
            densities = self.likelihood.log_prob(outputs.double(), some).double()
            log_weights = self.weights.to(outputs.device).log().unsqueeze(1)
            parts.append(torch.logsumexp(densities + log_weights, 0))
        return torch.cat(parts)

    def draws(self, count: int, seed: int) -> Tensor:
        """Joint draws of the targets: each draw has one particle, the same for all examples.

        Args:
            count: how many.
            seed: of the draws.

        Returns:
            `(count, examples, ...)`.
        """
        require_count("n", count)
        rng = generator(seed, Stream.PREDICTIONS)
        chosen = torch.multinomial(self.weights.cpu(), count, replacement=True, generator=rng)
        parts = []
        for outputs in self:
            some = outputs[chosen.to(outputs.device)].double()
            parts.append(draw(self.likelihood.distribution(some), rng))
        return torch.cat(parts, dim=1)

    def _expected(self, outputs: Tensor) -> Tensor:
        """What each particle expects, `(particles, examples, ...)`."""
        if self.likelihood.classification:
            return self.likelihood.logits(outputs).softmax(-1)
        return self.likelihood.moments(outputs).mean

    def _ask(self, question: Callable[[PredictiveMixture, slice], Tensor]) -> Tensor:
        """Answers `(answers, examples, ...)` from those for some examples at a time."""
        parts: list[Tensor] = []
        start = 0
        for mixture in self.mixtures():
            answer = question(mixture, slice(start, start + mixture.examples))
            start += mixture.examples
            parts.append(answer)
        return torch.cat(parts, dim=1)


def join_samples(parts: Sequence[Samples]) -> Samples | None:
    """The samples of consecutive examples as one, if all outputs are kept; otherwise None."""
    if not all(part.are_kept for part in parts):
        return None
    outputs = torch.cat([part.outputs() for part in parts], dim=1)
    return Samples(KeptOutputs(outputs), parts[0].weights, parts[0].likelihood)


def rows_at_once(values_of_an_example: int) -> int:
    """How many examples are held at once, given how many outputs all particles have for one."""
    return max(1, VALUES_AT_ONCE // max(1, values_of_an_example))


def row_index(index: Any, count: int) -> Tensor:
    """Row numbers `(rows,)` for an integer, a slice, a list, or a tensor of integers or booleans.

    Raises:
        IndexError: a row does not exist.

    Examples:
        >>> row_index(-1, 4).tolist(), row_index([True, False, True, False], 4).tolist()
        ([3], [0, 2])
    """
    if is_whole(index):
        if not -count <= index < count:
            raise IndexError(f"row {index} of a prediction of {count} examples")
        index = slice(index, index + 1) if index != -1 else slice(-1, None)
    rows = torch.arange(count)
    if isinstance(index, slice):
        return rows[index]
    chosen = rows[torch.as_tensor(index).cpu()]
    require(chosen.ndim == 1, "index", "a row, a slice, or a list of rows", tuple(chosen.shape))
    return chosen
