"""Stacking: the weights are the mean of their posterior, by quadrature where that can be had."""

import math

import numpy as np
import pytest
import torch

from sbmc.checks import BadInput
from sbmc.prediction import stacking
from sbmc.prediction.stacking import stack


def posterior_mean_of_two(log_scores):
    """E[w] for two members by quadrature over w in [0, 1]."""
    scores = log_scores.double().exp().numpy()
    points = 40_000_000 // max(len(scores), 2_000)
    first = (np.arange(points) + 0.5) / points
    weights = np.stack([first, 1 - first])
    log_likelihood = np.log(scores @ weights).sum(0)
    density = np.exp(log_likelihood - log_likelihood.max())
    return weights @ density / density.sum()


def posterior_mean_of_three(log_scores):
    """E[w] for three members by quadrature over the triangle."""
    scores = log_scores.double().exp().numpy()
    points = 400 if len(scores) < 1_000 else 150
    grid = (np.arange(points) + 0.5) / points
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


def nearly_equal_scores(rows, gains):
    """Members that think most of the rows equally probable, as a mixture's on thousands of rows."""
    rng = torch.Generator().manual_seed(rows)
    scores = 1e-3 * torch.randn(rows, len(gains), generator=rng)
    unsure = rows // 100
    scores[:unsure] = 0.5 * torch.randn(unsure, len(gains), generator=rng) + torch.tensor(gains)
    return scores


@pytest.mark.parametrize("rows", [400, 4_000, 40_000])
def test_two_members_that_most_rows_cannot_tell_apart(rows):
    scores = nearly_equal_scores(rows, [0.0, 0.2])
    expected = posterior_mean_of_two(scores[:, :2])
    assert stack(scores).numpy() == pytest.approx(expected, abs=0.015)


@pytest.mark.parametrize("rows", [400, 4_000])
def test_three_members_that_most_rows_cannot_tell_apart(rows):
    scores = nearly_equal_scores(rows, [0.0, 0.3, 0.5])
    expected = posterior_mean_of_three(scores)
    assert expected.max() > 0.45
    assert stack(scores).numpy() == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("members", [2, 5, 12])
def test_many_rows_that_tell_members_apart(members):
    rows = 20_000
    truth = torch.arange(7.0, members + 7)
    truth /= truth.sum()
    rng = torch.Generator().manual_seed(0)
    chosen = torch.multinomial(truth, rows, replacement=True, generator=rng)
    scores = torch.full((rows, members), -3.0)
    scores[torch.arange(rows), chosen] = 0.0
    # Member k gives a part f_k of the rows probability 1, and the others e⁻³. The most probable
    # weights solve f_k = (w_k + e⁻³ (1 − w_k)) / (1 + (K − 1) e⁻³).
    low, parts = math.exp(-3), torch.bincount(chosen, minlength=members) / rows
    expected = (parts * (1 + (members - 1) * low) - low) / (1 - low)
    assert stack(scores).numpy() == pytest.approx(expected.numpy(), abs=0.01)


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
