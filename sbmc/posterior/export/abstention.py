"""When a graph abstains: where a named quantity, or the score of a confidence, is too large."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn

from sbmc.checks import BadInput, is_finite, require, require_choice

CONFIDENCE = "confidence"
# What thresholds can be set on, and what each is in words.
OF_CLASSES = {
    "error": "1 - the largest probability",
    "total": "the total entropy in nats",
    "aleatoric": "the aleatoric part of the entropy in nats",
    "epistemic": "the epistemic part of the entropy in nats",
}
OF_NUMBERS = {
    "deviation": "the standard deviation of a target, in its unit",
    "width": "the width of the interval, in the unit of the target",
    "total": "the total variance, in the squared unit of the target",
    "aleatoric": "the aleatoric part of the variance",
    "epistemic": "the epistemic part of the variance",
}


class AbstentionRule(NamedTuple):
    """Abstain where a quantity is at least a threshold.

    Attributes:
        quantity: its name; `"score"` for the score of a confidence.
        threshold: of the quantity; minus infinity for a confidence that answers nothing.
        meaning: the rule in words.
    """

    quantity: str
    threshold: float
    meaning: str


def abstention_rule(
    abstain: Any, confidence: Any, *, classes: bool, interval: bool
) -> AbstentionRule | None:
    """The rule that an argument describes.

    Args:
        abstain: `(quantity, threshold)`, `"confidence"`, or None: the confidence if there is one.
        confidence: `posterior.fitted_confidence`.
        classes: whether classes are predicted, or else numbers.
        interval: whether the graph has an interval.

    Returns:
        The rule; None if there is to be no flag.

    Raises:
        BadInput: it is neither, the quantity is unknown, or there is no confidence.
    """
    if abstain is None and confidence is None:
        return None
    if abstain is None or (isinstance(abstain, str) and abstain == CONFIDENCE):
        if confidence is None:
            raise BadInput(
                "`abstain` must be (quantity, threshold) for a posterior without a fitted "
                "confidence, but got 'confidence'. Call posterior.confidence(data) first."
            )
        return _of_confidence(confidence)
    known = OF_CLASSES if classes else OF_NUMBERS
    rule = f"'confidence', or a pair of a quantity ({', '.join(known)}) and a threshold"
    pair = isinstance(abstain, tuple | list) and len(abstain) == 2
    require(pair, "abstain", rule, abstain)
    quantity, threshold = abstain
    require_choice("abstain", quantity, known, rule)
    require(is_finite(threshold), "abstain", f"{rule} that is a number", threshold)
    fits = interval or quantity != "width"
    require(fits, "abstain", "another quantity where `interval` is None", abstain)
    meaning = f"{known[quantity]} is at least {float(threshold):g}"
    return AbstentionRule(quantity, float(threshold), meaning)


def _of_confidence(confidence: Any) -> AbstentionRule:
    guaranteed = confidence.guaranteed
    if guaranteed is None:
        threshold = confidence.threshold
    else:
        threshold = float("-inf") if guaranteed.threshold is None else guaranteed.threshold
    source = "" if guaranteed is None else f"; {guaranteed}"
    meaning = f"the score of the confidence is at least {threshold:g}{source}"
    return AbstentionRule("score", float(threshold), meaning)


class Abstention(nn.Module):
    """The flag of each example; of several outputs, whether it is raised for any of them.

    Args:
        rule: which quantity, and from where on.
    """

    def __init__(self, rule: AbstentionRule) -> None:
        super().__init__()
        self.rule = rule

    def forward(self, answers: dict[str, Tensor]) -> Tensor:
        """`(examples,)` booleans."""
        flags = self._values(answers) >= self.rule.threshold
        return flags.flatten(1).any(1) if flags.ndim > 1 else flags

    def _values(self, answers: dict[str, Tensor]) -> Tensor:
        if self.rule.quantity == "error":
            return 1 - answers["probabilities"].amax(-1)
        if self.rule.quantity == "deviation":
            return answers["total"].sqrt()
        if self.rule.quantity == "width":
            return answers["upper"] - answers["lower"]
        return answers[self.rule.quantity]
