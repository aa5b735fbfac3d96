"""Scale the outputs of a trained classifier so that its probabilities fit rows it has not seen.

A network that was trained for long is too sure of itself: its logits are too large. Dividing them
by a temperature T, one number, mends much of it (Guo et al., 2017). Where the last layer is linear,
that is the same as dividing its weights by T, so that the result is a network again: another point
in weight space, around which a prior can be anchored. The factor 1/T is the most probable one,

    argmin_f  Σ_i −log softmax(f · logits_i)[y_i] + (log f)²/2,

where the last term keeps it near 1 if there are few rows, or none that the network gets wrong.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sbmc.likelihoods import Categorical, Likelihood
from sbmc.model.data import Examples, rows
from sbmc.model.functional import call_model
from sbmc.model.parameters import ParameterSpace

FACTORS = torch.logspace(-1.5, 0.75, 181, dtype=torch.float64)
ROWS_AT_ONCE = 1_000
# Rows that show whether scaling a layer scales the outputs, and how closely.
PROBED_ROWS, CLOSE = 8, 1e-4
# Modules that may be the last: how many of those that have a weight are tried, from the end.
TRIED = 3


class Calibrated(NamedTuple):
    """A copy of a network with scaled outputs, and the factor; 1 if nothing could be scaled."""

    model: nn.Module
    factor: float


def calibrate(
    model: nn.Module, examples: Examples, space: ParameterSpace, likelihood: Likelihood
) -> Calibrated:
    """Scale the outputs of a classifier to rows that it has not seen.

    Args:
        model: the network.
        examples: the rows.
        space: the parameters that may be changed.
        likelihood: of the outputs. Only categorical ones are scaled.

    Returns:
        A copy in evaluation mode. It equals the model if the likelihood is another one, or if the
        outputs do not come from a linear layer whose parameters are all in `space`.
    """
    scaled = copy.deepcopy(model).eval()
    if not isinstance(likelihood, Categorical):
        return Calibrated(scaled, 1.0)
    like = space.flatten(model)
    examples = examples.to(dtype=like.dtype, device=like.device)
    layer = _output_layer(scaled, examples, space)
    if layer is None:
        return Calibrated(scaled, 1.0)
    with torch.no_grad():
        logits = torch.cat(list(_outputs(scaled, examples)))
    factor = best_factor(logits, examples.targets.to(logits.device))
    _scale(layer, factor)
    return Calibrated(scaled, factor)


def best_factor(logits: Tensor, labels: Tensor) -> float:
    """The most probable factor of logits `(rows, classes)` with these labels `(rows,)`.

    Examples:
        >>> too_sure = torch.tensor([[9.0, 0.0]] * 8)
        >>> best_factor(too_sure, torch.tensor([0] * 6 + [1] * 2)) < 0.5
        True
    """
    logits, labels = logits.double(), labels.long()
    losses = torch.stack(
        [F.cross_entropy(factor * logits, labels, reduction="sum").cpu() for factor in FACTORS]
    )
    return float(FACTORS[(losses + FACTORS.log().square() / 2).argmin()])


def _outputs(model: nn.Module, examples: Examples) -> Iterator[Tensor]:
    for start in range(0, len(examples), ROWS_AT_ONCE):
        yield call_model(model, {}, rows(examples.inputs, start, start + ROWS_AT_ONCE))


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
