"""Confidence for numbers and counts: abstain where an interval is wider than the user allows.

The user allows an interval of width W around the prediction m(x). With F the predictive mixture,

    score(x) = P(|Y − m(x)| > W / 2) = 1 − F(m(x) + W/2) + F(m(x) − W/2)

is the probability that the target is outside of it. The score is at least t exactly where the
interval around m(x) that has the probability 1 − t is wider than W: there the answer is withheld.
An answer is wrong if the target is more than W/2 away. So score, threshold and error are what they
are for classes, and `calibrate` gives the same guarantee for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require
from sbmc.confidence.abstention import ood_groups
from sbmc.confidence.base import BaseConfidence, Judged, Predict, reference_quantiles
from sbmc.model.data import as_examples
from sbmc.prediction.base import Interval, as_targets
from sbmc.prediction.prediction import RegressionPrediction
from sbmc.prediction.predictive import checked_level
from sbmc.storage.arrays import as_tensor


class IntervalDecision(NamedTuple):
    """The decision for each input."""

    mean: Tensor  # in the shape of the prediction's mean; NaN for an abstention
    interval: Interval  # mean ± half of the allowed width; NaN for an abstention
    abstained: Tensor  # (examples,) booleans
    score: Tensor  # (examples,) probability that the target is outside of the interval


class IntervalConfidence(BaseConfidence):
    """Answers where an interval of the allowed width is likely enough to have the target in it.

    Made by `fit_interval_confidence` (or `posterior.confidence`).

    Args:
        width: the width that is allowed: a number, or one for each output.
        level: an input is answered if the interval of this probability is narrower than `width`.
            After `calibrate`, the threshold with the guarantee decides instead.
        options: as for `BaseConfidence`.

    Raises:
        BadInput: a width is not positive, or the level not between 0 and 1.
    """

    kind = RegressionPrediction

    def __init__(self, width: Any, level: float = 0.9, **options: Any) -> None:
        super().__init__(**options)
        self.width = as_tensor(width, "width", numbers=True).to(torch.float64)
        positive = self.width.ndim <= 1 and bool(((self.width > 0) & self.width.isfinite()).all())
        rule = "positive: a number, or one for each output"
        require(positive and self.width.numel() > 0, "width", rule, width)
        self.level = checked_level(level)

    def __repr__(self) -> str:
        bound = "" if self.origin is None else f", origin={self.origin[:12]}"
        return f"IntervalConfidence(width={self.width.tolist()}, level={self.level:g}{bound})"

    @property
    def threshold(self) -> float:
        """Scores from here on lead to an abstention: 1 − level."""
        return 1 - self.level

    def score(self, inputs: Any) -> Tensor:
        """Probability that the target is more than half of the allowed width from the mean.

        Where there are several outputs, it is that of any of them.

        Args:
            inputs: inputs for the posterior that this belongs to, or its prediction of them.

        Returns:
            `(examples,)` float64.

        Raises:
            BadInput: a prediction of another posterior or without particles, or inputs although
                no posterior is bound; or widths that do not fit the outputs.
        """
        prediction = self._prediction(inputs)
        particles = prediction._need_particles()
        inside = particles.probability_within(*self._interval(prediction))
        return (1 - inside).clamp(0.0, 1.0).cpu()

    def decide(self, inputs: Any) -> IntervalDecision:
        """The mean and the interval of each input, or NaN where it is wiser to abstain.

        Args:
            inputs: as for `score`.

        Returns:
            Means, intervals, abstentions and scores.
        """
        prediction = self._prediction(inputs)
        score = self.score(prediction)
        abstained = self._abstained(score)

        def answered(values: Tensor) -> Tensor:
            shape = (-1, *[1] * (values.ndim - 1))
            return values.cpu().masked_fill(abstained.view(shape), torch.nan)

        ends = (answered(end) for end in self._interval(prediction))
        return IntervalDecision(answered(prediction.mean), Interval(*ends), abstained, score)

    def _judge(self, data: Any, ood: Any) -> Judged:
        examples = as_examples(data)
        prediction = self._prediction(examples.inputs)
        targets = as_targets(examples.targets, prediction.mean)
        missed = ~self._interval(prediction).covers(targets)
        wrong = missed.flatten(1).any(1) if missed.ndim > 1 else missed
        groups = ood_groups(ood, named_inputs=isinstance(examples.inputs, Mapping))
        outside = [self.score(group).numpy() for group in groups]
        score = np.concatenate([self.score(prediction).numpy(), *outside])
        strangers = np.ones(len(score) - len(wrong), dtype=bool)
        return Judged(score, np.concatenate([wrong.cpu().numpy(), strangers]), len(wrong))

    def _interval(self, prediction: RegressionPrediction) -> Interval:
        mean = prediction.mean
        fits = self.width.ndim == 0 or self.width.shape == mean.shape[1:]
        outputs = Phrase(
            f"{self.width.numel()} widths for outputs of shape {tuple(mean.shape[1:])}"
        )
        require(fits, "width", "a number, or one for each output", outputs)
        half = self.width.to(mean.device) / 2
        return Interval(mean - half, mean + half)


def fit_interval_confidence(
    predict: Predict,
    data: Any,
    ood: Any = None,
    *,
    width: Any,
    level: float = 0.9,
    origin: str | None = None,
) -> IntervalConfidence:
    """A confidence that answers where an interval of the allowed width is likely to be right.

    Nothing is learned: the score comes from the predictive distribution. The data only give the
    scores by which `calibrate` spaces the thresholds that it tests.

    Args:
        predict: inputs -> `RegressionPrediction`, such as `posterior.predict`.
        data: `(inputs, targets)` in domain, or a `Dataset` or `DataLoader`; not those of
            `calibrate`.
        ood: out-of-domain inputs, or several groups of them by name; or None.
        width: the width that is allowed: a number, or one for each output.
        level: an input is answered if the interval of this probability is narrower than `width`.
        origin: digest of the posterior.

    Returns:
        The confidence, bound to `predict`.

    Raises:
        BadInput: the width is missing or not positive, or the level is no probability.

    Examples:
        >>> from sbmc.likelihoods import Gaussian
        >>> from sbmc.prediction.samples import KeptOutputs, Samples
        >>> def predict(x):  # one particle, whose noise grows with |x|
        ...     outputs = torch.cat([x, 2 * x.abs().log()], 1).unsqueeze(0)
        ...     samples = Samples(KeptOutputs(outputs), torch.ones(1), Gaussian(noise="network"))
        ...     variance = x.square()
        ...     return RegressionPrediction(x, variance, 0 * x, variance, particles=samples)
        >>> x = torch.linspace(0.1, 3.0, 30).unsqueeze(1)
        >>> confidence = fit_interval_confidence(predict, (x, x), width=4.0)
        >>> confidence.abstain(torch.tensor([[1.0], [2.0]])).tolist()  # ± 2 is 95 %, and 68 %
        [False, True]
    """
    if width is None:
        raise BadInput(
            "`width` must be given for numbers, but got none. It is the widest interval around a "
            "prediction that is of use to you, in the unit of the targets."
        )
    confidence = IntervalConfidence(width, level, origin=origin, predict=predict)
    score, _, inside = confidence._judge(data, ood)
    confidence._reference = reference_quantiles(inside=score[:inside], outside=score[inside:])
    return confidence
