"""Predictions of a weighted ensemble from what all its particles say about one batch of examples.

`posterior.predict` adds up some particles at a time instead (`sbmc.prediction.mixture`). These
functions take all of them, for particles of one's own:

    concatenate(classification_prediction(log_probs(batch), weights) for batch in batches)
"""

from __future__ import annotations

import torch
from torch import Tensor

from sbmc.checks import BadInput, require
from sbmc.prediction.prediction import Prediction, RegressionPrediction

# Far above the rounding of bfloat16, and far below what raw network outputs would give.
_NORMALISED_WITHIN = 1e-2


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

    Examples:
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
        mean_square_probability=(weights * particle_probs.square().sum(-1)).sum(0),
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

    Examples:
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
