"""What was lost, against independent computations of the same figures."""

from __future__ import annotations

import json

import pytest
import torch
from scipy.stats import spearmanr
from torch.distributions import Categorical, Normal, kl_divergence

from sbmc.posterior.distillation.fidelity import Fidelity, measure_fidelity, rank_correlation
from sbmc.posterior.distillation.heads import ClassHeads, NumberHeads
from sbmc.prediction.distilled import distilled_prediction


def classes(seed):
    outputs = torch.randn(20, 4, generator=torch.Generator().manual_seed(seed))
    return distilled_prediction(*ClassHeads(3)(outputs), classes=True)


def numbers(seed):
    outputs = torch.randn(20, 6, generator=torch.Generator().manual_seed(seed))
    heads = NumberHeads(torch.zeros(2), torch.ones(2))
    return distilled_prediction(*heads(outputs), classes=False)


def test_ranks_are_those_of_scipy_ties_included():
    first = torch.randint(5, (30,), generator=torch.Generator().manual_seed(0)).double()
    second = first + torch.randn(30, generator=torch.Generator().manual_seed(1)).double()
    expected = spearmanr(first, second).statistic
    assert rank_correlation(first, second) == pytest.approx(expected, abs=1e-12)
    assert rank_correlation(first, torch.ones(30)) is None


def test_divergence_and_agreement_of_classes():
    teacher, student = classes(0), classes(1)
    found = measure_fidelity(teacher, student, torch.zeros(20, dtype=torch.long))
    expected = kl_divergence(Categorical(teacher.probs), Categorical(student.probs)).mean()
    assert found.divergence == pytest.approx(expected.item(), rel=1e-9)
    assert found.agreement == (teacher.labels == student.labels).double().mean().item()
    assert found.teacher_nll == pytest.approx(-teacher.probs[:, 0].log().mean().item())
    assert found.student_nll == pytest.approx(-student.probs[:, 0].log().mean().item())
    assert found.perturbed_correlation is None


def test_divergence_of_numbers():
    teacher, student = numbers(0), numbers(1)
    found = measure_fidelity(teacher, student, perturbed=(teacher, teacher))
    pairs = [Normal(each.mean, each.total.sqrt()) for each in (teacher, student)]
    expected = kl_divergence(*pairs).sum(-1).mean()
    assert found.divergence == pytest.approx(expected.item(), rel=1e-9)
    assert found.agreement is None
    assert found.perturbed_correlation == pytest.approx(1)


@pytest.mark.parametrize("make", [classes, numbers])
def test_a_student_that_is_its_teacher_has_lost_nothing(make):
    found = measure_fidelity(make(0), make(0))
    assert found.divergence == pytest.approx(0, abs=1e-12)
    assert found.agreement in (1.0, None)
    assert found.epistemic_correlation == pytest.approx(1)


def test_it_survives_json_and_shows_what_it_has():
    found = measure_fidelity(classes(0), classes(1))
    again = Fidelity.from_dict({**json.loads(json.dumps(found.as_dict())), "later": 1})
    assert again == found
    assert "NLL" not in str(found)
    assert str(found).startswith("KL from the teacher on 20 held-out rows ")
