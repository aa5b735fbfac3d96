"""Scalable Bayesian Monte Carlo for PyTorch: a trained network that knows what it does not know."""

from sbmc.checkpoints import CheckpointAt
from sbmc.checks import BadInput
from sbmc.executors import InProcess, Processes, Ray
from sbmc.expectation import Expectation, expect
from sbmc.fit import fit
from sbmc.likelihoods import Categorical, Custom, Gaussian
from sbmc.merging import merge
from sbmc.persistence import load
from sbmc.posterior import Posterior
from sbmc.prediction import Prediction, RegressionPrediction
from sbmc.samplers import GHMC, HMC, MALA, NUTS, PCN, SGHMC, SGLD, SMC, UBU
from sbmc.training import Ensemble, train_ensemble, train_map

__version__ = "0.1.0"

__all__ = [
    "GHMC",
    "HMC",
    "MALA",
    "NUTS",
    "PCN",
    "SGHMC",
    "SGLD",
    "SMC",
    "UBU",
    "BadInput",
    "Categorical",
    "CheckpointAt",
    "Custom",
    "Ensemble",
    "Expectation",
    "Gaussian",
    "InProcess",
    "Posterior",
    "Prediction",
    "Processes",
    "Ray",
    "RegressionPrediction",
    "expect",
    "fit",
    "load",
    "merge",
    "train_ensemble",
    "train_map",
]
