"""Scalable Bayesian Monte Carlo for PyTorch: a trained network that knows what it does not know."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbmc.checkpoints import CheckpointAt
    from sbmc.checks import BadInput
    from sbmc.executors import InProcess, Processes, Ray
    from sbmc.expectation import Expectation, expect
    from sbmc.fit import fit
    from sbmc.health import Health, HealthWarning
    from sbmc.likelihoods import Categorical, Custom, Gaussian
    from sbmc.merging import merge
    from sbmc.persistence import load
    from sbmc.posterior import Posterior
    from sbmc.prediction import Prediction, RegressionPrediction
    from sbmc.samplers import GHMC, HMC, MALA, NUTS, PCN, SGHMC, SGLD, SMC, UBU
    from sbmc.training import Ensemble, train_ensemble, train_map
    from sbmc.tuning import tune

__version__ = "0.1.0"

# Everything is imported when it is first asked for. The command line, which is in this package,
# has to say how threads wait before torch is imported.
_HOMES = {
    "sbmc.checkpoints": ("CheckpointAt",),
    "sbmc.checks": ("BadInput",),
    "sbmc.executors": ("InProcess", "Processes", "Ray"),
    "sbmc.expectation": ("Expectation", "expect"),
    "sbmc.fit": ("fit",),
    "sbmc.health": ("Health", "HealthWarning"),
    "sbmc.likelihoods": ("Categorical", "Custom", "Gaussian"),
    "sbmc.merging": ("merge",),
    "sbmc.persistence": ("load",),
    "sbmc.posterior": ("Posterior",),
    "sbmc.prediction": ("Prediction", "RegressionPrediction"),
    "sbmc.samplers": ("GHMC", "HMC", "MALA", "NUTS", "PCN", "SGHMC", "SGLD", "SMC", "UBU"),
    "sbmc.training": ("Ensemble", "train_ensemble", "train_map"),
    "sbmc.tuning": ("tune",),
}
_LATE = {name: home for home, names in _HOMES.items() for name in names}


class _Package(ModuleType):
    """This package, in which `fit` is the function also after its file of that name was read."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Python puts a submodule here, under its name, whenever it has been imported.
        if name == "fit" and isinstance(value, ModuleType):
            value = value.fit
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


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
