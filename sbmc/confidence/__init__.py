"""Confidence in predictions: a score for "incorrect or out of domain", and when to abstain."""

from sbmc.confidence.abstention import ABSTAIN, Confidence, Decision, fit_confidence
from sbmc.confidence.base import BaseConfidence
from sbmc.confidence.classifier import ConfidenceClassifier
from sbmc.confidence.decisions import RiskCoverage, risk_coverage, two_level_accuracy
from sbmc.confidence.evaluation import evaluate
from sbmc.confidence.guarantee import (
    Guarantee,
    calibration_size,
    coverage_grid,
    guaranteed_threshold,
    upper_bound,
)
from sbmc.confidence.intervals import (
    IntervalConfidence,
    IntervalDecision,
    fit_interval_confidence,
)
from sbmc.confidence.protocols import PARTS, PROTOCOLS, ConfidenceSet
from sbmc.confidence.report import ConfidenceReport, load_arrays
from sbmc.confidence.scores import Detection, detection, detection_metrics
from sbmc.confidence.splits import SplitStudy, calibration_splits
from sbmc.confidence.storage import from_state, to_state
from sbmc.confidence.thresholds import f1_threshold

__all__ = [
    "ABSTAIN",
    "PARTS",
    "PROTOCOLS",
    "BaseConfidence",
    "Confidence",
    "ConfidenceClassifier",
    "ConfidenceReport",
    "ConfidenceSet",
    "Decision",
    "Detection",
    "Guarantee",
    "IntervalConfidence",
    "IntervalDecision",
    "RiskCoverage",
    "SplitStudy",
    "calibration_size",
    "calibration_splits",
    "coverage_grid",
    "detection",
    "detection_metrics",
    "evaluate",
    "f1_threshold",
    "fit_confidence",
    "fit_interval_confidence",
    "from_state",
    "guaranteed_threshold",
    "load_arrays",
    "risk_coverage",
    "to_state",
    "two_level_accuracy",
    "upper_bound",
]
