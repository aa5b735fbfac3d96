"""Running sums of a mixture's prediction: some particles at a time, for one batch of examples.

The outputs of all particles, `(particles, examples, classes)`, are never held together. Means and
variances over particles are joined from those of the parts: with weights W_a and W_b, means m_a
and m_b, and sums of weighted squared deviations S_a and S_b,

    m = m_a + (m_b − m_a) W_b / W,    S = S_a + S_b + (m_b − m_a)² W_a W_b / W,    W = W_a + W_b

in which nothing is a difference of squares.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from sbmc.checks import BadInput
from sbmc.likelihoods import Likelihood, TargetMoments
from sbmc.prediction.prediction import Prediction, RegressionPrediction

# Beyond so many classes, sorting is faster than going through them one by one.
FEW_CLASSES = 32


class Moments:
    """Weighted mean and variance over particles that come in parts."""

    def __init__(self) -> None:
        self._weight = 0.0
        self.mean: Tensor | None = None
        self._squares: Tensor | None = None

    def add(self, values: Tensor, weights: Tensor) -> None:
        """Add values `(particles, ...)` float64 with weights `(particles,)`."""
        weight = float(weights.sum())
        share = (weights / weight).view(-1, *[1] * (values.ndim - 1))
        mean = (share * values).sum(0)
        # Around the mean, not as a difference of squares: never negative, zero for one particle.
        squares = weight * (share * (values - mean).square()).sum(0)
        if self.mean is None or self._squares is None:
            self._weight, self.mean, self._squares = weight, mean, squares
            return
        total = self._weight + weight
        gap = mean - self.mean
        self.mean = self.mean + gap * (weight / total)
        self._squares = self._squares + squares + gap.square() * (self._weight * weight / total)
        self._weight = total

    @property
    def variance(self) -> Tensor:
        """The weighted mean of squared deviations, with weights made to sum to 1."""
        assert self._squares is not None
        return self._squares / self._weight


class ClassificationSums:
    """A `Prediction` from the outputs of some particles at a time.

    Examples:
        >>> sums = ClassificationSums()
        >>> sums.add(torch.tensor([[[0.0, 40.0]]]), torch.tensor([0.5]))
        >>> sums.add(torch.tensor([[[40.0, 0.0]]]), torch.tensor([0.5]))
        >>> [round(x, 4) for x in (sums.prediction().epistemic.item(), sums.margin.mean.item())]
        [0.6931, 1.0]
    """

    def __init__(self) -> None:
        self.largest, self.margin = Moments(), Moments()
        self._weight = 0.0
        self._particles = 0
        self._probs: Tensor | None = None
        self._aleatoric: Tensor | None = None
        self._squares: Tensor | None = None

    def add(self, outputs: Tensor, weights: Tensor) -> None:
        """Add outputs (not probabilities) of particles with positive weights.

        Args:
            outputs: `(particles, examples, classes)`, or with positions of an example, such as
                pixels, between the last two axes.
            weights: `(particles,)`, positive.

        Raises:
            BadInput: outputs are not numbers.
        """
        # Classes first: what goes over few classes is then done for all examples at once.
        log_probs = outputs.movedim(-1, 0).contiguous().log_softmax(0).double()
        _refuse_nan(log_probs, self._particles)
        self._particles += len(weights)
        weights = weights.to(log_probs)
        probs = log_probs.exp()
        mixed = torch.matmul(weights, probs.transpose(0, 1).flatten(1))
        mixed = mixed.view(len(probs), *probs.shape[2:])
        # A probability of zero has no entropy; its logarithm must not be infinite here.
        entropy = -(probs * log_probs.clamp_(min=-1e4)).sum(0).clamp_(max=0.0)
        aleatoric = torch.matmul(weights, entropy.flatten(1)).view(entropy.shape[1:])
        largest, second = _two_largest(probs)
        self.largest.add(largest, weights)
        self.margin.add(largest - second, weights)
        self._weight += float(weights.sum())
        of_each = probs.square().sum(0)
        squares = torch.matmul(weights, of_each.flatten(1)).view(of_each.shape[1:])
        if self._probs is None or self._aleatoric is None or self._squares is None:
            self._probs, self._aleatoric, self._squares = mixed, aleatoric, squares
        else:
            self._probs += mixed
            self._aleatoric += aleatoric
            self._squares += squares

    def prediction(self) -> Prediction:
        """The prediction of all particles that were added, with weights normalised to sum to 1."""
        assert self._probs is not None
        assert self._aleatoric is not None
        assert self._squares is not None
        probs = (self._probs / self._weight).movedim(0, -1).contiguous()
        total = torch.special.entr(probs).sum(-1).clamp(min=0.0)
        # A single particle has no disagreement; two sums would differ in their last bits.
        alone = self._particles == 1
        aleatoric = total.clone() if alone else self._aleatoric / self._weight
        squares = probs.square().sum(-1) if alone else self._squares / self._weight
        return Prediction(
            probs,
            total,
            aleatoric,
            (total - aleatoric).clamp(min=0.0),
            mean_max_probability=self.largest.mean,
            mean_margin=self.margin.mean,
            variance_max_probability=self.largest.variance,
            variance_margin=self.margin.variance,
            mean_square_probability=squares,
        )


class RegressionSums:
    """A `RegressionPrediction` from the means and noise of some particles at a time."""

    def __init__(self) -> None:
        self._known_noise = 0.0
        self._means, self._noise = Moments(), Moments()
        self._particles = 0

    def add(self, moments: TargetMoments, weights: Tensor) -> None:
        """Add what particles with positive weights predict.

        Args:
            moments: means `(particles, examples, ...)`, and variances of the noise in the same
                shape, or a number if it is known.
            weights: `(particles,)`, positive.

        Raises:
            BadInput: means are not numbers.
        """
        means, noise = moments
        _refuse_nan(means.unsqueeze(0), self._particles)
        self._particles += len(weights)
        weights = weights.to(means.device, torch.float64)
        self._means.add(means.double(), weights)
        if isinstance(noise, Tensor):
            self._noise.add(noise.double(), weights)
        else:
            self._known_noise = noise

    def prediction(self) -> RegressionPrediction:
        """The prediction of all particles that were added, with weights normalised to sum to 1."""
        mean, epistemic = self._means.mean, self._means.variance
        assert mean is not None
        aleatoric = self._noise.mean
        if aleatoric is None:
            aleatoric = torch.full_like(mean, self._known_noise)
        return RegressionPrediction(mean, aleatoric, epistemic, aleatoric + epistemic)


def mixed_prediction(
    likelihood: Likelihood, parts: Iterable[tuple[Tensor, Tensor]]
) -> Prediction | RegressionPrediction:
    """Mix what particles predict for one batch of examples, some of them at a time.

    Args:
        likelihood: of the outputs.
        parts: outputs `(particles, examples, ...)` and weights `(particles,)` of some particles.

    Returns:
        Probabilities for a likelihood of classes or labels, otherwise means and variances.
    """
    if likelihood.classification:
        classes = ClassificationSums()
        for outputs, weights in parts:
            classes.add(likelihood.logits(outputs), weights)
        return classes.prediction()
    numbers = RegressionSums()
    for outputs, weights in parts:
        numbers.add(likelihood.moments(outputs), weights)
    return numbers.prediction()


def _two_largest(probs: Tensor) -> tuple[Tensor, Tensor]:
    """The two largest values over the first axis; a missing class has probability zero."""
    if len(probs) > FEW_CLASSES:
        first, second = probs.topk(2, dim=0).values
        return first, second
    first, second = probs[0], torch.zeros_like(probs[0])
    for other in probs[1:]:
        second = torch.maximum(second, torch.minimum(first, other))
        first = torch.maximum(first, other)
    return first, second


def _refuse_nan(values: Tensor, before: int) -> None:
    """Refuse values `(classes, particles, examples, ...)` that are not numbers."""
    if not bool(values.sum().isnan()):  # one pass; infinities of both signs also give NaN
        return
    bad = values.isnan().transpose(0, 1).flatten(1).any(1).nonzero().flatten() + before
    if len(bad):
        raise BadInput(
            "`outputs` must be free of NaN for every particle of positive weight, but got NaN for "
            f"particles {bad.tolist()}."
        )
