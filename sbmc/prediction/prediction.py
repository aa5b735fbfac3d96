"""Predictions of a weighted ensemble: probabilities, and where the uncertainty comes from.

Everything is computed in float64 and for one batch of examples at a time, so that the outputs of
all particles for a whole data set, `(particles, examples, classes)`, are never held together:

    concatenate(classification_prediction(log_probs(batch), weights) for batch in batches)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require

# Far above the rounding of bfloat16, and far below what raw network outputs would give.
_NORMALISED_WITHIN = 1e-2

FEATURES = (
    "max_probability",
    "total",
    "mean_max_probability",
    "mean_margin",
    "epistemic",
    "variance_max_probability",
    "variance_margin",
)
"""The paper's seven features of a prediction, in its order; the last three are zero for a point."""


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """Predictive probabilities and the split of their entropy, in nats (paper, eq. `entropy`).

    With p_i(y|x) the probabilities of particle i and w_i its weight:

        probs      p(y|x)  = Σ_i w_i p_i(y|x)
        total      H_tot(x) = − Σ_y p(y|x) log p(y|x)
        aleatoric  H_al(x)  = − Σ_i w_i Σ_y p_i(y|x) log p_i(y|x)
        epistemic  H_ep(x)  = H_tot(x) − H_al(x)

    The epistemic part is the mutual information of label and parameters: zero when all particles
    agree, and at most the log of the number of classes. No part is ever negative; rounding that
    would make it so is cut off at zero.

    How sure each particle is enters through p_i,max(x) = max_y p_i(y|x) and its margin Δ_i(x), the
    difference of its two largest probabilities. Every particle has its own most probable class
    here, as the paper's y* depends on θ; that of the mixture plays no part.

    Attributes:
        probs: `(examples, classes)`, float64, rows sum to 1.
        total: `(examples,)`.
        aleatoric: `(examples,)`, what more data would leave.
        epistemic: `(examples,)`, what more data would remove.
        mean_max_probability: `(examples,)`, Σ_i w_i p_i,max; None if the particles are not known.
        mean_margin: `(examples,)`, Σ_i w_i Δ_i; None likewise.
        variance_max_probability: `(examples,)`, Σ_i w_i (p_i,max − its mean)²; None likewise.
        variance_margin: `(examples,)`, Σ_i w_i (Δ_i − its mean)²; None likewise.
        origin: digest of the posterior that predicted; None if that is not known.
    """

    probs: Tensor
    total: Tensor
    aleatoric: Tensor
    epistemic: Tensor
    mean_max_probability: Tensor | None = None
    mean_margin: Tensor | None = None
    variance_max_probability: Tensor | None = None
    variance_margin: Tensor | None = None
    origin: str | None = None

    @property
    def labels(self) -> Tensor:
        """The most probable class of each example, `(examples,)`; the first one of equals."""
        return self.probs.argmax(dim=-1)

    @property
    def max_probability(self) -> Tensor:
        """The probability of that class in the mixture, `(examples,)`."""
        return self.probs.max(dim=-1).values

    def features(self) -> Tensor:
        """The paper's seven features of each example, from which its confidence is inferred.

            p_max, H_tot, E[p_i,max], E[Δ_i], H_ep, Var[p_i,max], Var[Δ_i]

        The last three measure disagreement between particles and are exactly zero for one particle.

        Returns:
            `(examples, 7)` float64, in the order of `FEATURES`.

        Raises:
            BadInput: if the prediction was not made from particles.

        Example:
            >>> one = torch.tensor([[[0.7, 0.2, 0.1]]], dtype=torch.float64).log()
            >>> prediction = classification_prediction(one, torch.ones(1))
            >>> [round(value, 3) for value in prediction.features()[0].tolist()]
            [0.7, 0.802, 0.7, 0.5, 0.0, 0.0, 0.0]
        """
        columns = [getattr(self, name) for name in FEATURES]
        missing = [name for name, column in zip(FEATURES, columns, strict=True) if column is None]
        rule = "made from particles, by `predict` or `classification_prediction`, to have features"
        require(not missing, "prediction", rule, Phrase(f"one without {', '.join(missing)}"))
        return torch.stack([column.double() for column in columns], dim=1)

    def __len__(self) -> int:
        return len(self.probs)

    def __repr__(self) -> str:
        return f"Prediction(examples={len(self)}, classes={self.probs.shape[-1]})"


