"""A fitted confidence as plain values and arrays, to be stored with its posterior; no pickle."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelBinarizer, StandardScaler
from torch import Tensor

from sbmc.checks import is_whole, require
from sbmc.confidence.abstention import Confidence
from sbmc.confidence.base import BaseConfidence
from sbmc.confidence.classifier import ConfidenceClassifier
from sbmc.confidence.guarantee import Guarantee
from sbmc.confidence.intervals import IntervalConfidence

VERSION = 1
PREFIX = "confidence."
_ARRAYS = ("mean", "scale", "weight_0", "bias_0", "weight_1", "bias_1")


def to_state(confidence: BaseConfidence) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Convert a confidence to plain values and tensors.

    Args:
        confidence: a fitted one.

    Returns:
        `(values, tensors)`: values for JSON, and float64 tensors whose names start with
        `"confidence."`.
    """
    if isinstance(confidence, IntervalConfidence):
        return _interval_values(confidence), _tensors(_reference_arrays(confidence))
    assert isinstance(confidence, Confidence)
    classifier = confidence.classifier
    seed = classifier.random_state
    scaler, network = classifier.network_[0], classifier.network_[-1]
    values = {
        "version": VERSION,
        "origin": confidence.origin,
        "settings": {
            "threshold": "f1" if classifier.threshold == "f1" else float(classifier.threshold),
            "hidden": classifier.hidden,
            "max_iter": classifier.max_iter,
            "random_state": int(seed) if is_whole(seed) else None,
        },
        "threshold": confidence.threshold,
        "passes": classifier.n_iter_,
        "guaranteed": None if confidence.guaranteed is None else confidence.guaranteed.as_dict(),
    }
    layers = zip(network.coefs_, network.intercepts_, strict=True)
    arrays = {"mean": scaler.mean_, "scale": scaler.scale_}
    for index, (weight, bias) in enumerate(layers):
        arrays[f"weight_{index}"], arrays[f"bias_{index}"] = weight, bias
    return values, _tensors(arrays | _reference_arrays(confidence))


def from_state(values: dict[str, Any], tensors: dict[str, Tensor]) -> BaseConfidence:
    """Make a confidence from its state; it gives the same bits as the original.

    Args:
        values: values of `to_state`.
        tensors: tensors of `to_state`; those of other names are ignored.

    Returns:
        The confidence, not yet bound to a posterior.

    Raises:
        BadInput: a part is missing or of another version.
    """
    require(values.get("version") == VERSION, "version", str(VERSION), values.get("version"))
    arrays = {
        name.removeprefix(PREFIX): tensor.numpy()
        for name, tensor in tensors.items()
        if name.startswith(PREFIX)
    }
    guaranteed = values["guaranteed"]
    options: dict[str, Any] = {
        "origin": values["origin"],
        "reference": {
            name.removeprefix("reference_"): array
            for name, array in arrays.items()
            if name.startswith("reference_")
        },
        "guaranteed": None if guaranteed is None else Guarantee(**guaranteed),
    }
    if values.get("kind") == "interval":
        return IntervalConfidence(values["width"], values["level"], **options)
    missing = [name for name in _ARRAYS if name not in arrays]
    require(not missing, "tensors", "complete", missing)

    classifier = ConfidenceClassifier(**values["settings"])
    features = len(arrays["mean"])
    classifier.classes_ = np.array([0, 1])
    classifier.n_features_in_ = features
    classifier.threshold_ = float(values["threshold"])
    classifier.n_iter_ = int(values["passes"])
    classifier.converged_ = classifier.n_iter_ < classifier.max_iter
    classifier.network_ = make_pipeline(_scaler(arrays), _network(arrays, classifier))
    return Confidence(classifier, **options)


def _interval_values(confidence: IntervalConfidence) -> dict[str, Any]:
    guaranteed = confidence.guaranteed
    return {
        "version": VERSION,
        "kind": "interval",
        "origin": confidence.origin,
        "width": confidence.width.tolist(),
        "level": confidence.level,
        "guaranteed": None if guaranteed is None else guaranteed.as_dict(),
    }


def _reference_arrays(confidence: BaseConfidence) -> dict[str, np.ndarray]:
    return {f"reference_{name}": scores for name, scores in confidence._reference.items()}


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {
        f"{PREFIX}{name}": torch.from_numpy(np.array(array, dtype=np.float64))
        for name, array in arrays.items()
    }


def _scaler(arrays: dict[str, np.ndarray]) -> StandardScaler:
    scaler = StandardScaler()
    scaler.mean_, scaler.scale_ = arrays["mean"], arrays["scale"]
    scaler.var_ = scaler.scale_**2
    scaler.n_features_in_, scaler.n_samples_seen_ = len(scaler.mean_), 1
    return scaler


def _network(arrays: dict[str, np.ndarray], classifier: ConfidenceClassifier) -> MLPClassifier:
    network = MLPClassifier((classifier.hidden,), max_iter=classifier.max_iter)
    network.coefs_ = [arrays["weight_0"], arrays["weight_1"]]
    network.intercepts_ = [arrays["bias_0"], arrays["bias_1"]]
    network.n_features_in_, network.n_outputs_, network.n_layers_ = len(arrays["mean"]), 1, 3
    network.n_iter_, network.out_activation_ = classifier.n_iter_, "logistic"
    network.classes_ = np.array([0, 1])
    network._label_binarizer = LabelBinarizer().fit(network.classes_)
    return network
