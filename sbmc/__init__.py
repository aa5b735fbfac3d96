"""Scalable Bayesian Monte Carlo for PyTorch: a trained network that knows what it does not know."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sbmc.checkpoints import CheckpointAt
from sbmc.checks import BadInput
from sbmc.fit import fit
from sbmc.health import Health, HealthWarning
from sbmc.likelihoods import Categorical, Custom, Gaussian
from sbmc.persistence import load
from sbmc.posterior import Posterior
from sbmc.prediction import Prediction, RegressionPrediction
from sbmc.samplers import GHMC, HMC, MALA, NUTS, PCN, SGHMC, SGLD, SMC, UBU

if TYPE_CHECKING:
    from sbmc.executors import InProcess, Processes, Ray
    from sbmc.expectation import Expectation, expect
    from sbmc.merging import merge
    from sbmc.training import Ensemble, train_ensemble, train_map
    from sbmc.tuning import tune

__version__ = "0.1.0"

# What many programs do without is imported when it is first asked for.
_LATE = {
    "InProcess": "sbmc.executors",
    "Processes": "sbmc.executors",
    "Ray": "sbmc.executors",
    "Expectation": "sbmc.expectation",
    "expect": "sbmc.expectation",
    "merge": "sbmc.merging",
    "Ensemble": "sbmc.training",
    "train_ensemble": "sbmc.training",
    "train_map": "sbmc.training",
    "tune": "sbmc.tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'sbmc' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


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
    "Health",
    "HealthWarning",
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
    "tune",
]