@dataclass(frozen=True, eq=False, repr=False)
class RegressionPrediction:
    """Mean and variance of the predictive mixture, by the law of total variance.

    With m_i(x) the mean that particle i predicts, σ_i²(x) its noise variance and w_i its weight:

        mean       m(x) = Σ_i w_i m_i(x)
        aleatoric         Σ_i w_i σ_i²(x)
        epistemic         Σ_i w_i (m_i(x) − m(x))²
        total             aleatoric + epistemic

    Attributes:
        mean: `(examples,)` or `(examples, outputs)`, float64, as are the variances.
        aleatoric: variance of the noise, the shape of `mean`.
        epistemic: variance between particles, the shape of `mean`.
        total: their sum.
    """

    mean: Tensor
    aleatoric: Tensor
    epistemic: Tensor
    total: Tensor

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"RegressionPrediction(examples={len(self)}, outputs={self.mean[:1].numel() or 1})"


def classification_prediction(log_probs: Tensor, weights: Tensor) -> Prediction:
    """Combine the predictions of particles for one batch of examples.

    The formulae are those of `Prediction`. A particle of weight zero is left out before anything is
    computed, so it may have failed in any way, NaN included.

    Args:
        log_probs: `(particles, examples, classes)` log-probabilities (not raw outputs), any float
            type; −inf is a probability of zero.
        weights: `(particles,)`, non-negative, sum 1.

    Returns:
        The prediction for the batch, on the device of `log_probs`.

    Raises:
        BadInput: if shapes or weights are wrong, or a particle that has weight does not give a
            probability distribution.

    Example:
        >>> certain = torch.eye(2).log().unsqueeze(1)  # two particles, each sure of another class
        >>> prediction = classification_prediction(certain, torch.tensor([0.5, 0.5]))
        >>> prediction.probs.tolist(), round(prediction.epistemic.item(), 4)
        ([[0.5, 0.5]], 0.6931)
    """
    shape = tuple(log_probs.shape)
    rule = "of shape (particles, examples, classes)"
    require(log_probs.ndim == 3 and shape[2] > 0, "log_probs", rule, shape)
    weights, weighted = _checked_weights(weights, particles=shape[0])
    log_probs = log_probs[weighted.to(log_probs.device)].double()
    weights = weights[weighted].to(log_probs.device).view(-1, 1, 1)

    _refuse_nan(log_probs, "log_probs", weighted)
    excess = log_probs.logsumexp(dim=-1).abs()
    if excess.numel() and not (excess.max() <= _NORMALISED_WITHIN):
        total_mass = log_probs.exp().sum(dim=-1).flatten()[excess.argmax()].item()
        rule = "normalised log-probabilities (`log_softmax` of the outputs, for example)"
        raise BadInput(f"`log_probs` must be {rule}, but got probabilities of sum {total_mass:g}.")

    particle_probs = log_probs.exp()
    probs = (weights * particle_probs).sum(dim=0)
    total = _entropy(probs)
    weights = weights.squeeze(-1)
    aleatoric = (weights * _entropy(particle_probs)).sum(dim=0)
    largest, margin = _largest_and_margin(particle_probs)
    mean_largest, variance_largest = _weighted_moments(largest, weights)
    mean_margin, variance_margin = _weighted_moments(margin, weights)
    return Prediction(
        probs,
        total,
        aleatoric,
        (total - aleatoric).clamp(min=0.0),
        mean_max_probability=mean_largest,
        mean_margin=mean_margin,
        variance_max_probability=variance_largest,
        variance_margin=variance_margin,
    )


