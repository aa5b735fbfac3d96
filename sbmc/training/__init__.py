"""Point estimates: the MAP and deep ensembles, all members in one batch."""

from sbmc.training.early_stopping import EarlyStopping
from sbmc.training.ensemble import Ensemble, train_ensemble
from sbmc.training.history import TrainingHistory
from sbmc.training.map import train_map

__all__ = ["EarlyStopping", "Ensemble", "TrainingHistory", "train_ensemble", "train_map"]
