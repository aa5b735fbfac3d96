"""The public functions of other rooms: diagnostics, baselines, confidence, texts, plots."""

import functools
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib import pyplot
from refusals.odd_values import CLASSES, WIDTH, X, Y
from refusals.subject import LIKELIHOOD_NAMES, QUIET, Subject, network, posteriors, sampler
from torch import nn

import sbmc
from sbmc import baselines, confidence, datasets, diagnostics, language, tuning
from sbmc.embedding import (
    Embedded,
    ImageEncoder,
    Source,
    TextEncoder,
    embed,
    load_embedded,
    read_pictures,
    read_texts,
    run_head,
)
from sbmc.islands.executors import Futures, as_executor
from sbmc.likelihoods import as_likelihood
from sbmc_serve import Limits, create_app


class Constant:
    """An encoder that gives the length of each text, twice."""

    def __init__(self):
        self.about, self.batch_size = {"model": "constant"}, 4

    def __call__(self, items):
        return np.array([[len(item)] * 2 for item in items], dtype=np.float32)


def subjects() -> list[Subject]:
    """Functions of these rooms, with arguments that work."""
    classes, numbers, prediction, regression = posteriors()
    data = (X, Y)
    common = {"model": network(), "data": data}
    draws = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    swa = {"model": network(), "train": data, "epochs": 3, "warmup_epochs": 1, **QUIET}
    deep = nn.Sequential(nn.Linear(WIDTH, 3), nn.ReLU(), nn.Linear(3, CLASSES))
    dropped = {"model": deep, "train": data, "max_epochs": 1, **QUIET}
    return [
        Subject("create_app", create_app, {"posteriors": {"a": classes}}, ("posterior",)),
        Subject("Limits", Limits),
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
        Subject("condition_number", diagnostics.condition_number, common, LIKELIHOOD_NAMES),
        Subject("train_swa", baselines.train_swa, swa, LIKELIHOOD_NAMES),
        Subject("swag", baselines.swag, swa | {"rank": 2, "samples": 2}, LIKELIHOOD_NAMES),
        Subject(
            "laplace",
            baselines.laplace,
            {**common, "prior_variance": 1.0, "samples": 2, **QUIET},
            LIKELIHOOD_NAMES,
        ),
        Subject(
            "randomised_map",
            baselines.randomised_map,
            {"model": network(), "train": data, "samples": 2, "max_epochs": 1},
            LIKELIHOOD_NAMES,
        ),
        Subject(
            "dropout_posterior",
            baselines.dropout_posterior,
            {"trained": deep},
            LIKELIHOOD_NAMES,
        ),
        Subject(
            "mc_dropout",
            baselines.mc_dropout,
            dropped | {"samples": 2},
            (*LIKELIHOOD_NAMES, "prior_variance"),
        ),
        Subject(
            "train_mc_dropout",
            baselines.train_mc_dropout,
            dropped,
            (*LIKELIHOOD_NAMES, "prior_variance"),
        ),
        *_of_confidence(classes, numbers),
        *_of_embeddings(),
        *_of_texts(),
        Subject("load_dataset", datasets.load_dataset),
        Subject("rows_in_place", datasets.rows_in_place, {"array": X}),
        Subject("ShardedFiles", datasets.ShardedFiles, {"folder": "no/such/folder"}),
        Subject(
            "prediction.plot",
            _closed(prediction.plot),
            {"targets": Y},
            ("prediction",),
            frozenset(["x"]),  # which is for numbers
            public=prediction.plot,
        ),
        Subject(
            "prediction of numbers.plot",
            _closed(regression.plot),
            {"x": X[:, 0], "targets": X[:, 0]},
            ("prediction",),
        ),
        Subject("as_likelihood", as_likelihood, {"likelihood": "gaussian"}),
        Subject("as_executor", as_executor, {"value": "in-process"}, ("executor",)),
        Subject("Futures", Futures, {"executor": ThreadPoolExecutor(1)}),
        Subject("read_tuning", tuning.read_tuning, {"path": "no such file"}),
    ]


def _closed(plot: Callable[..., Any]) -> Callable[..., Any]:
    """A function that draws, and closes the figure."""

    @functools.wraps(plot)
    def function(**options: Any) -> None:
        try:
            plot(**options)
        finally:
            pyplot.close("all")

    return function


