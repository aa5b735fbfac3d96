"""The Laplace approximation: a Gaussian with the curvature of the posterior at its mode.

Fitted by laplace-torch (Daxberger et al., 2021), which comes with the extra `laplace`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.baselines.result import (
    describe_parameters,
    describe_variance,
    single_network_posterior,
    trained_epochs,
)
from sbmc.checks import Phrase, require, require_choice
from sbmc.likelihoods import Categorical, Likelihood, as_likelihood, known_variance
from sbmc.model.calling import errors_in_words, require_dependence, require_rows
from sbmc.model.data import Examples, as_examples
from sbmc.model.loop import LoopForward
from sbmc.model.parameters import ParameterSpace, Selection, select_parameters
from sbmc.model.wrappers import unwrapped
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.kinds import EitherPrediction
from sbmc.prior.laplace_fit import fit_laplace
from sbmc.randomness import Stream, generator, require_seed
from sbmc.training.settings import check_variance, require_count
from sbmc.training.setup import check_variance_size

STRUCTURES = ("kron", "diag", "full")
# A dense matrix of this side takes 3.2 GB in float64.
LARGEST_FULL = 20_000
# Jacobians of a batch for the diagonal, `(batch, outputs, dim)`, have at most so many numbers.
JACOBIAN_NUMBERS = 2**24


def laplace(
    model: nn.Module,
    data: Any,
    *,
    prior_variance: float | Tensor,
    samples: int = 10,
    structure: str = "kron",
    likelihood: Any = "categorical",
    parameters: Selection = "all",
    batch_size: int = 256,
    seed: int = 0,
    anchor_epochs: float | None = None,
    progress: bool | None = None,
) -> Posterior[EitherPrediction]:
    """Draw from a Laplace approximation around a trained network.

        θ ~ N(θ*, (H + I/v)⁻¹),   H ≈ Σ_i J_iᵀ Λ_i J_i,

    θ* the weights given, meant to be the MAP with the prior N(0, v); J_i the Jacobian of the
    outputs and Λ_i the Hessian of −log p(y_i | outputs): the generalised Gauss-Newton matrix of the
    n examples. It is stored completely (`"full"`), as its diagonal (`"diag"`), or as one Kronecker
    product A ⊗ B for the weights of each layer and B alone for its bias (`"kron"`, K-FAC), which is
    exact for a linear layer without bias whose Λ_i are all the same. Draws go through the network
    itself, not through its linearisation: where H is near-singular they go far from what was
    trained.

    Args:
        model: the trained network; never changed.
        data: training data, as for `fit`.
        prior_variance: variance v of the prior, a number or, but for `"kron"`, one per parameter.
        samples: how many draws.
        structure: `"kron"`, `"diag"` or `"full"`.
        likelihood: `"categorical"` or `Gaussian(noise_variance=...)`.
        parameters: which parameters to draw; the others keep the model's values.
        batch_size: examples in a batch of the fit; the result does not depend on it.
        seed: of the draws; draw k depends on how many there are in its last bits only.
        anchor_epochs: the cost of the network's training; read from its history if it has one.
        progress: None shows a bar on a terminal, True always shows progress, False never.

    Returns:
        The posterior, `(1, samples, dim)`. Its cost has a backward pass over the data for each
        output (for each parameter if `"full"`), beside the network's training.

    Raises:
        BadInput: an argument is refused; a model with layers that have no Kronecker factors.
        ImportError: laplace-torch is not installed.

    Examples:
        >>> net = nn.Linear(2, 2)
        >>> data = (torch.zeros(3, 2), torch.tensor([0, 1, 1]))
        >>> laplace(net, data, prior_variance=1.0, samples=4)  # doctest: +SKIP
        Posterior(islands=1, particles=4, dim=6)
    """
    began = time.perf_counter()
    require_choice("structure", structure, STRUCTURES)
    for name, value in (("samples", samples), ("batch_size", batch_size)):
        require_count(name, value)
    require_seed(seed)
    check_variance(prior_variance)
    model = unwrapped(model)
    space = select_parameters(model, parameters)
    check_variance_size(prior_variance, space.dim)
    several = isinstance(prior_variance, Tensor) and prior_variance.numel() > 1
    rule = "one number for the structure 'kron'"
    require(not (several and structure == "kron"), "prior_variance", rule, Phrase("a vector"))
    rule = f"one for at most {LARGEST_FULL} parameters if it is 'full'"
    fits = structure != "full" or space.dim <= LARGEST_FULL
    require(fits, "structure", rule, Phrase(f"{space.dim} parameters"))
    family = as_likelihood(likelihood)
    epochs = trained_epochs(model, anchor_epochs)
    examples, outputs = _checked(model, space, data, family)
    if structure == "diag":
        batch_size = max(1, min(batch_size, JACOBIAN_NUMBERS // (outputs * space.dim)))
    fitted = fit_laplace(
        model,
        space,
        examples,
        family,
        structure=structure,
        prior_precision=1 / torch.as_tensor(prior_variance, dtype=space.flatten(model).dtype),
        batch_size=batch_size,
        progress=progress,
    )
    streams = [generator(seed, Stream.LAPLACE, sample) for sample in range(samples)]
    mean = space.flatten(model)
    noise = torch.stack([torch.randn(space.dim, generator=g, dtype=mean.dtype) for g in streams])
    positions = mean + _coloured(fitted, structure, noise.to(mean.device))
    fit_epochs = space.dim if structure == "full" else outputs
    return single_network_posterior(
        model,
        space,
        family,
        positions,
        shared_epochs=epochs + fit_epochs,
        seconds=time.perf_counter() - began,
        settings={
            "sampler": "laplace",
            "structure": structure,
            "fit_epochs": fit_epochs,
            "prior_variance": describe_variance(prior_variance),
            "parameters": describe_parameters(parameters),
            "seed": int(seed),
        },
    )


def _checked(
    model: nn.Module, space: ParameterSpace, data: Any, family: Likelihood
) -> tuple[Examples, int]:
    """The examples, ready to use, and the number of the model's outputs."""
    rule = "'categorical' or Gaussian(noise_variance=...) for a Laplace approximation"
    supported = isinstance(family, Categorical) or known_variance(family) is not None
    require(supported, "likelihood", rule, Phrase(family.name))
    weights = space.flatten(model)
    examples = as_examples(data).to(dtype=weights.dtype, device=weights.device)
    single = isinstance(examples.inputs, Tensor)
    rule = "a pair of one input tensor and targets for a Laplace approximation"
    require(single, "data", rule, Phrase("several input tensors"))
    few = examples.slice(0, 2)[0]
    with torch.enable_grad(), errors_in_words(model, examples.inputs):
        outputs = LoopForward(model, space)(weights[None].clone().requires_grad_(), few)[0]
        require_rows(outputs, few)
        require_dependence(outputs)
    outputs = outputs.detach()
    return replace(examples, targets=family.check(examples.targets, outputs)), outputs.shape[-1]


def _coloured(fitted: Any, structure: str, noise: Tensor) -> Tensor:
    """Noise `(samples, dim)` with the covariance of the approximation."""
    if structure == "kron":
        coloured = fitted.posterior_precision.bmm(noise, exponent=-0.5)
    elif structure == "diag":
        coloured = noise * fitted.posterior_scale
    else:
        coloured = noise @ fitted.posterior_scale.mT
    return coloured.detach().reshape(noise.shape).to(noise.dtype)
