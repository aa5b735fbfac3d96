"""What confidences have in common: a score, a threshold, abstentions, and a guarantee.

A confidence belongs to one posterior. Its score is the probability that an answer is wrong; inputs
whose score is at least the threshold are not answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require, require_function
from sbmc.confidence.guarantee import (
    Guarantee,
    calibration_size,
    coverage_grid,
    guaranteed_threshold,
)
from sbmc.prediction.base import BasePrediction
from sbmc.prediction.prediction import Prediction

Predict = Callable[[Any], Any]
# How many quantiles of scores are stored, to space thresholds by.
_QUANTILES = 201


class Judged(NamedTuple):
    """Scores of calibration inputs, those out of domain last."""

    score: np.ndarray  # (examples,)
    wrong: np.ndarray  # (examples,) booleans
    inside: int  # how many are in domain


class BaseConfidence(ABC):
    """Scores the predictions of one posterior, and decides whether to give them.

    Args:
        origin: digest of the posterior whose predictions it scores; None if not known.
        predict: inputs -> prediction.
        reference: quantiles of scores in domain (`inside`) and out of domain (`outside`), from data
            that are not those of `calibrate`; they space the thresholds that it tests.
        guaranteed: the threshold with a guarantee, after `calibrate`.
    """

    kind: type[BasePrediction]

    def __init__(
        self,
        *,
        origin: str | None = None,
        predict: Predict | None = None,
        reference: Mapping[str, np.ndarray] | None = None,
        guaranteed: Guarantee | None = None,
    ) -> None:
        good = origin is None or isinstance(origin, str)
        require(good, "origin", "the digest of a posterior, posterior.origin, or None", origin)
        self.origin = origin
        self.guaranteed = guaranteed
        self._predict = predict
        self._reference = dict(reference or {})

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Scores from here on lead to an abstention."""

    @abstractmethod
    def score(self, inputs: Any) -> Tensor:
        """Probability that an answer is wrong, `(examples,)` float64."""

    @abstractmethod
    def _judge(self, data: Any, ood: Any) -> Judged:
        """Scores and errors of calibration data."""

    def abstain(self, inputs: Any) -> Tensor:
        """Whether to abstain: the score is at least the threshold.

        After `calibrate`, the threshold with the guarantee decides.

        Args:
            inputs: as for `score`.

        Returns:
            `(examples,)` booleans.
        """
        return self._abstained(self.score(inputs))

    def calibrate(
        self, data: Any, ood: Any = None, *, alpha: float = 0.02, delta: float = 0.05
    ) -> Guarantee:
        """Replace the threshold by one with a guarantee; see `sbmc.confidence.guarantee`.

        Args:
            data: `(inputs, targets)`, in domain, used for nothing before.
            ood: out-of-domain inputs, if they are expected, in the proportion that is expected.
            alpha: error allowed among answered inputs.
            delta: probability of a larger one, over calibration sets.

        Returns:
            The guarantee, which is also stored as `guaranteed`. It may answer nothing.

        Raises:
            BadInput: α or δ outside (0, 1), or too few examples: the message says how many.
        """
        needed = calibration_size(alpha, delta)  # refuses bad levels before anything is predicted
        bound_to_posterior = self._predict is not None
        require(
            bound_to_posterior, "confidence", "bound to a posterior", Phrase("one without `bind`")
        )
        score, wrong, inside = self._judge(data, ood)
        rule = f"of at least {needed} examples for an error of at most {float(alpha):g}"
        require(len(score) >= needed, "data", rule, Phrase(f"{len(score)}"))
        reference = self._reference_scores(inside, len(score) - inside)
        grid = coverage_grid(reference, len(score), alpha=alpha, delta=delta)
        self.guaranteed = guaranteed_threshold(score, wrong, grid, alpha=alpha, delta=delta)
        return self.guaranteed

    def bind(self, predict: Predict, origin: str | None) -> Self:
        """Set the posterior that predicts, so that inputs can be given instead of predictions.

        Args:
            predict: inputs -> prediction.
            origin: its digest.

        Returns:
            The same object.

        Raises:
            BadInput: it is not the posterior that the confidence was fitted to.
        """
        self._check_origin(origin, "posterior")
        self._predict = predict
        self.origin = self.origin or origin
        return self

    def _abstained(self, score: Tensor) -> Tensor:
        if self.guaranteed is not None:
            return ~torch.from_numpy(self.guaranteed.answer(score.numpy()))
        return score >= self.threshold

    def _prediction(self, inputs: Any) -> Any:
        if not isinstance(inputs, BasePrediction):
            rule = f"a {self.kind.__name__}, since no posterior is bound to this confidence"
            require(self._predict is not None, "inputs", rule, inputs)
            inputs = call_predict(self._predict, inputs)  # type: ignore[arg-type]
        require(isinstance(inputs, self.kind), "inputs", f"of a {self.kind.__name__}", inputs)
        self._check_origin(inputs.origin, "prediction")
        return inputs

    def _check_origin(self, origin: str | None, name: str) -> None:
        # A prediction without a digest was made by hand, and is not checked.
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
        # Without any, thresholds are spaced evenly, which is valid but less precise.
        return np.concatenate(parts) if parts else np.linspace(0, 1, _QUANTILES)


def call_predict(predict: Predict, inputs: Any) -> Any:
    """What a user's function predicts; its errors are in words."""
    require_function("predict", predict, "inputs, such as posterior.predict")
    try:
        return predict(inputs)
    except BadInput:
        raise
    except Exception as error:  # whatever a user's function meets
        raise BadInput(
            "`predict` must be a function of inputs that returns a prediction, but got one that "
            "fails on them. The error is above."
        ) from error


def features_of(prediction: Prediction, name: str) -> np.ndarray:
    """The features of each example, `(examples, features)`.

    Raises:
        BadInput: examples have several labels each, which have no features of their own.
    """
    shape = Phrase(f"probabilities of shape {tuple(prediction.probs.shape)}")
    require(prediction.probs.ndim == 2, name, "examples with one label each", shape)
    return prediction.features().detach().cpu().numpy()


def reference_quantiles(**scores: np.ndarray) -> dict[str, np.ndarray]:
    """Quantiles of scores by name, `inside` and `outside`; those without examples are left out."""
    level = np.linspace(0, 1, _QUANTILES)
    return {name: np.quantile(part, level) for name, part in scores.items() if len(part)}
