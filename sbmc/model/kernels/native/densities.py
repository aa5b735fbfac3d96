"""What the C code of a chain is told of its likelihood."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from sbmc.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    MultiLabel,
    NoisyLikelihood,
    StudentT,
)
from sbmc.model.kernels.native.plan import NotAChain

# In the order of layers.h.
CATEGORICAL, GAUSSIAN, NOISY, BERNOULLI = range(4)
MOST_NOISES = 64  # as in densities.h


class Density(NamedTuple):
    """A likelihood in numbers.

    Attributes:
        kind: which function of the C code.
        targets: numbers of an example's target.
        dtype: of the targets.
        constant: what is added to each example's value, whatever the parameters are.
        precision: of Gaussian noise that is known.
        df: degrees of freedom of Student's t; 0 for Gaussian noise.
    """

    kind: int
    targets: int
    dtype: torch.dtype
    constant: float = 0.0
    precision: float = 1.0
    df: float = 0.0


def find_density(likelihood: Likelihood, outputs: int, noises: int) -> Density:
    """The likelihood, if the C code has it.

    Args:
        likelihood: of the outputs.
        outputs: of the last layer.
        noises: how many numbers of noise are learned beside them.

    Raises:
        NotAChain: the C code does not have it.
    """
    if isinstance(likelihood, Categorical):
        return Density(CATEGORICAL, 1, torch.int32)
    if isinstance(likelihood, (Bernoulli, MultiLabel)):
        return Density(BERNOULLI, outputs, torch.float32)
    real = torch.float32
    if isinstance(likelihood, Gaussian) and likelihood.noise_variance is not None:
        noise = likelihood.noise_variance
        constant = -0.5 * outputs * math.log(2 * math.pi * noise)
        return Density(GAUSSIAN, outputs, real, constant, 1 / noise)
    if isinstance(likelihood, NoisyLikelihood) and likelihood.noise is not None:
        targets = outputs if noises else outputs // 2
        fits = noises in (0, 1, targets) and noises <= MOST_NOISES
        if fits and isinstance(likelihood, Gaussian):
            return Density(NOISY, targets, real, -0.5 * targets * math.log(2 * math.pi))
        if fits and isinstance(likelihood, StudentT):
            df = likelihood.df
            constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2)
            constant -= 0.5 * math.log(df * math.pi)
            return Density(NOISY, targets, real, targets * constant, df=df)
    raise NotAChain("a likelihood that the kernels do not have")
