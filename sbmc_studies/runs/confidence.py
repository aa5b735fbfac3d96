"""Adds the metrics of the meta-classifier to a record, in both protocols."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, is_zipfile

from sbmc.confidence import evaluate
from sbmc.confidence.report import load_arrays
from sbmc.prediction.prediction import Prediction
from sbmc_studies.data.confidence_sets import confidence_sets
from sbmc_studies.records.record import Record

if TYPE_CHECKING:
    import numpy as np

    from sbmc.posterior.posterior import Posterior
    from sbmc_studies.experiments.context import Context

PROTOCOLS = ("paper", "clean")
# A metric that is in every record to which this module has added its metrics.
WITNESS = "confidence.default.auc_roc"


def has_confidence(record: Record | None) -> bool:
    """Whether a record has the metrics of the meta-classifier in it."""
    return record is not None and WITNESS in record.metrics


def arrays_file(folder: Path, protocol: str) -> Path:
    """The file of a protocol's arrays, which figures are drawn from."""
    return folder / f"confidence-{protocol}.npz"


def read_arrays(folder: Path, protocol: str) -> dict[str, np.ndarray] | None:
    """The arrays of the meta-classifier, which are beside the record.

    Args:
        folder: of the record.
        protocol: one of `PROTOCOLS`.

    Returns:
        All arrays; None if the file is not there or is damaged.
    """
    path = arrays_file(folder, protocol)
    # NumPy would leave a file that only begins like an archive open.
    if not path.is_file() or not is_zipfile(path):
        return None
    try:
        return load_arrays(path)
    except (OSError, ValueError, EOFError, BadZipFile):
        return None


def with_confidence(record: Record, posterior: Posterior, context: Context, folder: Path) -> Record:
    """Train and test the meta-classifier in both protocols.

    Args:
        record: of the run.
        posterior: its ensemble.
        context: whose data sets are split.
        folder: the record's, to which the arrays are written.

    Returns:
        The record with `confidence.` and `ood.` among its metrics.
    """
    resources, name, data_dir = context.resources, context.experiment.dataset, context.spec.data_dir

    def predict(inputs: Any) -> Prediction:
        prediction = posterior.predict(inputs)
        assert isinstance(prediction, Prediction)  # all studies so far are classifications
        return prediction

    metrics = dict(record.metrics)
    folder.mkdir(parents=True, exist_ok=True)
    for protocol in PROTOCOLS:
        make = partial(confidence_sets, name, protocol, data_dir, context.seed)
        key = ("confidence", name, protocol, context.seed, data_dir)
        sets = resources.get_or_make(key, make)
        report = evaluate(predict, sets, protocol, seed=context.seed)
        metrics |= report.metrics
        report.save(arrays_file(folder, protocol))
    return replace(record, metrics=metrics)
