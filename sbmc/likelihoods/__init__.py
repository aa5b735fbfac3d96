"""Likelihoods, one a file: the density of targets given a network's outputs."""

from sbmc.likelihoods.categorical import Categorical
from sbmc.likelihoods.choice import as_likelihood
from sbmc.likelihoods.custom import Custom
from sbmc.likelihoods.gaussian import Gaussian
from sbmc.likelihoods.likelihood import Kind, Likelihood, TargetMoments

__all__ = [
    "Categorical",
    "Custom",
    "Gaussian",
    "Kind",
    "Likelihood",
    "TargetMoments",
    "as_likelihood",
]
