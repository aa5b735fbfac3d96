"""The public functions, each with arguments that are right, of which one or two are made wrong."""

import inspect
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from refusals.odd_values import CLASSES, DATA, INPUTS, NETWORKS, TARGETS, VALUES, WIDTH, X, Y
from torch import nn

import sbmc
from sbmc import baselines, confidence, datasets, diagnostics, language
from sbmc.embedding import load_embedded, read_pictures, read_texts
from sbmc.prediction import metrics
from sbmc.training import SGD, Adam, EarlyStopping

NETS = {"model", "trained", "network"}
SETS = {"data", "train", "validation", "ood"}
ROWS_OF = {"inputs", "x"}
ANSWERS = {"labels", "targets"}


@dataclass(frozen=True)
class Subject:
    """A function, and arguments with which it works.

    Attributes:
        name: as the user calls it.
        function: what is called, with keywords alone.
        right: arguments that work; those of the signature that are absent keep their defaults.
        named: further words by which messages may call an argument.
        left_out: arguments that are not made wrong.
    """

    name: str
    function: Callable[..., Any]
    right: dict[str, Any] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        return {
            name: each
            for name, each in inspect.signature(self.function).parameters.items()
            if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
            if name not in self.left_out
        }

    def odd_values(self, argument: str) -> dict[str, Any]:
        kinds = ((NETS, NETWORKS), (SETS, DATA), (ROWS_OF, INPUTS), (ANSWERS, TARGETS))
        more: dict[str, Any] = {}
        for names, values in kinds:
            if argument in names:
                more = {**values}
        if argument == "ood":
            more |= INPUTS
        return {**VALUES, **more}


def network(outputs=CLASSES):
    torch.manual_seed(0)
    return nn.Linear(WIDTH, outputs)


def sampler():
    return sbmc.HMC(steps=2, leapfrog=1, step_size=0.1, adapt=False, warmup=0.0)


@cache
def posteriors():
    """Posteriors of classes and of numbers, each with what it predicts."""
    options: dict[str, Any] = {"s": 0.1, "sampler": sampler(), "particles": 2, "progress": False}
    classes = sbmc.fit(network(), (X, Y), islands=2, **options)
    numbers = sbmc.fit(network(1), (X, X[:, :1]), likelihood="gaussian", **options)
    return classes, numbers, classes.predict(X), numbers.predict(X)


