"""A target for measuring with, made of the same parts as the one that `fit` samples."""

from __future__ import annotations

import torch
from torch import nn

from sbmc.likelihoods import Likelihood
from sbmc.model.data import Examples, rows
from sbmc.model.forward import build_forward
from sbmc.model.frozen_part import split_model
from sbmc.model.parameters import ParameterSpace
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.target.target import Target


def build_target(
    model: nn.Module,
    space: ParameterSpace,
    likelihood: Likelihood,
    examples: Examples,
    prior: AnchoredPrior,
    path: str,
) -> Target:
    """Check the data against the model and put both together.

    Args:
        model: the network, in the dtype and on the device of the examples.
        space: the parameters that vary.
        likelihood: of the targets given the model's outputs.
        examples: the data.
        prior: the coordinates.
        path: how the model is evaluated.

    Returns:
        The target; over the final layer's features where that layer is all that varies.

    Raises:
        BadInput: targets that do not fit the model.
    """
    inputs = examples.inputs
    split = split_model(model, space, rows(inputs, 0, 2))
    if split is not None:
        model, space, inputs = split.head, split.space, split.features(inputs)
    few = rows(inputs, 0, 2)
    forward = build_forward(model, space, few, path)
    with torch.no_grad():
        outputs = forward(space.flatten(model).unsqueeze(0), forward.prepare(few))
    targets = likelihood.check(examples.targets, outputs[0])
    return Target(forward, Examples(inputs, targets), likelihood, prior)
