"""Point estimates: the MAP and deep ensembles, all members in one batch."""

from sbmc.training.adam import Adam
from sbmc.training.early_stopping import EarlyStopping
from sbmc.training.ensemble import train_ensemble
from sbmc.training.history import TrainingHistory
from sbmc.training.map import train_map
from sbmc.training.members import Ensemble
from sbmc.training.sgd import SGD

__all__ = [
    "SGD",
    "Adam",
    "EarlyStopping",
    "Ensemble",
    "TrainingHistory",
    "train_ensemble",
    "train_map",
]
