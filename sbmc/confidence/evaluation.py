"""Evaluates the confidence of one posterior by one protocol: metrics and curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sbmc.checks import require, require_count, require_function
from sbmc.confidence.base import call_predict
from sbmc.confidence.classifier import ConfidenceClassifier
from sbmc.confidence.curves import (
    accuracy_points,
    confusion_counts,
    entropy_groups,
    reliability_bins,
    risk_points,
    roc_points,
)
from sbmc.confidence.decisions import risk_coverage, two_level_accuracy
from sbmc.confidence.guarantee import calibration_size, coverage_grid, guaranteed_threshold
from sbmc.confidence.protocols import ConfidenceSet, check_protocol
from sbmc.confidence.report import ConfidenceReport
from sbmc.confidence.scores import detection_metrics, prediction_scores
from sbmc.confidence.splits import calibration_splits
from sbmc.confidence.thresholds import f1_threshold
from sbmc.prediction.prediction import Prediction, concatenate
from sbmc.randomness import require_short_seed

DEFAULT_THRESHOLD = 0.5


def evaluate(
    predict: Callable[[Any], Prediction],
    sets: Mapping[str, ConfidenceSet],
    protocol: str,
    *,
    seed: int = 0,
    alpha: float = 0.02,
    delta: float = 0.05,
    splits: int = 200,
) -> ConfidenceReport:
    """Train the meta-classifier, choose its threshold, and test it.

    Args:
        predict: inputs -> `Prediction`, such as `posterior.predict`.
        sets: `meta_train`, `threshold`, `test`, and for the clean protocol `calibration`.
        protocol: `"paper"` or `"clean"`; the names of the metrics contain it.
        seed: of the classifier and of the calibration splits.
        alpha: of the guarantee.
        delta: of the guarantee.
        splits: calibration sets that the guarantee is tried on.

    Returns:
        Metrics, under `confidence.` and `ood.` (`confidence.clean.` and `ood.clean.`):

        - `{default,optimal_f1}.{precision,recall,f1,accuracy,auc_roc,threshold}`: in-domain correct
          is 0, all else 1;
        - `oracle_f1.f1`: the best F1 that any threshold has on the test set itself;
        - `two_level.{answer_all,abstain_all,best}`: accuracies; at the two thresholds above, the
          accuracy of the two-level estimator is the classifier's;
        - `aurc.{mixed,in_domain}`: area under risk against coverage;
        - `guarantee.{in_domain,mixed}.{threshold,bound,error,coverage,answers_nothing}`, error and
          coverage being those on the test set, and `.splits.*`; where there are too few
          calibration examples, only `.examples` and `.examples_needed`;
        - `ood.<score>.{auroc,aupr,fpr95}`.

    Raises:
        BadInput: another protocol, a set that is missing, or one class only in meta-training.
    """
    check_protocol(protocol)
    # All are refused before anything is predicted.
    require_function("predict", predict, "inputs, such as posterior.predict")
    calibration_size(alpha, delta)
    require_short_seed(seed)
    require_count("splits", splits)
    good = isinstance(sets, Mapping) and all(isinstance(p, ConfidenceSet) for p in sets.values())
    require(good, "sets", "a dict of ConfidenceSet(inputs, labels, ood) by their names", sets)
    needed = ["meta_train", "threshold", "test"] + (["calibration"] if protocol == "clean" else [])
    missing = [name for name in needed if name not in sets]
    require(not missing, "sets", f"those of the protocol, {', '.join(needed)}", list(sets))
    infix = "" if protocol == "paper" else "clean."

    learn, tune, test = (_predicted(predict, sets[name]) for name in needed[:3])
    classifier = ConfidenceClassifier(random_state=seed).fit(learn.features(), learn.truth())
    tuned = f1_threshold(tune.truth(), tune.score(classifier))
    score, truth = test.score(classifier), test.truth()
    inside = len(test.wrong)

    metrics = _decision_metrics(score, truth, tuned)
    metrics["aurc.mixed"] = risk_coverage(score, truth).area
    metrics["aurc.in_domain"] = risk_coverage(score[:inside], truth[:inside]).area
    arrays = _arrays(test, score, truth, tuned)
    if protocol == "clean":
        pool = _predicted(predict, sets["calibration"])
        for name in ("in_domain", "mixed"):
            chosen = [each.chosen(classifier, name) for each in (tune, pool, test)]
            guarantee, curves = _guaranteed(chosen, alpha, delta, splits, seed)
            metrics |= {f"guarantee.{name}.{key}": value for key, value in guarantee.items()}
            arrays |= {f"guarantee.{name}.{key}": value for key, value in curves.items()}
    named = {f"confidence.{infix}{key}": value for key, value in metrics.items()}
    within = prediction_scores(test.inside) | {"meta_classifier": score[:inside]}
    beyond = prediction_scores(concatenate(test.outside.values()))
    beyond |= {"meta_classifier": score[inside:]}
    named |= detection_metrics(within, beyond, prefix=f"ood.{infix}")
    return ConfidenceReport(protocol, named, arrays)


@dataclass(frozen=True, eq=False)
class _Predicted:
    """A set with its predictions; in-domain examples come first everywhere."""

    inside: Prediction
    labels: np.ndarray
    wrong: np.ndarray
    outside: dict[str, Prediction]

    def features(self) -> np.ndarray:
        parts = [self.inside, *self.outside.values()]
        return np.concatenate([part.features().cpu().numpy() for part in parts])

    def truth(self) -> np.ndarray:
        beyond = sum(len(group) for group in self.outside.values())
        return np.concatenate([self.wrong, np.ones(beyond, dtype=bool)]).astype(int)

    def score(self, classifier: ConfidenceClassifier) -> np.ndarray:
        return classifier.predict_proba(self.features())[:, 1]

    def chosen(self, classifier: ConfidenceClassifier, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Scores and truth, of in-domain examples alone or of all."""
        stop = len(self.wrong) if name == "in_domain" else None
        return self.score(classifier)[:stop], self.truth()[:stop]


