"""A fitted confidence: how far to trust each prediction of one posterior, and when to abstain."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import Phrase, is_whole, require
from sbmc.confidence.classifier import ConfidenceClassifier
from sbmc.confidence.guarantee import (
    Guarantee,
    calibration_size,
    coverage_grid,
    guaranteed_threshold,
)
from sbmc.model.data import as_examples
from sbmc.prediction.prediction import Prediction

ABSTAIN = -1
Predict = Callable[[Any], Prediction]
# Of the scores seen in training, enough of them to space thresholds by.
_QUANTILES = 201


class Decision(NamedTuple):
    """What to say about each input."""

    labels: Tensor  # (examples,) the predicted class, or -1 for "I do not know"
    abstained: Tensor  # (examples,) booleans
    score: Tensor  # (examples,) probability of being incorrect or out of domain


class Confidence:
    """Scores the predictions of one posterior, and decides whether to give them.

    Made by `fit_confidence` (or `posterior.confidence`). The score is the probability that a
    prediction is incorrect or its input out of domain.

    Attributes:
        classifier: the fitted meta-classifier.
        origin: digest of the posterior whose predictions it has learned; None if not known.
        guaranteed: the threshold with a guarantee, after `calibrate`.
    """

    def __init__(
        self,
        classifier: ConfidenceClassifier,
        *,
        origin: str | None = None,
        predict: Predict | None = None,
        reference: Mapping[str, np.ndarray] | None = None,
        guaranteed: Guarantee | None = None,
    ) -> None:
        self.classifier = classifier
        self.origin = origin
        self.guaranteed = guaranteed
        self._predict = predict
        self._reference = dict(reference or {})

    def __repr__(self) -> str:
        bound = "" if self.origin is None else f", origin={self.origin[:12]}"
        return f"Confidence(threshold={self.threshold:.4g}{bound})"

    @property
    def threshold(self) -> float:
        """Scores from here on lead to an abstention."""
        return float(self.classifier.threshold_)

    def score(self, given: Any) -> Tensor:
        """Probability of being incorrect or out of domain.

        Args:
            given: a `Prediction` of the posterior that this belongs to, or inputs for it.

        Returns:
            `(examples,)` float64.

        Raises:
            BadInput: a prediction of another posterior, one without features, or inputs where no
                posterior is known.
        """
        prediction = self._prediction(given)
        features = prediction.features().detach().cpu().numpy()
        return torch.from_numpy(self.classifier.predict_proba(features)[:, 1])

    def abstain(self, given: Any) -> Tensor:
        """Whether to abstain: the score is at least the threshold.

        After `calibrate`, the threshold with the guarantee decides.

        Args:
            given: as for `score`.

        Returns:
            `(examples,)` booleans.
        """
        return self._abstained(self.score(given))

    def decide(self, given: Any) -> Decision:
        """The predicted class of each input, or -1 where it is wiser to abstain.

        Args:
            given: as for `score`.

        Returns:
            Labels, abstentions and scores.
        """
        prediction = self._prediction(given)
        score = self.score(prediction)
        abstained = self._abstained(score)
        labels = prediction.labels.cpu().masked_fill(abstained, ABSTAIN)
        return Decision(labels, abstained, score)

    def calibrate(
        self, data: Any, ood: Any = None, *, alpha: float = 0.02, delta: float = 0.05
    ) -> Guarantee:
        """Replace the threshold by one with a guarantee; see `sbmc.confidence.guarantee`.

        Args:
            data: `(inputs, labels)`, in domain, used for nothing before.
            ood: out-of-domain inputs, if such will be met, in the proportion in which they will be.
            alpha: error allowed among answered inputs.
            delta: probability of a larger one, over calibration sets.

        Returns:
            The guarantee, also kept as `guaranteed`. It may be one that answers nothing.

        Raises:
            BadInput: α or δ outside (0, 1), or too few examples: the message says how many.
        """
        calibration_size(alpha, delta)  # refuses levels that are none, before anything is predicted
        known = self._predict is not None
        require(known, "confidence", "bound to a posterior", Phrase("one without `bind`"))
        inside, wrong, outside = _features(self._prediction, data, ood)
        score = self.classifier.predict_proba(np.concatenate([inside, outside]))[:, 1]
        wrong = np.concatenate([wrong, np.ones(len(outside), dtype=bool)])
        reference = self._reference_scores(len(inside), len(outside))
        grid = coverage_grid(reference, len(score), alpha=alpha, delta=delta)
        self.guaranteed = guaranteed_threshold(score, wrong, grid, alpha=alpha, delta=delta)
        return self.guaranteed

    def bind(self, predict: Predict, origin: str | None) -> Confidence:
        """Say which posterior predicts, so that inputs can be given instead of predictions.

        Args:
            predict: inputs -> `Prediction`.
            origin: its digest.

        Returns:
            The same object.

        Raises:
            BadInput: if it is another posterior than the one learned from.
        """
        self._check_origin(origin, "posterior")
        self._predict = predict
        self.origin = self.origin or origin
        return self

    def _abstained(self, score: Tensor) -> Tensor:
        if self.guaranteed is not None:
            return ~torch.from_numpy(self.guaranteed.answer(score.numpy()))
        return score >= self.threshold

    def _prediction(self, given: Any) -> Prediction:
        if not isinstance(given, Prediction):
            rule = "a Prediction, since no posterior is bound to this confidence"
            require(self._predict is not None, "given", rule, Phrase(type(given).__name__))
            given = self._predict(given)  # type: ignore[misc]
        self._check_origin(given.origin, "prediction")
        return given

    def _check_origin(self, origin: str | None, name: str) -> None:
        # One that carries no digest was made by hand: its maker knows what it is.
        same = origin is None or self.origin is None or origin == self.origin
        rule = "of the posterior that this confidence was fitted to"
        require(same, name, rule, Phrase("one of another posterior"))

    def _reference_scores(self, inside: int, outside: int) -> np.ndarray:
        parts = []
        for name, size in (("inside", inside), ("outside", outside)):
            if size and len(self._reference.get(name, ())):
                quantiles = self._reference[name]
                level = (np.arange(size) + 0.5) / size
                parts.append(np.interp(level, np.linspace(0, 1, len(quantiles)), quantiles))
        # Without any, thresholds are spaced evenly: valid as well, if less well placed.
        return np.concatenate(parts) if parts else np.linspace(0, 1, _QUANTILES)


def fit_confidence(
    predict: Predict,
    data: Any,
    ood: Any = None,
    *,
    threshold: float | str = "f1",
    seed: int = 0,
    origin: str | None = None,
) -> Confidence:
    """Learn when a posterior's predictions are not to be trusted.

    The meta-classifier of the paper: in-domain inputs predicted correctly are 0; those predicted
    incorrectly, and all out-of-domain inputs, are 1; the seven features of their predictions are
    what it sees.

    Args:
        predict: inputs -> `Prediction`, such as `posterior.predict`.
        data: `(inputs, labels)` in domain, or a `Dataset` or `DataLoader`; best such that the
            model was not fitted to, since it is surer of those than it should be.
        ood: out-of-domain inputs, or several groups of them by name, or None: then the score
            speaks of incorrect predictions alone.
        threshold: a number from 0 to 1, or `"f1"`, chosen by cross-validation.
        seed: of the classifier.
        origin: digest of the posterior.

    Returns:
        The fitted confidence, bound to `predict`.

    Raises:
        BadInput: if all predictions are correct and there is no out-of-domain input, or nothing is
            correct: there is then one class only.

    Warns:
        UserWarning: no prediction is incorrect, so the score can only find out-of-domain inputs.

    Example:
        >>> from sbmc.prediction.prediction import classification_prediction
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
    require(is_whole(seed) and seed >= 0, "seed", "a non-negative integer", seed)
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
        words = (
            f"All {right} in-domain predictions are correct: the confidence learns to find "
            "out-of-domain inputs, and nothing of incorrect predictions."
        )
        warnings.warn(words, UserWarning, stacklevel=2)
    truth = np.concatenate([wrong.astype(int), np.ones(len(outside), dtype=int)])
    features = np.concatenate([inside, outside])
    classifier.fit(features, truth)
    level = np.linspace(0, 1, _QUANTILES)
    reference = {
        name: np.quantile(classifier.predict_proba(part)[:, 1], level)
        for name, part in (("inside", inside), ("outside", outside))
        if len(part)
    }
    return Confidence(classifier, origin=origin, predict=predict, reference=reference)


def _features(
    predict: Callable[[Any], Any], data: Any, ood: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features and errors in domain, and features out of domain."""
    examples = as_examples(data)
    prediction = predict(examples.inputs)
    is_classes = isinstance(prediction, Prediction)
    kind = Phrase(type(prediction).__name__)
    require(is_classes, "predict", "of classes; confidence is for classification", kind)
    wrong = (prediction.labels.cpu() != examples.targets.cpu()).numpy()
    inside = prediction.features().detach().cpu().numpy()
    groups = _groups(ood, named_inputs=isinstance(examples.inputs, Mapping))
    outside = [predict(group).features().detach().cpu().numpy() for group in groups]
    return inside, wrong, np.concatenate([np.empty((0, inside.shape[1])), *outside])


def _groups(ood: Any, named_inputs: bool) -> list[Any]:
    """One group, or several by name; where inputs are dicts, groups are dicts of dicts."""
    if ood is None:
        return []
    values = list(ood.values()) if isinstance(ood, Mapping) else []
    several = bool(values) and all(isinstance(each, Mapping) == named_inputs for each in values)
    return values if several else [ood]