def regression_prediction(
    means: Tensor, weights: Tensor, noise_variance: float | Tensor
) -> RegressionPrediction:
    """Combine the particles' means for one batch of examples.

    The formulae are those of `RegressionPrediction`; particles of weight zero are left out, as in
    `classification_prediction`.

    Args:
        means: `(particles, examples)` or `(particles, examples, outputs)`, any float type.
        weights: `(particles,)`, non-negative, sum 1.
        noise_variance: a number, or a tensor of the shape of `means`.

    Returns:
        The prediction for the batch, on the device of `means`.

    Raises:
        BadInput: if shapes, weights or the noise variance are wrong, or a particle that has weight
            gives NaN.

    Example:
        >>> means = torch.tensor([[0.0], [2.0]])
        >>> prediction = regression_prediction(means, torch.tensor([0.5, 0.5]), 0.25)
        >>> prediction.mean.item(), prediction.epistemic.item(), prediction.total.item()
        (1.0, 1.0, 1.25)
    """
    shape = tuple(means.shape)
    rule = "of shape (particles, examples) or (particles, examples, outputs)"
    require(means.ndim in (2, 3), "means", rule, shape)
    weights, weighted = _checked_weights(weights, particles=shape[0])
    noise = torch.as_tensor(noise_variance, dtype=torch.float64, device=means.device)
    rule = f"a number or of the shape of `means`, {shape}"
    require(noise.ndim == 0 or noise.shape == means.shape, "noise_variance", rule, noise.shape)

    rows = weighted.to(means.device)
    means, noise = means[rows].double(), noise.expand(shape)[rows]
    weights = weights[weighted].to(means.device).view(-1, *[1] * (means.ndim - 1))
    _refuse_nan(means, "means", weighted)
    _refuse_nan(noise, "noise_variance", weighted)
    if noise.numel():
        smallest = noise.min().item()
        require(smallest >= 0, "noise_variance", "non-negative", smallest)

    mean = (weights * means).sum(dim=0)
    aleatoric = (weights * noise).sum(dim=0)
    # Around the mean, not as a difference of squares: never negative, and exact for large means.
    epistemic = (weights * (means - mean).square()).sum(dim=0)
    return RegressionPrediction(mean, aleatoric, epistemic, aleatoric + epistemic)


AnyPrediction = TypeVar("AnyPrediction", Prediction, RegressionPrediction)


def concatenate(predictions: Iterable[AnyPrediction]) -> AnyPrediction:
    """Join the predictions of consecutive batches into one.

    Args:
        predictions: at least one, all of the same kind.

    Returns:
        One prediction for all examples, in the order given. A part that one of the batches lacks is
        None.

    Raises:
        BadInput: if there is none, or they are of different kinds or of different posteriors.
    """
    batches = list(predictions)
    require(len(batches) > 0, "predictions", "at least one prediction", batches)
    kind = type(batches[0])
    kinds = sorted({type(batch).__name__ for batch in batches})
    require(len(kinds) == 1, "predictions", "all of one kind", kinds)
    return kind(
        *(_joined(field.name, [getattr(b, field.name) for b in batches]) for field in fields(kind))
    )


def _joined(name: str, parts: list[Any]) -> Any:
    if name == "origin":
        require(len(set(parts)) == 1, "predictions", "all of one posterior", Phrase("several"))
        return parts[0]
    return None if any(part is None for part in parts) else torch.cat(parts)


def _largest_and_margin(probs: Tensor) -> tuple[Tensor, Tensor]:
    """The largest probability over classes, and its distance from the second largest."""
    if probs.shape[-1] == 1:
        return probs[..., 0], probs[..., 0]  # a missing class has probability zero
    top = probs.topk(2, dim=-1).values
    return top[..., 0], top[..., 0] - top[..., 1]


def _weighted_moments(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance over the first axis; the variance of one particle is exactly zero."""
    mean = (weights * values).sum(dim=0)
    # Around the mean, not as a difference of squares: never negative, nor rounded away from zero.
    return mean, (weights * (values - mean).square()).sum(dim=0)


def _entropy(probs: Tensor) -> Tensor:
    # `entr` is −p log p, and 0 at p = 0. A probability that was rounded above 1 makes it negative.
    return torch.special.entr(probs).sum(dim=-1).clamp(min=0.0)


def _checked_weights(weights: Tensor, particles: int) -> tuple[Tensor, Tensor]:
    """Normalise the weights in float64, and mark those that are not zero."""
    weights = torch.as_tensor(weights).detach().double()
    shape = tuple(weights.shape)
    rule = f"of shape (particles,), here ({particles},)"
    require(shape == (particles,) and particles > 0, "weights", rule, shape)
    require(bool((weights >= 0).all()), "weights", "non-negative", weights.tolist())
    total = weights.sum().item()
    require(abs(total - 1.0) <= 1e-6, "weights", "of sum 1", total)
    # float32 weights sum to 1 within their own rounding only, which would show in the entropies.
    return weights / total, weights > 0


def _refuse_nan(values: Tensor, name: str, weighted: Tensor) -> None:
    bad = values.isnan().flatten(start_dim=1).any(dim=1).cpu()
    if bad.any():
        particles = weighted.nonzero().flatten().cpu()[bad].tolist()
        rule = "free of NaN for every particle of positive weight"
        raise BadInput(f"`{name}` must be {rule}, but got NaN for particles {particles}.")
