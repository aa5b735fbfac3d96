"""Scalable Bayesian Monte Carlo for PyTorch: a trained network that knows what it does not know."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbmc.checks import BadInput
    from sbmc.estimators import SBMCClassifier, SBMCRegressor, as_estimator
    from sbmc.fitting.budget import Budget
    from sbmc.fitting.compute import Compute
    from sbmc.fitting.fit import fit
    from sbmc.fitting.forecast import Expectation, expect
    from sbmc.islands.checkpoints import CheckpointAt
    from sbmc.islands.executors import InProcess, Processes, Ray
    from sbmc.islands.health import Health, HealthWarning
    from sbmc.likelihoods import (
        Bernoulli,
        Categorical,
        Custom,
        DenseCategorical,
        Gaussian,
        Likelihood,
        MultiLabel,
        NegativeBinomial,
        Poisson,
        StudentT,
        class_weights,
    )
    from sbmc.posterior.distillation.distilled import Distilled
    from sbmc.posterior.living.drift import Drift
    from sbmc.posterior.living.ranking import Ranking
    from sbmc.posterior.living.reference import Reference
    from sbmc.posterior.merging import merge
    from sbmc.posterior.posterior import Posterior
    from sbmc.posterior.saving import load
    from sbmc.prediction.prediction import Prediction
    from sbmc.prediction.regression import RegressionPrediction
    from sbmc.prior.by_layer import ByLayer
    from sbmc.prior.describing import describe_prior
    from sbmc.prior.options import Prior
    from sbmc.prior.weight_decay import WeightDecay
    from sbmc.samplers import GHMC, HMC, MALA, MCLMC, NUTS, PCN, SGHMC, SGLD, SMC, UBU, AutoHMC
    from sbmc.target.builder import build_target
    from sbmc.target.explanation import Explanation, explain
    from sbmc.target.shards import Shards
    from sbmc.training import Ensemble, train_ensemble, train_map
    from sbmc.tuning import tune

__version__ = "0.2.0"

# Names are imported when they are first used. The command line, which is in this package, has to
# set how threads wait before torch is imported.
_HOMES = {
    "sbmc.islands.checkpoints": ("CheckpointAt",),
    "sbmc.checks": ("BadInput",),
    "sbmc.estimators": ("SBMCClassifier", "SBMCRegressor", "as_estimator"),
    "sbmc.islands.executors": ("InProcess", "Processes", "Ray"),
    "sbmc.fitting.budget": ("Budget",),
    "sbmc.fitting.compute": ("Compute",),
    "sbmc.fitting.forecast": ("Expectation", "expect"),
    "sbmc.fitting.fit": ("fit",),
    "sbmc.islands.health": ("Health", "HealthWarning"),
    "sbmc.likelihoods": (
        "Bernoulli",
        "Categorical",
        "Custom",
        "DenseCategorical",
        "Gaussian",
        "Likelihood",
        "MultiLabel",
        "NegativeBinomial",
        "Poisson",
        "StudentT",
        "class_weights",
    ),
    "sbmc.posterior.distillation.distilled": ("Distilled",),
    "sbmc.posterior.living.drift": ("Drift",),
    "sbmc.posterior.living.ranking": ("Ranking",),
    "sbmc.posterior.living.reference": ("Reference",),
    "sbmc.posterior.merging": ("merge",),
    "sbmc.posterior.saving": ("load",),
    "sbmc.posterior.posterior": ("Posterior",),
    "sbmc.prediction.prediction": ("Prediction", "RegressionPrediction"),
    "sbmc.prior.by_layer": ("ByLayer",),
    "sbmc.prior.describing": ("describe_prior",),
    "sbmc.prior.options": ("Prior",),
    "sbmc.prior.weight_decay": ("WeightDecay",),
    "sbmc.samplers": (
        "GHMC",
        "HMC",
        "MALA",
        "MCLMC",
        "NUTS",
        "PCN",
        "SGHMC",
        "SGLD",
        "SMC",
        "UBU",
        "AutoHMC",
    ),
    "sbmc.target.builder": ("build_target",),
    "sbmc.target.explanation": ("Explanation", "explain"),
    "sbmc.target.shards": ("Shards",),
    "sbmc.training": ("Ensemble", "train_ensemble", "train_map"),
    "sbmc.tuning": ("tune",),
}
_LATE = {name: home for home, names in _HOMES.items() for name in names}


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
    "MCLMC",
    "NUTS",
    "PCN",
    "SGHMC",
    "SGLD",
    "SMC",
    "UBU",
    "AutoHMC",
    "BadInput",
    "Bernoulli",
    "Budget",
    "ByLayer",
    "Categorical",
    "CheckpointAt",
    "Compute",
    "Custom",
    "DenseCategorical",
    "Distilled",
    "Drift",
    "Ensemble",
    "Expectation",
    "Explanation",
    "Gaussian",
    "Health",
    "HealthWarning",
    "InProcess",
    "Likelihood",
    "MultiLabel",
    "NegativeBinomial",
    "Poisson",
    "Posterior",
    "Prediction",
    "Prior",
    "Processes",
    "Ranking",
    "Ray",
    "Reference",
    "RegressionPrediction",
    "SBMCClassifier",
    "SBMCRegressor",
    "Shards",
    "StudentT",
    "WeightDecay",
    "as_estimator",
    "build_target",
    "class_weights",
    "describe_prior",
    "expect",
    "explain",
    "fit",
    "load",
    "merge",
    "train_ensemble",
    "train_map",
    "tune",
]
