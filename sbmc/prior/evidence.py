"""Variances by the marginal likelihood: those for which the data are most probable.

With the Laplace approximation of the posterior at the trained weights θ* (MacKay, 1992; Immer et
al., 2021),

    log p(D | v) ≈ log p(D | θ*) − ½ [Σ_i (θ*_i − c_i)²/v_i + log det(H + V⁻¹) + log det V],

with H the generalised Gauss-Newton matrix of all data in Kronecker factors. One variance for each
parameter (each weight matrix, each bias) maximises it.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, require
from sbmc.likelihoods import Categorical, Likelihood, known_variance
from sbmc.model.data import Examples
from sbmc.model.functional import call_model
from sbmc.model.parameters import ParameterSpace
from sbmc.prior.by_layer import ParameterPrior, by_entry
from sbmc.prior.laplace_fit import fit_laplace

# Steps of Adam on the logarithms of the variances, and their size.
STEPS, RATE = 200, 0.1
# Variances stay within this factor of the rule's: where neither the data nor the trained weights
# have information about a layer, the marginal likelihood has no maximum.
FARTHEST = 1000.0


class Chosen(NamedTuple):
    """Variances by the marginal likelihood, and what they cost."""

    parameters: list[ParameterPrior]
    epochs: int  # a backward pass over the data for each output


def maximise_evidence(
    model: nn.Module,
    space: ParameterSpace,
    trained: Tensor,
    examples: Examples,
    likelihood: Likelihood,
    begin: list[ParameterPrior],
) -> Chosen:
    """Choose a variance for each parameter by the marginal likelihood.

    Args:
        model: the network, where the examples are and in their precision.
        space: the sampled parameters.
        trained: weights near the maximum of the posterior, `(dim,)`.
        examples: the training data.
        likelihood: of the model's outputs.
        begin: priors to start from; their centres stay.

    Returns:
        The priors with new variances, and the cost.

    Raises:
        BadInput: a likelihood, inputs or layers that laplace-torch does not know.
        ImportError: laplace-torch is not installed.
    """
    known = isinstance(likelihood, Categorical) or known_variance(likelihood) is not None
    rule = "'categorical' or Gaussian(noise_variance=...) for prior_variance=\"evidence\""
    require(known, "likelihood", rule, Phrase(likelihood.name))
    single = isinstance(examples.inputs, Tensor)
    rule = 'a pair of one input tensor and targets for prior_variance="evidence"'
    require(single, "data", rule, Phrase("several input tensors"))
    module = copy.deepcopy(model).eval()
    space.write(trained, module)
    with torch.no_grad():
        outputs = call_model(module, {}, examples.slice(0, 2)[0])
    examples = replace(examples, targets=likelihood.check(examples.targets, outputs))
    centre = by_entry(begin, [each.centre for each in begin]).to(trained)
    start = torch.tensor([each.variance for each in begin], dtype=torch.float64)
    try:
        fitted = fit_laplace(
            module,
            space,
            examples,
            likelihood,
            structure="kron",
            prior_precision=(1 / start).to(trained),
            prior_mean=centre,
        )
    except BadInput as error:
        raise BadInput(
            '`prior_variance` must be "auto", sbmc.WeightDecay(...) or a number (by `sbmc.tune`) '
            f'for this model, but got "evidence": {error}'
        ) from error
    variances = _climbed(fitted, start).tolist()
    parameters = [
        replace(each, rule=f"evidence ({each.rule})", variance=variance, widened=False)
        for each, variance in zip(begin, variances, strict=True)
    ]
    return Chosen(parameters, outputs.shape[-1])


def _climbed(fitted: Any, start: Tensor) -> Tensor:
    """The variances `(parameters,)` that maximise the marginal likelihood near `start`."""
    reach = math.log(FARTHEST)
    shift = torch.zeros_like(start, requires_grad=True)
    optimiser = torch.optim.Adam([shift], lr=RATE)
    like = fitted.mean
    for _ in range(STEPS):
        optimiser.zero_grad()
        precision = ((-shift).exp() / start).to(like)
        with torch.enable_grad():
            loss = -fitted.log_marginal_likelihood(prior_precision=precision)
            loss.backward()
        optimiser.step()
        with torch.no_grad():
            shift.clamp_(-reach, reach)
    return start * shift.detach().exp()
