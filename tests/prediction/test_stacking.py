"""Stacking: the weights are the mean of their posterior, by quadrature where that can be had."""

import numpy as np
import pytest
import torch

from sbmc.checks import BadInput
from sbmc.prediction import stacking
from sbmc.prediction.stacking import stack


def posterior_mean_of_two(log_scores):
    """E[w] for two members by quadrature over w in [0, 1]."""
    scores = log_scores.double().exp().numpy()
    first = (np.arange(20_000) + 0.5) / 20_000
    weights = np.stack([first, 1 - first])
    log_likelihood = np.log(scores @ weights).sum(0)
    density = np.exp(log_likelihood - log_likelihood.max())
    return weights @ density / density.sum()


def posterior_mean_of_three(log_scores):
    """E[w] for three members by quadrature over the triangle."""
    scores = log_scores.double().exp().numpy()
    grid = (np.arange(400) + 0.5) / 400
    a, b = np.meshgrid(grid, grid)
    inside = a + b < 1
    weights = np.stack([a[inside], b[inside], 1 - a[inside] - b[inside]])
    log_likelihood = np.log(scores @ weights).sum(0)
    density = np.exp(log_likelihood - log_likelihood.max())
    return weights @ density / density.sum()


def scores_of(rows, members):
    return torch.randn(rows, members, generator=torch.Generator().manual_seed(rows))


@pytest.mark.parametrize("rows", [1, 7, 60, 1000])
def test_two_weights_are_their_posterior_mean(rows):
    scores = scores_of(rows, 2)
    assert stack(scores).numpy() == pytest.approx(posterior_mean_of_two(scores), abs=0.01)


@pytest.mark.parametrize("rows", [5, 100])
def test_three_weights_are_their_posterior_mean(rows):
    scores = scores_of(rows, 3)
    assert stack(scores).numpy() == pytest.approx(posterior_mean_of_three(scores), abs=0.015)


def test_the_best_member_takes_all_but_the_share_of_the_imagined_rows():
    scores = torch.stack([torch.zeros(20), torch.full((20,), -50.0)], 1)
    assert stack(scores).tolist() == pytest.approx([21 / 22, 1 / 22])


def test_members_that_the_rows_cannot_tell_apart_share_and_one_member_has_all():
    assert stack(torch.zeros(3, 4)).tolist() == pytest.approx([0.25] * 4, abs=0.01)
    # The maximum of the log score would give everything to the first of these.
    nearly_equal = torch.stack([torch.zeros(30), torch.full((30,), -0.001)], 1)
    assert stack(nearly_equal).tolist() == pytest.approx([0.5, 0.5], abs=0.02)
    assert stack(torch.randn(5, 1)).tolist() == [1.0]


def test_equal_scores_have_equal_weights_bit_for_bit():
    scores = scores_of(50, 4)
    assert torch.equal(stack(scores), stack(scores.clone()))


def test_impossible_rows_count_against_a_member_and_hopeless_rows_for_none():
    impossible = torch.tensor([[0.0, -torch.inf]] * 4 + [[-torch.inf, -torch.inf]])
    weights = stack(impossible)
    assert weights.tolist() == pytest.approx([5.5 / 7, 1.5 / 7])
    assert stack(torch.full((2, 2), -torch.inf)).tolist() == [0.5, 0.5]


def test_a_planted_bug_that_forgets_the_weights_is_caught(monkeypatch):
    scores = scores_of(60, 2)
    scores[:, 0] += 1.0
    monkeypatch.setattr(
        stacking,
        "_shares",
        lambda ratios, weights: (ratios / ratios.sum(-1, keepdim=True)).expand(
            len(weights), -1, -1
        ),
    )
    assert stack(scores).numpy() != pytest.approx(posterior_mean_of_two(scores), abs=0.01)


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
