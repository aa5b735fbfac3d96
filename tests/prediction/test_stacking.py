"""Stacking finds the best mixture of members on unseen rows, and shrinks it."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from sbmc.checks import BadInput
from sbmc.prediction import stacking
from sbmc.prediction.stacking import stack


def unshrunk(weights, rows):
    members = len(weights)
    share = members / (rows + members)
    return (weights - share / members) / (1 - share)


def optimum(log_scores):
    """The same maximum by another way: quasi-Newton steps on unconstrained weights."""
    scores = log_scores.double().exp().numpy()

    def negative(free):
        weights = np.exp(free - free.max())
        return -np.log(scores @ (weights / weights.sum())).mean()

    free = minimize(negative, np.zeros(scores.shape[1]), tol=1e-12).x
    weights = np.exp(free - free.max())
    return weights / weights.sum()


@pytest.mark.parametrize(("rows", "members"), [(7, 2), (200, 4), (1000, 3)])
def test_the_weights_are_the_optimum_of_another_solver(rows, members):
    scores = torch.randn(rows, members, generator=torch.Generator().manual_seed(rows))
    found = unshrunk(stack(scores), rows)
    assert found.numpy() == pytest.approx(optimum(scores), abs=2e-3)


def test_the_optimum_satisfies_the_conditions_of_karush_kuhn_and_tucker():
    scores = torch.randn(300, 5, generator=torch.Generator().manual_seed(1)).double()
    scores[:, 4] -= 3  # a member that deserves nothing
    weights = unshrunk(stack(scores), 300)
    gains = (scores.exp() / (scores.exp() @ weights).unsqueeze(1)).mean(0)
    assert float(gains.max()) <= 1 + 1e-5
    used = weights > 1e-3
    assert gains[used].tolist() == pytest.approx([1.0] * int(used.sum()), abs=1e-3)
    assert float(weights[4]) < 1e-3


def test_the_best_member_takes_all_but_the_share_of_the_imagined_rows():
    scores = torch.stack([torch.zeros(20), torch.full((20,), -50.0)], 1)
    assert stack(scores).tolist() == pytest.approx([21 / 22, 1 / 22])


def test_equal_members_share_equally_and_one_member_has_all():
    assert stack(torch.zeros(3, 4)).tolist() == pytest.approx([0.25] * 4)
    assert stack(torch.randn(5, 1)).tolist() == [1.0]


def test_impossible_rows_count_against_a_member_and_hopeless_rows_for_none():
    impossible = torch.tensor([[0.0, -torch.inf]] * 4 + [[-torch.inf, -torch.inf]])
    weights = stack(impossible)
    assert bool(torch.isfinite(weights).all())
    assert float(weights[0]) > 0.8
    assert stack(torch.full((2, 2), -torch.inf)).tolist() == [0.5, 0.5]


def test_a_planted_bug_that_forgets_to_divide_by_the_mixture_is_caught(monkeypatch):
    scores = torch.randn(200, 3, generator=torch.Generator().manual_seed(2))
    monkeypatch.setattr(stacking, "_maximise", lambda ratios, weights: ratios.mean(0) / 3)
    found = unshrunk(stack(scores), 200)
    assert found.numpy() != pytest.approx(optimum(scores), abs=2e-3)


@pytest.mark.parametrize(
    ("scores", "rule"),
    [
        (torch.zeros(3), "(rows, members)"),
        (torch.zeros(0, 2), "non-empty"),
        (torch.tensor([[0.0, torch.nan]]), "below plus infinity"),
        (torch.tensor([[0.0, torch.inf]]), "below plus infinity"),
    ],
)
def test_refusals(scores, rule):
    with pytest.raises(BadInput, match="`log_scores` must be") as refusal:
        stack(scores)
    assert rule in str(refusal.value)
