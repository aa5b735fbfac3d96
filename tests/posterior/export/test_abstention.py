"""Rules of abstention: what they say, and what is refused."""

from types import SimpleNamespace

import pytest
import torch

from sbmc.checks import BadInput
from sbmc.posterior.export.abstention import Abstention, abstention_rule

CLASSES = {
    "probabilities": torch.tensor([[0.9, 0.1], [0.6, 0.4]]),
    "total": torch.tensor([0.3, 0.7]),
    "epistemic": torch.tensor([0.2, 0.1]),
}
NUMBERS = {
    "lower": torch.tensor([[0.0, 0.0], [0.0, 0.0]]),
    "upper": torch.tensor([[1.0, 1.0], [1.0, 5.0]]),
    "total": torch.tensor([[4.0, 1.0], [1.0, 1.0]]),
}


def flags(abstain, answers, confidence=None):
    classes = "probabilities" in answers
    rule = abstention_rule(abstain, confidence, classes=classes, interval=True)
    return Abstention(rule)(answers).tolist()


@pytest.mark.parametrize(
    ("abstain", "answers", "wanted"),
    [
        (("error", 0.25), CLASSES, [False, True]),
        (("epistemic", 0.2), CLASSES, [True, False]),
        (("total", 0.8), CLASSES, [False, False]),
        (("width", 4), NUMBERS, [False, True]),
        (("deviation", 2.0), NUMBERS, [True, False]),
    ],
)
def test_a_quantity_from_its_threshold_on(abstain, answers, wanted):
    assert flags(abstain, answers) == wanted


def test_without_a_rule_there_is_no_flag():
    assert abstention_rule(None, None, classes=True, interval=False) is None


@pytest.mark.parametrize(
    ("guaranteed", "wanted"),
    [
        (None, [False, True]),
        (SimpleNamespace(threshold=0.1), [True, True]),
        (SimpleNamespace(threshold=None), [True, True]),
    ],
)
def test_a_confidence_decides_by_its_threshold_or_its_guarantee(guaranteed, wanted):
    confidence = SimpleNamespace(threshold=0.5, guaranteed=guaranteed)
    answers = {"probabilities": None, "score": torch.tensor([0.2, 0.5])}
    assert flags(None, answers, confidence) == wanted
    assert flags("confidence", answers, confidence) == wanted


@pytest.mark.parametrize(
    ("abstain", "classes", "words"),
    [
        (("epistemc", 0.2), True, "Did you mean 'epistemic'"),
        (("width", 0.2), True, "error, total, aleatoric, epistemic"),
        (("error", 0.2), False, "deviation, width"),
        (("total", float("nan")), True, "that is a number, but got nan"),
        (0.3, True, "a pair of a quantity"),
        ("confidence", True, "posterior.confidence"),
        (("width", 0.2), False, "where `interval` is None"),
    ],
)
def test_what_is_refused(abstain, classes, words):
    with pytest.raises(BadInput, match="`abstain` must be") as caught:
        abstention_rule(abstain, None, classes=classes, interval=False)
    assert words in str(caught.value)