def _predicted(predict: Callable[[Any], Prediction], part: ConfidenceSet) -> _Predicted:
    inside = call_predict(predict, part.inputs)
    outside = {name: call_predict(predict, group) for name, group in part.ood.items()}
    require(bool(outside), "sets", "of in-domain and out-of-domain inputs", list(outside))
    for prediction in (inside, *outside.values()):
        rule = "a function that returns a prediction of classes"
        require(isinstance(prediction, Prediction), "predict", rule, prediction)
    labels = inside.checked_labels(part.labels).cpu().numpy()
    return _Predicted(inside, labels, inside.labels.cpu().numpy() != labels, outside)


def _decision_metrics(score: np.ndarray, truth: np.ndarray, tuned: float) -> dict[str, float]:
    from sklearn.metrics import (
        accuracy_score,
        f1_score,
        precision_recall_fscore_support,
        roc_auc_score,
    )

    metrics: dict[str, float] = {}
    for rule, threshold in (("default", DEFAULT_THRESHOLD), ("optimal_f1", tuned)):
        abstain = (score >= threshold).astype(int)
        scores = precision_recall_fscore_support(truth, abstain, average="binary", zero_division=0)
        values = dict(zip(("precision", "recall", "f1"), map(float, scores[:3]), strict=True))
        values["accuracy"] = float(accuracy_score(truth, abstain))
        values["auc_roc"] = float(roc_auc_score(truth, score))
        values["threshold"] = float(threshold)
        metrics |= {f"{rule}.{key}": value for key, value in values.items()}
    # An upper bound rather than a result: the threshold is chosen on the test set itself.
    best = f1_threshold(truth, score)
    metrics["oracle_f1.f1"] = float(f1_score(truth, score >= best))
    everything = np.concatenate([np.unique(score), [np.inf]])
    over_all = two_level_accuracy(score, truth, everything)
    metrics["two_level.abstain_all"] = float(over_all[0])
    metrics["two_level.answer_all"] = float(over_all[-1])
    metrics["two_level.best"] = float(over_all.max())
    return metrics


def _arrays(
    test: _Predicted, score: np.ndarray, truth: np.ndarray, tuned: float
) -> dict[str, np.ndarray]:
    inside = len(test.wrong)
    sure = test.inside.max_probability.cpu().numpy()
    groups = {
        "roc": roc_points(score, truth),
        "two_level": accuracy_points(score, truth),
        "risk_coverage.mixed": risk_points(score, truth),
        "risk_coverage.in_domain": risk_points(score[:inside], truth[:inside]),
        "reliability.model": reliability_bins(np.minimum(sure, 1.0), ~test.wrong),
        "reliability.score": reliability_bins(score, truth),
        "entropy": entropy_groups(test.inside, test.labels, test.outside),
        "confusion": {
            "default": confusion_counts(score, truth, DEFAULT_THRESHOLD),
            "optimal_f1": confusion_counts(score, truth, tuned),
        },
    }
    return {
        f"{name}.{key}": value for name, group in groups.items() for key, value in group.items()
    }


def _guaranteed(
    chosen: list[tuple[np.ndarray, np.ndarray]], alpha: float, delta: float, splits: int, seed: int
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    (reference, _), (score, wrong), (test_score, test_wrong) = chosen
    enough, size = calibration_size(alpha, delta), len(score) // 2
    if size < enough:
        return {"examples": float(size), "examples_needed": float(enough)}, {}
    level: dict[str, Any] = {"alpha": alpha, "delta": delta}
    grid = coverage_grid(reference, len(score), **level)
    guarantee = guaranteed_threshold(score, wrong, grid, **level)
    answered = guarantee.answer(test_score)
    metrics = {
        "coverage": float(answered.mean()),
        "answers_nothing": float(guarantee.answers_nothing),
    }
    if guarantee.threshold is not None and guarantee.bound is not None:
        metrics |= {"threshold": guarantee.threshold, "bound": guarantee.bound}
    if answered.any():
        metrics["error"] = float(test_wrong[answered].mean())
    grid = coverage_grid(reference, size, **level)
    study = calibration_splits(score, wrong, grid, splits=splits, examples=size, seed=seed, **level)
    metrics |= {f"splits.{key}": value for key, value in study.metrics().items()}
    return metrics, {"splits.error": study.error, "splits.coverage": study.coverage}
