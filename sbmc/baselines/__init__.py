"""Baselines for comparison with the samplers; each of them gives a `Posterior`."""

from sbmc.baselines.laplace import laplace
from sbmc.baselines.mc_dropout import dropout_posterior, mc_dropout, train_mc_dropout
from sbmc.baselines.randomised_map import randomised_map
from sbmc.baselines.swa import train_swa
from sbmc.baselines.swag import swag

__all__ = [
    "dropout_posterior",
    "laplace",
    "mc_dropout",
    "randomised_map",
    "swag",
    "train_mc_dropout",
    "train_swa",
]
