"""A fitted confidence: how far to trust each prediction of one posterior, and when to abstain."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.confidence.base import (
    BaseConfidence,
    Judged,
    Predict,
    call_predict,
    features_of,
    reference_quantiles,
)
from sbmc.confidence.classifier import ConfidenceClassifier
from sbmc.likelihoods.categorical import label_remedy, require_integers, require_labels
from sbmc.model.data import as_examples
from sbmc.prediction.prediction import Prediction
from sbmc.randomness import require_short_seed

ABSTAIN = -1


class Decision(NamedTuple):
    """The decision for each input."""

    labels: Tensor  # (examples,) the predicted class, or -1 for an abstention
    abstained: Tensor  # (examples,) booleans
    score: Tensor  # (examples,) probability of being incorrect or out of domain


class Confidence(BaseConfidence):
    """Scores the predictions of one posterior, and decides whether to give them.

    Made by `fit_confidence` (or `posterior.confidence`). The score is the probability that a
    prediction is incorrect or its input out of domain.

    Attributes:
        classifier: the fitted meta-classifier.
        origin: digest of the posterior whose predictions it has learned; None if not known.
        guaranteed: the threshold with a guarantee, after `calibrate`.
    """

    kind = Prediction

    def __init__(self, classifier: ConfidenceClassifier, **options: Any) -> None:
        super().__init__(**options)
        self.classifier = classifier

    def __repr__(self) -> str:
        bound = "" if self.origin is None else f", origin={self.origin[:12]}"
        return f"Confidence(threshold={self.threshold:.4g}{bound})"

    @property
    def threshold(self) -> float:
        """Scores from here on lead to an abstention."""
        return float(self.classifier.threshold_)

    def score(self, inputs: Any) -> Tensor:
        """Probability of being incorrect or out of domain.

        Args:
            inputs: inputs for the posterior that this belongs to, or its `Prediction` of them.

        Returns:
            `(examples,)` float64.

        Raises:
            BadInput: a prediction of another posterior or without features, or inputs although no
                posterior is bound.
        """
        prediction = self._prediction(inputs)
        features = features_of(prediction, "inputs")
        return torch.from_numpy(self.classifier.predict_proba(features)[:, 1])

    def decide(self, inputs: Any) -> Decision:
        """The predicted class of each input, or -1 where it is wiser to abstain.

        Args:
            inputs: as for `score`.

        Returns:
            Labels, abstentions and scores.
        """
        prediction = self._prediction(inputs)
        score = self.score(prediction)
        abstained = self._abstained(score)
        labels = prediction.labels.cpu().masked_fill(abstained, ABSTAIN)
        return Decision(labels, abstained, score)

    def _judge(self, data: Any, ood: Any) -> Judged:
        inside, wrong, outside = _features(self._prediction, data, ood)
        score = self.classifier.predict_proba(np.concatenate([inside, outside]))[:, 1]
        return Judged(
            score, np.concatenate([wrong, np.ones(len(outside), dtype=bool)]), len(inside)
        )


def fit_confidence(
    predict: Predict,
    data: Any,
    ood: Any = None,
    *,
    threshold: float | str = "f1",
    seed: int = 0,
    origin: str | None = None,
) -> Confidence:
    """Fit a classifier that finds predictions which should not be trusted.

    It is the meta-classifier of the paper: in-domain inputs that are predicted correctly are class
    0; those predicted incorrectly, and all out-of-domain inputs, are class 1. Its inputs are the
    seven features of their predictions.

    Args:
        predict: inputs -> `Prediction`, such as `posterior.predict`.
        data: `(inputs, labels)` in domain, or a `Dataset` or `DataLoader`; preferably not data that
            the model was fitted to, for which it is overconfident.
        ood: out-of-domain inputs, or several groups of them by name; None to detect only incorrect
            predictions.
        threshold: a number from 0 to 1, or `"f1"`, chosen by cross-validation.
        seed: of the classifier.
        origin: digest of the posterior.

    Returns:
        The fitted confidence, bound to `predict`.

    Raises:
        BadInput: all predictions are correct and there is no out-of-domain input, or no prediction
            is correct, so that there is only one class.

    Warns:
        UserWarning: no prediction is incorrect, so the score can only find out-of-domain inputs.

    Examples:
        >>> from sbmc.prediction.combining import classification_prediction
        >>> slopes = torch.tensor([0.5, 1.0, 2.0]).view(-1, 1, 1)  # three particles
        >>> def predict(x):
        ...     outputs = slopes * torch.cat([-x, x], dim=1)
        ...     return classification_prediction(outputs.log_softmax(-1), torch.full((3,), 1 / 3))
        >>> x = torch.linspace(-5, 5, 200).unsqueeze(1)
        >>> labels = (x[:, 0] > 0).long() ^ (x[:, 0].abs() < 0.5).long()
        >>> confidence = fit_confidence(predict, (x, labels), x / 20, threshold=0.5)
        >>> confidence.decide(torch.tensor([[4.0], [0.0]])).labels.tolist()
        [1, -1]
    """
    require_short_seed(seed)
    classifier = ConfidenceClassifier(threshold, random_state=seed)
    classifier.check_settings()
    inside, wrong, outside = _features(predict, data, ood)
    rule = (
        "predictions of which some are correct and some incorrect, or come with "
        "out-of-domain inputs"
    )
    right = len(wrong) - int(wrong.sum())
    require(right > 0, "data", rule, Phrase(f"{len(wrong)} predictions, none of them correct"))
    all_right = Phrase(f"{right} correct predictions and nothing else")
    require(bool(wrong.any()) or len(outside) > 0, "data", rule, all_right)
    if not wrong.any():
        message = (
            f"All {right} in-domain predictions are correct: the confidence learns to find "
            "out-of-domain inputs, and nothing of incorrect predictions."
        )
        warnings.warn(message, UserWarning, stacklevel=2)
    truth = np.concatenate([wrong.astype(int), np.ones(len(outside), dtype=int)])
    features = np.concatenate([inside, outside])
    fewest = int(np.bincount(truth, minlength=2).min())
    rule = "at least two predictions that are right and two that are wrong or out of domain"
    enough = threshold != "f1" or fewest >= 2
    shown = Phrase(f"{fewest}; a number as threshold needs no cross-validation")
    require(enough, "data", f"{rule}, for threshold='f1'", shown)
    classifier.fit(features, truth)
    scores = (
        classifier.predict_proba(part)[:, 1] if len(part) else np.empty(0)
        for part in (inside, outside)
    )
    reference = reference_quantiles(**dict(zip(("inside", "outside"), scores, strict=True)))
    return Confidence(classifier, origin=origin, predict=predict, reference=reference)


def _features(
    predict: Callable[[Any], Any], data: Any, ood: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features and errors in domain, and features out of domain."""
    examples = as_examples(data)
    prediction = call_predict(predict, examples.inputs)
    rule = "a function that predicts classes (numbers have `fit_interval_confidence`)"
    require(isinstance(prediction, Prediction), "predict", rule, prediction)
    targets = examples.targets.cpu()
    require_integers(targets, "data targets")
    same = Phrase(f"shape {tuple(targets.shape)}{label_remedy(targets)}")
    fits = targets.shape == prediction.labels.shape
    require(fits, "data targets", f"of shape {tuple(prediction.labels.shape)}", same)
    require_labels(targets, prediction.probs.shape[-1], "data targets")
    wrong = (prediction.labels.cpu() != targets).numpy()
    inside = features_of(prediction, "data")
    groups = ood_groups(ood, named_inputs=isinstance(examples.inputs, Mapping))
    outside = [features_of(call_predict(predict, group), "ood") for group in groups]
    return inside, wrong, np.concatenate([np.empty((0, inside.shape[1])), *outside])


def ood_groups(ood: Any, named_inputs: bool) -> list[Any]:
    """One group, or several by name; where inputs are dicts, groups are dicts of dicts."""
    if ood is None:
        return []
    values = list(ood.values()) if isinstance(ood, Mapping) else []
    several = bool(values) and all(isinstance(each, Mapping) == named_inputs for each in values)
    return values if several else [ood]
