"""What the outputs of a student mean, and that the loss is zero where it says what is taught."""

from __future__ import annotations

import math

import pytest
import torch

from sbmc import BadInput
from sbmc.posterior.distillation.heads import (
    ClassHeads,
    NumberHeads,
    Parts,
    check_columns,
    number_heads,
)

OUTPUTS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_classes_by_the_formula():
    parts = ClassHeads(3)(OUTPUTS)
    probs = torch.softmax(OUTPUTS[:, :3], -1)
    torch.testing.assert_close(parts.mean, probs)
    torch.testing.assert_close(parts.total, torch.special.entr(probs).sum(-1))
    torch.testing.assert_close(parts.epistemic, parts.total * torch.sigmoid(OUTPUTS[:, 3]))
    torch.testing.assert_close(parts.aleatoric + parts.epistemic, parts.total)


def test_probabilities_that_vanish_have_no_entropy():
    parts = ClassHeads(2)(torch.tensor([[1000.0, -1000.0, 0.0]]))
    assert [part.tolist() for part in parts] == [[[1.0, 0.0]], [0.0], [0.0], [0.0]]


def test_a_student_that_says_what_is_taught_has_no_loss():
    heads = ClassHeads(3)
    taught = heads.lessons(heads(OUTPUTS), torch.float64)
    assert heads.loss(OUTPUTS, taught) == pytest.approx(0, abs=1e-6)
    # The two terms of the loss by hand, for a student that is wrong about both.
    wrong = OUTPUTS.flip(0)
    ours, theirs = heads(wrong), heads(OUTPUTS)
    divergence = (theirs.mean * (theirs.mean / ours.mean).log()).sum(-1)
    roots = (ours.epistemic.sqrt() - theirs.epistemic.sqrt()).square()
    assert heads.loss(wrong, taught) == pytest.approx(float((divergence + roots).mean()), rel=1e-4)


@pytest.mark.parametrize(
    ("heads", "columns"),
    [(ClassHeads(3), 4), (NumberHeads(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])), 8)],
)
def test_gradients_of_the_loss(heads, columns):
    free = torch.randn(5, heads.columns, dtype=torch.float64, requires_grad=True)
    taught = torch.rand(5, columns, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda outputs: heads.loss(outputs, taught), free)


def test_numbers_are_in_the_units_of_the_targets():
    heads = NumberHeads(torch.tensor([10.0]), torch.tensor([2.0]))
    parts = heads(torch.tensor([[0.5, math.log(0.25), math.log(3.0)]]))
    assert [round(part.item(), 6) for part in parts] == [11.0, 13.0, 1.0, 12.0]


def test_numbers_that_are_as_taught_have_no_loss():
    outputs = torch.randn(6, 6, dtype=torch.float64)
    heads = number_heads(1e6 + 1e3 * torch.randn(50, 2))
    parts = heads(outputs)
    taught = heads.lessons(parts, torch.float64)
    assert heads.loss(outputs, taught) == pytest.approx(0, abs=1e-9)
    # Near the minimum the loss grows as the divergence of normal distributions does.
    moved = outputs.clone()
    moved[:, :2] += 1e-3
    square = (heads(moved).mean - parts.mean).square() / parts.total
    expected = 0.5 * float(square.sum(-1).mean())
    assert heads.loss(moved, taught) == pytest.approx(expected, rel=1e-6)


def test_variances_of_zero_can_be_taught():
    heads = NumberHeads(torch.tensor([0.0]), torch.tensor([1.0]))
    zero = torch.zeros(3, 1, dtype=torch.float64)
    assert torch.isfinite(heads.lessons(Parts(zero, zero, zero, zero), torch.float32)).all()


def test_constant_means_keep_their_unit():
    assert number_heads(torch.full((4, 2), 7.0)).scale.tolist() == [1.0, 1.0]


def test_the_number_of_outputs_is_said():
    with pytest.raises(BadInput, match=r"4 outputs for each row \(3 logits of the classes, then "):
        check_columns(ClassHeads(3), torch.zeros(2, 3))
    with pytest.raises(BadInput, match=r"End it with nn.Linear\(..., 6\)"):
        check_columns(NumberHeads(torch.zeros(2), torch.ones(2)), torch.zeros(2, 6, 1))
    with pytest.raises(BadInput, match=r"but got \(1, 2\)"):
        check_columns(ClassHeads(3), (1, 2))
    check_columns(ClassHeads(3), torch.zeros(2, 4))