def _in_a_new_folder(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes a folder, with a new one if none is given."""

    @functools.wraps(function)
    def call(**options: Any) -> Any:
        return function(**{"folder": f"{tempfile.mkdtemp()}/new", **options})

    return call


def _of_confidence(classes: sbmc.Posterior, numbers: sbmc.Posterior) -> list[Subject]:
    score = torch.linspace(0, 1, 400).numpy()
    guaranteed = {"score": score, "wrong": score > 0.9}
    interval = {"width": 1.0, "predict": numbers.predict, "data": (X, X[:, :1])}
    part = confidence.ConfidenceSet(X, Y, {"far": X + 9})
    sets = dict.fromkeys(confidence.PARTS, part)
    report = confidence.evaluate(classes.predict, sets, "paper", splits=2)
    many = X.repeat(40, 1), Y.repeat(40)
    of_classes, of_numbers = (
        classes.confidence((X, Y)),
        numbers.confidence((X, X[:, :1]), width=1.0),
    )
    return [
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
        Subject(
            "calibration_splits",
            confidence.calibration_splits,
            {**guaranteed, "grid": [0.3, 0.5], "splits": 3},
        ),
        Subject(
            "detection_metrics",
            confidence.detection_metrics,
            {"inside": {"a": score}, "outside": {"a": score}},
        ),
        Subject(
            "two_level_accuracy", confidence.two_level_accuracy, {**guaranteed, "thresholds": [0.5]}
        ),
        Subject(
            "confidence.evaluate",
            confidence.evaluate,
            {"predict": classes.predict, "sets": sets, "protocol": "paper", "splits": 2},
            ("inputs", "labels"),
        ),
        Subject(
            "fit_confidence",
            confidence.fit_confidence,
            {"predict": classes.predict, "data": (X, Y), "threshold": 0.5},
            ("prediction",),
            frozenset(["data", "ood"]),  # those of posterior.confidence
        ),
        Subject("ConfidenceSet", confidence.ConfidenceSet, {"inputs": X, "labels": Y, "ood": {}}),
        Subject("load_arrays", confidence.load_arrays, {"path": "no such file"}),
        *(
            Subject(f"{name}.{method}", getattr(each, method), {"inputs": X}, ("prediction",))
            for name, each in (("confidence", of_classes), ("confidence of numbers", of_numbers))
            for method in ("score", "abstain", "decide")
        ),
        Subject(
            "guarantee.answer",
            confidence.guaranteed_threshold(**guaranteed, grid=[0.3, 0.5], alpha=0.5).answer,
            {"score": score},
        ),
        Subject("ConfidenceReport.save", report.save, {"path": f"{tempfile.mkdtemp()}/a.npz"}),
        Subject("confidence.calibrate", of_classes.calibrate, {"data": many, "alpha": 0.5}),
        Subject(
            "confidence of numbers.calibrate",
            of_numbers.calibrate,
            {"data": (many[0], many[0][:, :1]), "alpha": 0.5},
        ),
    ]


def _of_embeddings() -> list[Subject]:
    folder = tempfile.mkdtemp()
    names = ("a", "b")
    source = Source(("one", "three"), names, (0, 1), names, names)
    embedded = Embedded(X, Y, names)
    short = {"embedded": embedded, "sampler": sampler(), "particles": 2, "max_epochs": 1, **QUIET}
    return [
        Subject(
            "embed", embed, {"source": source, "encoder": Constant(), "out": f"{folder}/e.npz"}
        ),
        Subject("Embedded", Embedded, {"inputs": X}),
        Subject("Embedded.save", embedded.save, {"path": f"{folder}/saved.npz"}),
        Subject("run_head", run_head, short, ("file", "folds", "prior_variance")),
        Subject("HeadRun.save", run_head(**short).save, {"out": Path(folder)}),
        Subject("TextEncoder", TextEncoder, {"model": "no such model"}),
        Subject("ImageEncoder", ImageEncoder, {"model": nn.Conv2d(3, 2, 3)}),
        Subject("load_embedded", load_embedded, {"path": folder}, ("file",)),
        Subject("read_texts", read_texts, {"path": folder}, ("source",)),
        Subject("read_pictures", read_pictures, {"path": folder}, ("source",)),
    ]


def _of_texts() -> list[Subject]:
    base = torch.ones(4, 3)
    head = language.LoraHead(base, rank=2)
    options: dict[str, Any] = {"s": 0.1, "sampler": sampler(), "particles": 2, **QUIET}
    of_head = sbmc.fit(head, (X[:, [0, 1, 0]], Y), **options)
    return [
        Subject(
            "save_adapters",
            _in_a_new_folder(language.save_adapters),
            {"posterior": of_head},
            public=language.save_adapters,
        ),
        Subject(
            "save_head_adapters",
            _in_a_new_folder(language.save_head_adapters),
            {"posterior": of_head, "vocabulary": 4, "particles": [0]},
            public=language.save_head_adapters,
        ),
        Subject("LoraHead", language.LoraHead, {"base": base, "rank": 2}),
        Subject("balanced", language.balanced, {"down": torch.ones(2, 3), "up": torch.ones(4, 2)}),
        Subject("find_weights", language.find_weights),
        Subject("load_frozen", language.load_frozen, {"weights": None}),
        Subject(
            "text_states",
            language.text_states,
            {"text": "words", "model": "no such model", "cache": tempfile.mkdtemp(), **QUIET},
        ),
    ]
