"""From the outputs of all particles to a prediction and its parts, as modules without parameters.

The formulae are those of `sbmc.prediction.mixture`, which adds up some particles at a time and
refuses NaN. Here all particles are in one tensor, and no line looks at a value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal, StudentT

from sbmc.checks import BadInput
from sbmc.likelihoods import Custom, Likelihood, TargetMoments
from sbmc.posterior.export.quantiles import mixture_quantiles, normal_cdf

Answers = dict[str, Tensor]


class ClassMixture(nn.Module):
    """Probabilities and the split of their entropy; see `sbmc.Prediction`.

    Args:
        likelihood: of classes or labels.
        weights: of the particles, `(particles,)`, of sum 1, in the dtype to compute in.
        with_features: whether the features of a confidence are needed.
    """

    weights: Tensor

    def __init__(self, likelihood: Likelihood, weights: Tensor, *, with_features: bool) -> None:
        super().__init__()
        self.likelihood = likelihood
        self.with_features = with_features
        self.register_buffer("weights", weights)

    def forward(self, outputs: Tensor) -> Answers:
        """The answers for outputs `(particles, examples, ...)`."""
        logits = self.likelihood.logits(outputs)
        log_probs = logits.log_softmax(-1).to(self.weights.dtype)
        probs = log_probs.exp()
        mixed = self._mean(probs)
        tiny = torch.finfo(mixed.dtype).tiny
        total = -(mixed * mixed.clamp(min=tiny).log()).sum(-1).clamp(max=0.0)
        # A probability of zero has no entropy; its logarithm must not be infinite here.
        entropies = -(probs * log_probs.clamp(min=-1e4)).sum(-1).clamp(max=0.0)
        # A single particle has no disagreement; two sums would differ in their last bits.
        aleatoric = total if len(self.weights) == 1 else self._mean(entropies)
        answers = {
            "probabilities": mixed,
            "total": total,
            "aleatoric": aleatoric,
            "epistemic": (total - aleatoric).clamp(min=0.0),
        }
        if self.with_features:
            answers["features"] = self._features(answers, probs)
        return answers

    def _features(self, answers: Answers, probs: Tensor) -> Tensor:
        """The features of `Prediction.features`, in their order."""
        largest, second = probs.topk(2, dim=-1).values.unbind(-1)
        margin = largest - second
        means = self._mean(largest), self._mean(margin)
        columns = [
            answers["probabilities"].amax(-1),
            answers["total"],
            *means,
            answers["epistemic"],
            self._mean((largest - means[0]).square()),
            self._mean((margin - means[1]).square()),
        ]
        return torch.stack(columns, 1)

    def _mean(self, values: Tensor) -> Tensor:
        return weighted_mean(values, self.weights)


class NumberMixture(nn.Module):
    """Mean, variances and, for Gaussian noise, an interval; see `sbmc.RegressionPrediction`.

    Args:
        likelihood: of numbers or counts.
        weights: of the particles, `(particles,)`, of sum 1, in the dtype to compute in.
        interval: the probability inside; None for no interval.
        width: of the interval around the mean whose probability is the score of a confidence; None
            for no score.
    """

    weights: Tensor
    half_width: Tensor | None

    def __init__(
        self,
        likelihood: Likelihood,
        weights: Tensor,
        *,
        interval: float | None,
        width: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.likelihood = likelihood
        self.interval = interval
        self.register_buffer("weights", weights)
        self.register_buffer("half_width", None if width is None else width.to(weights) / 2)

    def forward(self, outputs: Tensor) -> Answers:
        """The answers for outputs `(particles, examples, ...)`."""
        found = moments(self.likelihood, outputs)
        means = found.mean.to(self.weights.dtype)
        noise = torch.as_tensor(found.variance, dtype=means.dtype).expand_as(means)
        mean = weighted_mean(means, self.weights)
        gaps, deviations = means - mean, noise.sqrt()
        aleatoric = weighted_mean(noise, self.weights)
        epistemic = weighted_mean(gaps.square(), self.weights)
        answers = {"mean": mean}
        if self.interval is not None:
            ends = (1 - self.interval) / 2, (1 + self.interval) / 2
            # Around the mean: a large one would leave few digits for the ends.
            lower, upper = mixture_quantiles(gaps, deviations, self.weights, ends).unbind(0)
            answers |= {"lower": mean + lower, "upper": mean + upper}
        answers |= {
            "total": aleatoric + epistemic,
            "aleatoric": aleatoric,
            "epistemic": epistemic,
        }
        if self.half_width is not None:
            answers["score"] = self._outside(gaps, deviations, self.half_width)
        return answers

    def _outside(self, gaps: Tensor, deviations: Tensor, half_width: Tensor) -> Tensor:
        """P(|Y − mean| > width / 2) of any output, `(examples,)`."""
        # Outputs are independent given the particle, and not in the mixture.
        upper, lower = ((end - gaps) / deviations for end in (half_width, -half_width))
        within = (normal_cdf(upper) - normal_cdf(lower)).clamp(min=0.0).prod(-1)
        return (1 - weighted_mean(within, self.weights)).clamp(0.0, 1.0)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Σ_i w_i v_i over the first axis."""
    return (weights.view(-1, *[1] * (values.ndim - 1)) * values).sum(0)


def moments(likelihood: Likelihood, outputs: Tensor) -> TargetMoments:
    """Mean and variance of what particles predict, without a look at any value.

    Args:
        likelihood: of numbers or counts.
        outputs: `(particles, examples, ...)`.
    """
    each = components(likelihood, outputs)
    if isinstance(each, Normal):
        return TargetMoments(each.loc, each.scale.square())
    if isinstance(each, StudentT):  # torch asks which degrees of freedom are above 2; all are
        return TargetMoments(each.loc, each.scale.square() * each.df / (each.df - 2))
    return likelihood.moments(outputs)


def components(likelihood: Likelihood, outputs: Tensor) -> Distribution | None:
    """The distributions of single numbers that particles predict; None if they are not known."""
    if isinstance(likelihood, Custom):
        return None
    each: Any = likelihood.distribution(outputs)
    while isinstance(each, Independent):
        each = each.base_dist
    return each


def require_normal(likelihood: Likelihood, outputs: Tensor, name: str, what: str) -> None:
    """Refuse what needs a distribution function that a graph does not have.

    Args:
        likelihood: of numbers or counts.
        outputs: `(particles, examples, ...)`, of a few examples.
        name: the argument that asks for it.
        what: it is, in words, such as "intervals".

    Raises:
        BadInput: particles predict other than normal distributions of columns.
    """
    each = components(likelihood, outputs)
    if not isinstance(each, Normal) or each.loc.ndim != 3:
        raise BadInput(
            f"`{name}` must be None for the likelihood {likelihood.name!r}, but got a value: "
            f"{what} in a graph are those of Gaussian noise on outputs (examples, outputs). "
            "Without it the graph has the mean and the three variances."
        )