def subjects() -> list[Subject]:
    """All functions, with arguments that work."""
    classes, numbers, prediction, regression = posteriors()
    folder = tempfile.mkdtemp()
    classes.save(f"{folder}/posterior")
    short = {"steps": 2, "perturbations": 5, "progress": False}
    distilled = classes.distil(**short)
    distilled.save(f"{folder}/distilled")
    data = (X, Y)
    quiet = {"progress": False}
    common = {"model": network(), "data": data}
    fitted = {**common, "s": 0.1, "sampler": sampler(), "particles": 2, **quiet}
    trained = {"model": network(), "train": data, "max_epochs": 1, **quiet}
    tuned = {**common, "v": 1.0, "s": 0.1, "folds": 2, "sampler": sampler(), "particles": 2}
    tuned |= {"max_epochs": 1, "extensions": 0, **quiet}
    probs = torch.tensor([[0.75, 0.25]]).repeat(len(Y), 1)
    draws = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    score = torch.linspace(0, 1, 400).numpy()
    likelihood_names = ("likelihood", "targets", "classification", "noise", "prediction")
    settings = [
        *(sbmc.HMC, sbmc.GHMC, sbmc.MALA, sbmc.PCN, sbmc.NUTS, sbmc.SGHMC, sbmc.SGLD, sbmc.UBU),
        *(sbmc.SMC, sbmc.AutoHMC, sbmc.Budget, sbmc.ByLayer, sbmc.Compute, sbmc.Prior),
        *(sbmc.InProcess, sbmc.Processes, sbmc.Ray, sbmc.Gaussian, sbmc.StudentT),
        *(sbmc.NegativeBinomial, sbmc.DenseCategorical, Adam, EarlyStopping),
    ]
    swa = {"model": network(), "train": data, "epochs": 3, "warmup_epochs": 1, **quiet}
    guaranteed = {"score": score, "wrong": score > 0.9}
    interval = {"width": 1.0, "predict": numbers.predict, "data": (X, X[:, :1])}
    return [
        *(Subject(each.__name__, each) for each in settings),
        Subject("SGD", SGD, {"learning_rate": 0.1}),
        Subject("Custom", sbmc.Custom, {"function": torch.sub}),
        Subject("Likelihood.of", sbmc.Likelihood.of, {"function": torch.distributions.Normal}),
        Subject("CheckpointAt", sbmc.CheckpointAt, {"path": folder}, ("checkpoint",)),
        Subject("WeightDecay", sbmc.WeightDecay, {"weight_decay": 0.1}),
        Subject("class_weights", sbmc.class_weights, {"labels": Y}),
        Subject("fit", sbmc.fit, fitted, likelihood_names),
        Subject("fit with s=0", sbmc.fit, fitted | {"s": 0.0}, likelihood_names),
        Subject(
            "fit by budget",
            sbmc.fit,
            {**common, "budget": 0.01, "particles": 2, **quiet},
            likelihood_names,
        ),
        Subject(
            "fit of numbers",
            sbmc.fit,
            {**fitted, "model": network(1), "data": (X, X[:, :1])},
            likelihood_names,
        ),
        Subject("expect", sbmc.expect, fitted, likelihood_names),
        Subject("build_target", sbmc.build_target, common, likelihood_names),
        Subject("describe_prior", sbmc.describe_prior, {"model": network()}, likelihood_names),
        Subject("explain", sbmc.explain, {"model": network(), "x": X}, likelihood_names),
        Subject("train_map", sbmc.train_map, trained, likelihood_names),
        Subject("train_ensemble", sbmc.train_ensemble, trained | {"members": 2}, likelihood_names),
        Subject("tune", sbmc.tune, tuned, likelihood_names),
        Subject("load", sbmc.load, {"path": f"{folder}/posterior", "model": network()}),
        Subject("merge", sbmc.merge, {"posteriors": [classes, classes]}),
        Subject("posterior.predict", classes.predict, {"inputs": X}, likelihood_names),
        Subject("posterior of numbers.predict", numbers.predict, {"inputs": X}, likelihood_names),
        Subject("posterior.samples", classes.samples, {"inputs": X}, likelihood_names),
        Subject("posterior.reweighted", classes.reweighted, {"weighting": "equal"}),
        Subject("posterior.first", classes.first, {"islands": 1}),
        Subject("posterior.save", classes.save, {"path": f"{folder}/again"}),
        Subject("posterior.to_arviz", classes.to_arviz),
        Subject("posterior.thin", classes.thin, {"k": 2}, ("inputs", "data inputs")),
        Subject("posterior.distil", classes.distil, short, ("data inputs", "targets")),
        Subject("posterior of numbers.distil", numbers.distil, short, ("data inputs", "targets")),
        Subject("distilled.predict", distilled.predict, {"inputs": X}),
        Subject("distilled.save", distilled.save, {"path": f"{folder}/once_more"}),
        Subject("Distilled.load", sbmc.Distilled.load, {"path": f"{folder}/distilled"}),
        Subject(
            "posterior.confidence", classes.confidence, {"data": data}, left_out=frozenset(["ood"])
        ),
        Subject(
            "posterior of numbers.confidence",
            numbers.confidence,
            {"data": (X, X[:, :1]), "width": 1.0},
        ),
        *(
            Subject(f"{kind}.{method}", getattr(each, method), right)
            for kind, each, answers in (
                ("prediction", prediction, Y),
                ("prediction of numbers", regression, X[:, 0]),
            )
            for method, right in {
                "quantile": {"q": 0.5, "kind": "credible"},
                "interval": {"kind": "credible"},
                "sample": {"n": 2},
                "log_prob": {"targets": answers},
                "crps": {"targets": answers},
                "split": {},
                "to_pandas": {},
            }.items()
        ),
        Subject("prediction of numbers.cdf", regression.cdf, {"targets": X[:, 0]}),
        *(
            Subject(f"metrics.{each.__name__}", each, {"probs": probs, "labels": Y})
            for each in (metrics.accuracy, metrics.nll, metrics.brier, metrics.ece)
        ),
        Subject(
            "metrics.classification_metrics",
            metrics.classification_metrics,
            {"prediction": prediction, "labels": Y},
        ),
        Subject(
            "metrics.multilabel_metrics",
            metrics.multilabel_metrics,
            {"probs": probs, "labels": torch.eye(2)[Y]},
        ),
        Subject("metrics.ood_metrics", metrics.ood_metrics, {"predictions": {"a": prediction}}),
        Subject("metrics.aurc", metrics.aurc, {"prediction": prediction, "targets": Y}),
        Subject("metrics.rmse", metrics.rmse, {"mean": regression, "targets": X[:, 0]}),
        Subject(
            "metrics.gaussian_nll",
            metrics.gaussian_nll,
            {"mean": X[:, 0], "variance": torch.ones(12), "targets": X[:, 1]},
        ),
        *(
            Subject(
                f"metrics.{each.__name__}", each, {"prediction": regression, "targets": X[:, 0]}
            )
            for each in (
                metrics.crps,
                metrics.interval_coverage,
                metrics.pit,
                metrics.regression_metrics,
            )
        ),
        Subject("metrics.interval_width", metrics.interval_width, {"prediction": regression}),
        Subject("metrics.mean_and_error", metrics.mean_and_error, {"values": [1.0, 2.0]}),
        Subject("metrics.standard_error", metrics.standard_error, {"values": [1.0, 2.0]}),
        Subject("metrics.risk_curve", metrics.risk_curve, {"score": score, "loss": score}),
        Subject("diagnose", diagnostics.diagnose, {"posterior": classes, "projections": 2}),
        *(
            Subject(f"diagnostics.{each.__name__}", each, {"draws": draws})
            for each in (
                diagnostics.rhat,
                diagnostics.autocorrelation,
                diagnostics.effective_sample_size,
            )
        ),
        Subject(
            "diagnostics.nested_rhat", diagnostics.nested_rhat, {"draws": draws.reshape(2, 2, 4)}
        ),
        Subject(
            "diagnostics.integrated_autocorrelation_time",
            diagnostics.integrated_autocorrelation_time,
            {"draws": draws},
        ),
        Subject("condition_number", diagnostics.condition_number, common, likelihood_names),
        Subject("train_swa", baselines.train_swa, swa, likelihood_names),
        Subject("swag", baselines.swag, swa | {"rank": 2, "samples": 2}, likelihood_names),
        Subject(
            "laplace",
            baselines.laplace,
            {**common, "prior_variance": 1.0, "samples": 2, **quiet},
            likelihood_names,
        ),
        Subject(
            "randomised_map",
            baselines.randomised_map,
            {"model": network(), "train": data, "samples": 2, "max_epochs": 1},
            likelihood_names,
        ),
        Subject(
            "dropout_posterior",
            baselines.dropout_posterior,
            {"trained": nn.Sequential(nn.Linear(WIDTH, 3), nn.ReLU(), nn.Linear(3, CLASSES))},
            likelihood_names,
        ),
        Subject("calibration_size", confidence.calibration_size, {"alpha": 0.1, "delta": 0.1}),
        Subject("coverage_grid", confidence.coverage_grid, {"score": score, "examples": 100}),
        Subject(
            "guaranteed_threshold",
            confidence.guaranteed_threshold,
            {**guaranteed, "grid": [0.3, 0.5]},
        ),
        Subject("risk_coverage", confidence.risk_coverage, guaranteed),
        Subject("detection", confidence.detection, {"inside": score, "outside": score}),
        Subject(
            "f1_threshold",
            confidence.f1_threshold,
            {"truth": guaranteed["wrong"], "probability": score},
        ),
        Subject("upper_bound", confidence.upper_bound, {"errors": 1, "answered": 3, "delta": 0.1}),
        Subject(
            "fit_interval_confidence",
            confidence.fit_interval_confidence,
            interval,
            ("prediction",),
            frozenset(["predict"]),
        ),
        Subject("load_dataset", datasets.load_dataset),
        Subject("LoraHead", language.LoraHead, {"base": torch.ones(4, 3), "rank": 2}),
        Subject("load_embedded", load_embedded, {"path": folder}, ("file",)),
        Subject("read_texts", read_texts, {"path": folder}, ("source",)),
        Subject("read_pictures", read_pictures, {"path": folder}, ("source",)),
    ]
