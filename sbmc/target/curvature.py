"""The curvature of the log likelihood at a point: the diagonal of its Fisher information.

For outputs f_i(θ) and y ~ p(· | f_i(θ)), the information of all n examples is

    F = Σ_i E_y[∇ log p(y | f_i(θ)) ∇ log p(y | f_i(θ))ᵀ]

the expectation over what the model itself would predict. For the built-in likelihoods it equals the
generalised Gauss-Newton matrix, is never negative, and is exact here, without sampling labels:
categorical, Σ_c p_c (∂ log p_c/∂θ)²; Gaussian, Σ_k (∂f_k/∂θ)²/σ². Each likelihood states its own
(`Likelihood.fisher`).

Where a rough figure will do, `estimate_fisher` takes some of the examples, with one target each
that the model itself draws.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.likelihoods import (
    Categorical,
    Custom,
    Likelihood,
    known_variance,
    unweighted,
    without_weights,
)
from sbmc.model.data import Inputs, count, rows, tree_map
from sbmc.target.contract import Parts

# Bytes that gradients and activations of one call may take; a call has at least one example.
CURVATURE_BYTES = 32 * 2**20


class Information(NamedTuple):
    """The diagonal of the Fisher information, and its cost."""

    diagonal: Tensor  # (dim,) float64, not negative
    epochs: int  # one for each output: a gradient of every example for each of them


def has_information(likelihood: Likelihood) -> bool:
    """Whether the expectation over targets is known; for a user's function it is not."""
    return likelihood.has_fisher


def diagonal_fisher(parts: Parts, theta: Tensor) -> Information:
    """The exact diagonal of the Fisher information of the summed log likelihood at θ.

    An example needs a gradient for each of the model's K outputs, so this costs K epochs of one
    particle. Each example of a chunk goes through the model as a particle of its own, whose
    gradient is then the example's: that works on every path. A power of the likelihood is not in
    the result.

    Args:
        parts: model, examples and likelihood, from `LikelihoodEngine.parts()`.
        theta: the point, `(dim,)` in the model's own coordinates.

    Returns:
        The information.

    Raises:
        BadInput: a likelihood whose expectation is not known.

    Examples:
        >>> from sbmc.likelihoods import Gaussian
        >>> from sbmc.model.data import Examples
        >>> from sbmc.model.forward import build_forward
        >>> from sbmc.model.parameters import select_parameters
        >>> from sbmc.model.chunks import Footprint
        >>> net = torch.nn.Linear(2, 1, bias=False)
        >>> data = Examples(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.zeros(2, 1))
        >>> forward = build_forward(net, select_parameters(net), data.inputs)
        >>> likelihood = Gaussian(noise_variance=0.5)
        >>> parts = Parts(forward, data, None, likelihood, Footprint(shared=100, own=100))
        >>> diagonal_fisher(parts, net.weight.detach()[0]).diagonal
        tensor([20., 40.], dtype=torch.float64)
    """
    has_expectation = has_information(unweighted(parts.likelihood))
    rule = "one whose Fisher information is known"
    require(has_expectation, "likelihood", rule, Phrase(unweighted(parts.likelihood).name))
    total = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
    size = _chunk_size(parts, theta)
    outputs = 0
    for start in range(0, len(parts.examples), size):
        batch = _batch(parts, start, start + size)
        targets = parts.examples.targets[start : start + size]
        weights = without_weights(parts.likelihood, targets)[1]
        outputs = _add_chunk(total, parts, theta, batch, weights)
    return Information(total, outputs)


