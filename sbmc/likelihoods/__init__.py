"""Likelihoods, one a file: the density of targets given a network's outputs."""

from sbmc.likelihoods.bernoulli import Bernoulli
from sbmc.likelihoods.categorical import Categorical
from sbmc.likelihoods.choice import OfClasses, OfNumbers, as_likelihood, infer_likelihood
from sbmc.likelihoods.custom import Custom
from sbmc.likelihoods.dense import DenseCategorical
from sbmc.likelihoods.from_distribution import FromDistribution
from sbmc.likelihoods.gaussian import Gaussian, known_variance
from sbmc.likelihoods.likelihood import Kind, Likelihood, TargetMoments
from sbmc.likelihoods.multi_label import MultiLabel
from sbmc.likelihoods.negative_binomial import NegativeBinomial
from sbmc.likelihoods.noise import NoisyLikelihood
from sbmc.likelihoods.poisson import Poisson
from sbmc.likelihoods.rescaled import Rescaled
from sbmc.likelihoods.student_t import StudentT
from sbmc.likelihoods.weighted import Weighted, class_weights, unweighted, without_weights

__all__ = [
    "Bernoulli",
    "Categorical",
    "Custom",
    "DenseCategorical",
    "FromDistribution",
    "Gaussian",
    "Kind",
    "Likelihood",
    "MultiLabel",
    "NegativeBinomial",
    "NoisyLikelihood",
    "OfClasses",
    "OfNumbers",
    "Poisson",
    "Rescaled",
    "StudentT",
    "TargetMoments",
    "Weighted",
    "as_likelihood",
    "class_weights",
    "infer_likelihood",
    "known_variance",
    "unweighted",
    "without_weights",
]
