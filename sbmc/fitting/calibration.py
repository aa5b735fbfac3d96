"""Scale the outputs of trained classifiers so that their probabilities fit rows they have not seen.

A network that was trained for long is too sure of itself: its logits are too large. Dividing them
by a temperature T, one number, mends much of it (Guo et al., 2017). Where the last layer is linear,
that is the same as dividing its weights by T, so that the result is a network again: another point
in weight space, around which a prior can be anchored. The factor 1/T is the most probable one,

    argmin_f  Σ_i −log softmax(f · logits_i)[y_i] + (log f)²/2,

where the last term keeps it near 1 if there are few rows, or none that the network gets wrong.

Networks that are right each by itself make a mixture that is not sure enough, since it doubts what
they disagree on. So the factors f_k of K networks are multiplied by a further one that they share,

    argmin_g  Σ_i −log (1/K) Σ_k softmax(g f_k · logits_ki)[y_i] + Σ_k (log g f_k)²/2,

if there are rows enough: it rests on the few of them that most networks get wrong.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sbmc.likelihoods import Categorical, Likelihood
from sbmc.model.data import Examples, Inputs, rows
from sbmc.model.functional import call_model
from sbmc.model.parameters import ParameterSpace
from sbmc.model.predicting import Predictor, build_evaluator

# Factors are tried in two rounds: every tenth of them, and then all around the best of these.
FACTORS = torch.logspace(-1.5, 0.75, 181, dtype=torch.float64)
FIRST_ROUND = 10
ROWS_AT_ONCE = 1_000
# With fewer rows networks that are mixed share no factor: on 200 digits it made the mixture worse.
FEWEST_FOR_MIXTURE = 500
# Rows that show whether scaling a layer scales the outputs, and how closely.
PROBED_ROWS, CLOSE = 8, 1e-4
# Modules that may be the last: how many of those that have a weight are tried, from the end.
TRIED = 3


class Calibrated(NamedTuple):
    """A copy of a network with scaled outputs, and the factor; 1 if nothing could be scaled."""

    model: nn.Module
    factor: float


def calibrate(
    models: Sequence[nn.Module], examples: Examples, space: ParameterSpace, likelihood: Likelihood
) -> list[Calibrated]:
    """Scale the outputs of classifiers that are mixed to rows that they have not seen.

    Args:
        models: the networks.
        examples: the rows.
        space: the parameters that may be changed.
        likelihood: of the outputs. Only categorical ones are scaled.

    Returns:
        Copies in evaluation mode. One equals its model if the likelihood is another one, or if the
        outputs do not come from a linear layer whose parameters are all in `space`.
    """
    copies = [copy.deepcopy(model).eval() for model in models]
    if not isinstance(likelihood, Categorical):
        return [Calibrated(each, 1.0) for each in copies]
    like = space.flatten(models[0])
    examples = examples.to(dtype=like.dtype, device=like.device)
    layers = [_output_layer(each, examples, space) for each in copies]
    if not all(layers):  # they are of one architecture
        return [Calibrated(each, 1.0) for each in copies]
    logits = _outputs(copies, examples, space)
    factors = best_factors(logits, examples.targets.to(logits.device))
    for layer, factor in zip(layers, factors, strict=True):
        assert layer is not None
        _scale(layer, factor)
    return [Calibrated(each, factor) for each, factor in zip(copies, factors, strict=True)]


def best_factors(logits: Tensor, labels: Tensor) -> list[float]:
    """The factors of logits `(networks, rows, classes)`: of each alone, times that of the mixture.

    Examples:
        >>> too_sure = torch.tensor([[[9.0, 0.0]] * 8])
        >>> best_factors(too_sure, torch.tensor([0] * 6 + [1] * 2))[0] < 0.5
        True
    """
    alone = torch.tensor([best_factor(each, labels) for each in logits])
    if len(alone) == 1 or len(labels) < FEWEST_FOR_MIXTURE:
        return alone.tolist()
    shared = best_factor(alone.to(logits)[:, None, None] * logits, labels, already=alone)
    return (shared * alone).tolist()


def best_factor(logits: Tensor, labels: Tensor, already: Tensor | None = None) -> float:
    """The most probable factor of one network's logits, or of those of a mixture of networks.

    Args:
        logits: `(rows, classes)`, or `(networks, rows, classes)`.
        labels: `(rows,)`.
        already: what the logits of each network were multiplied by before; nothing if not given.

    Examples:
        >>> too_sure = torch.tensor([[9.0, 0.0]] * 8)
        >>> best_factor(too_sure, torch.tensor([0] * 6 + [1] * 2)) < 0.5
        True
    """
    networks = (logits if logits.ndim == 3 else logits.unsqueeze(0)).double()
    index = labels.long().expand(len(networks), -1).unsqueeze(-1)
    before = torch.ones(len(networks)) if already is None else already.cpu()

    @cache
    def loss(number: int) -> float:
        factor = FACTORS[number]
        right = (factor * networks).log_softmax(-1).gather(-1, index)
        fit = len(index[0]) * math.log(len(networks)) - right.logsumexp(0).sum()
        return float(fit) + float((factor * before.double()).log().square().sum()) / 2

    best = min(range(0, len(FACTORS), FIRST_ROUND), key=loss)
    around = range(max(0, best - FIRST_ROUND), min(len(FACTORS), best + FIRST_ROUND + 1))
    return float(FACTORS[min(around, key=loss)])


def _outputs(models: Sequence[nn.Module], examples: Examples, space: ParameterSpace) -> Tensor:
    """Outputs `(networks, rows, classes)`, in the way in which a posterior predicts."""
    theta = torch.stack([space.flatten(model) for model in models])
    few = rows(examples.inputs, 0, PROBED_ROWS)
    forward, split = build_evaluator(models[0], space, few, few)

    def prepared(inputs: Inputs) -> Inputs:
        return inputs if split is None else split.features(inputs)

    parts = []
    with torch.no_grad():
        predictor = Predictor.build(forward, theta[0], prepared(few))
        for start in range(0, len(examples), ROWS_AT_ONCE):
            some = prepared(rows(examples.inputs, start, start + ROWS_AT_ONCE))
            parts.append(torch.cat([outputs for _, outputs in predictor.outputs(theta, some)]))
    return torch.cat(parts, 1)


def _output_layer(model: nn.Module, examples: Examples, space: ParameterSpace) -> nn.Module | None:
    """The layer whose scaling scales the outputs; None if no layer of `space` does."""
    probe = rows(examples.inputs, 0, PROBED_ROWS)
    tried = 0
    with torch.no_grad():
        outputs = call_model(model, {}, probe)
        if outputs.ndim != 2:
            return None
        for name, layer in reversed(list(model.named_modules())):
            if not isinstance(layer, nn.Linear):
                continue
            prefix = f"{name}." if name else ""
            if all(prefix + key in space.names for key, _ in layer.named_parameters()):
                _scale(layer, 0.5)
                halved = call_model(model, {}, probe)
                _scale(layer, 2.0)
                if torch.allclose(2 * halved, outputs, rtol=CLOSE, atol=CLOSE):
                    return layer
            tried += 1
            if tried == TRIED:
                break
    return None


def _scale(layer: nn.Module, factor: float) -> None:
    with torch.no_grad():
        for parameter in layer.parameters(recurse=False):
            parameter.mul_(factor)