def estimate_fisher(parts: Parts, theta: Tensor, rows: int, rng: torch.Generator) -> Tensor:
    """A rough estimate of the same diagonal from some of the examples, one gradient each.

    Targets are drawn from what the model predicts, so the estimate is unbiased for the built-in
    likelihoods. A user's function cannot be drawn from: its own targets are used instead, which
    underestimates the information where the model fits its training data closely.

    Args:
        parts: model, examples and likelihood, from `LikelihoodEngine.parts()`.
        theta: the point, `(dim,)` in the model's own coordinates.
        rows: how many examples to take, evenly spaced over the data; all if there are fewer.
        rng: for the targets.

    Returns:
        The diagonal, `(dim,)` float64, scaled to all examples. It costs `rows / n` epochs of one
        particle.
    """
    total = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
    every = len(parts.examples)
    taken = min(rows, every)
    index = torch.arange(taken, device=theta.device) * every // taken
    for piece in index.split(_chunk_size(parts, theta)):
        inputs = _prepared_rows(parts, piece)
        targets = parts.examples.targets.index_select(0, piece).unsqueeze(1)
        with torch.enable_grad():  # whatever the caller's mode is
            each = theta.expand(len(piece), -1).clone().requires_grad_()
            outputs = parts.forward(each, inputs, stacked=True)
            plain, weights = without_weights(parts.likelihood, targets)
            score = _drawn_score(unweighted(parts.likelihood), outputs, plain, rng)
            (slope,) = torch.autograd.grad(score, each)
        squares = slope.double().square_()
        total += (squares if weights is None else weights.double() * squares).sum(0)
    return total * (every / taken)


def _drawn_score(
    likelihood: Likelihood, outputs: Tensor, targets: Tensor, rng: torch.Generator
) -> Tensor:
    """The sum of log likelihoods of targets that the model draws; a score to differentiate."""
    variance = known_variance(likelihood)
    if variance is not None:
        # y = f + σ ξ has the score ξ/σ ∂f/∂θ.
        noise = torch.randn(outputs.shape, generator=rng, dtype=outputs.dtype).to(outputs.device)
        return (outputs * noise).sum() / variance**0.5
    if isinstance(likelihood, Categorical):
        logs = outputs.log_softmax(-1)
        chances = logs.detach().exp().nan_to_num(1.0).flatten(0, -2).cpu()
        labels = torch.multinomial(chances, 1, generator=rng).to(outputs.device)
        return logs.flatten(0, -2).gather(-1, labels).sum()
    if not isinstance(likelihood, Custom):
        # Distributions of torch draw from its global generator alone, which is put back.
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(int(torch.randint(2**62, (), generator=rng)))
            targets = likelihood.distribution(outputs.cpu()).sample().to(targets)
    return likelihood.log_prob(outputs, targets, stacked=True).sum()


def _chunk_size(parts: Parts, theta: Tensor) -> int:
    # The weights of every example, their gradient, and the gradient of one layer on its way.
    weights = 3 * len(theta) * theta.element_size()
    return max(1, CURVATURE_BYTES // (parts.footprint.shared + parts.footprint.own + weights))


def _prepared_rows(parts: Parts, index: Tensor) -> Inputs:
    """Prepared inputs `(examples, 1, ...)` of the examples at `index`."""

    def take(tensor: Tensor) -> Tensor:
        return tensor.index_select(0, index)

    if parts.prepared is None:
        inputs = parts.forward.prepare(tree_map(take, parts.examples.inputs))
    else:
        inputs = tree_map(take, parts.prepared)
    return tree_map(lambda t: t.unsqueeze(1), inputs)


def _batch(parts: Parts, start: int, end: int) -> Inputs:
    """Prepared inputs `(examples, 1, ...)`: a batch of one for each example."""
    if parts.prepared is None:
        inputs = parts.forward.prepare(parts.examples.slice(start, end)[0])
    else:
        inputs = rows(parts.prepared, start, end)
    return tree_map(lambda t: t.unsqueeze(1), inputs)


def _add_chunk(
    total: Tensor, parts: Parts, theta: Tensor, inputs: Inputs, weights: Tensor | None
) -> int:
    """Add the examples' information to the total; return the number of outputs."""
    with torch.enable_grad():  # whatever the caller's mode is
        each = theta.expand(count(inputs), -1).clone().requires_grad_()
        outputs = parts.forward(each, inputs, stacked=True)
        known = unweighted(parts.likelihood).fisher(outputs.squeeze(1))
        assert known is not None, "`has_information` said so"
        values, chances = known
        if weights is not None:
            chances = chances * weights.unsqueeze(1)
        for output in range(values.shape[-1]):
            last = output == values.shape[-1] - 1
            (slope,) = torch.autograd.grad(values[:, output].sum(), each, retain_graph=not last)
            weighted = slope.double().square_().mul_(chances[:, output].double().unsqueeze(1))
            # A class of probability zero may have an infinite slope, and has no information.
            weighted[chances[:, output] == 0] = 0
            total += weighted.sum(0)
    return values.shape[-1]
