"""The quantities that are diagnosed: parameters, projections, log densities, predictions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.model.calling import errors_in_words
from sbmc.model.data import as_examples, rows, tree_map
from sbmc.model.predicting import PARTICLES_AT_ONCE, build_evaluator
from sbmc.posterior.input_batches import input_batches
from sbmc.posterior.posterior import Posterior
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.target.builder import EngineBuilder


def projected(theta: Tensor, most: int, rng: torch.Generator) -> tuple[str, Tensor]:
    """The parameters, or random projections of them if there are more than `most`.

    A projection is Σ_j g_j θ_j / σ_j with independent normal g and σ_j the standard deviation of
    parameter j over all rows, so that parameters of all sizes count alike.

    Args:
        theta: `(rows, dim)`.
        most: how many quantities.
        rng: of the directions.

    Returns:
        Their name and `(rows, quantities)`, float64.
    """
    theta = theta.detach().to("cpu", torch.float64)
    dim = theta.shape[1]
    if dim <= most:
        return "parameters", theta
    spread = theta.std(0)
    scale = torch.where(spread > 0, spread, torch.ones_like(spread))
    directions = torch.randn(dim, most, generator=rng, dtype=torch.float64)
    # Around the mean, so that large weights which hardly vary cause no rounding errors.
    return "random projections", ((theta - theta.mean(0)) / scale) @ directions


def log_likelihood(posterior: Posterior, data: Any) -> Tensor:
    """Log likelihood of `data` for each row of the posterior, `(rows,)` float64."""
    theta = posterior.positions.flatten(0, 1).to(posterior.dtype)
    examples = as_examples(data).to(dtype=theta.dtype, device=theta.device)
    build = EngineBuilder(posterior._model, posterior.space, posterior.likelihood, examples)
    engine = build(torch.zeros_like(theta[0]))
    engine.settle()
    return engine.log_likelihood(theta).cpu()


def log_prior(theta: Tensor, prior: AnchoredPrior) -> Tensor:
    """Log density of the prior at `theta` `(rows, dim)`, up to a constant, `(rows,)` float64."""
    white = prior.to_whitened(theta.to(prior.mean)).double()
    return -0.5 * white.square().sum(1).cpu()


def predictions(posterior: Posterior, inputs: Any) -> Tensor:
    """The predictions of each row of the posterior: class probabilities, or the model's outputs.

    Args:
        posterior: `rows` parameter vectors in all.
        inputs: as `posterior.predict` takes them.

    Returns:
        `(rows, examples * outputs)`, float64.
    """
    theta = posterior.positions.flatten(0, 1).to(posterior.dtype)
    parts = []
    evaluator = None
    for batch in input_batches(posterior, inputs, None)[1]:
        batch = tree_map(lambda t: t.to(theta.device), batch)
        with torch.no_grad(), errors_in_words(posterior._model, batch, "inputs"):
            evaluator = evaluator or build_evaluator(
                posterior._model, posterior.space, rows(batch, 0, 2), batch
            )
            forward, split = evaluator
            prepared = forward.prepare(batch if split is None else split.features(batch))
            outputs = torch.cat(
                [forward(some, prepared) for some in theta.split(PARTICLES_AT_ONCE)]
            )
        outputs, likelihood = outputs.double().cpu(), posterior.likelihood
        if likelihood.classification:
            outputs = likelihood.logits(outputs).softmax(-1)
        else:
            outputs = likelihood.moments(outputs).mean
        parts.append(outputs.flatten(1))
    require(bool(parts), "inputs", "non-empty", Phrase("no batches"))
    return torch.cat(parts, 1)
