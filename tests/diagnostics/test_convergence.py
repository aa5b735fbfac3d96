"""R-hat and nested R-hat against their definitions, by hand and written another way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sbmc import BadInput
from sbmc.diagnostics import nested_rhat, rhat
from sbmc.storage.optional import load_arviz

arviz = load_arviz()
RNG = np.random.default_rng(4)


def normal_scores(values):
    """Blom's normal scores of ranks, as in Vehtari et al. (2021), equation 14."""
    from scipy.stats import norm, rankdata

    ranks = rankdata(values, method="average").reshape(values.shape)
    return norm.ppf((ranks - 3 / 8) / (values.size + 1 / 4))


def plain_rhat(chains):
    draws = chains.shape[1]
    within = np.mean([chain.var(ddof=1) for chain in chains])
    between = draws * chains.mean(1).var(ddof=1)
    return math.sqrt(((draws - 1) / draws * within + between / draws) / within)


def rhat_by_hand(draws):
    half = draws.shape[1] // 2
    split = np.concatenate([draws[:, :half], draws[:, half:]])
    folded = abs(split - np.median(split))
    return max(plain_rhat(normal_scores(split)), plain_rhat(normal_scores(folded)))


@pytest.mark.parametrize("shift", [0.0, 0.5, 4.0])
def test_rhat_of_shifted_chains_is_its_formula(shift):
    draws = np.random.default_rng(1).normal(size=(4, 100)) + shift * np.arange(4)[:, None]
    assert rhat(draws) == pytest.approx(rhat_by_hand(draws), rel=1e-9)
    assert rhat(draws) == pytest.approx(float(arviz.rhat(draws)), rel=1e-9)


def test_rhat_sees_a_drift_inside_chains_and_a_difference_in_spread():
    noise = np.random.default_rng(2).normal(size=(4, 400))
    assert rhat(noise) < 1.01
    assert rhat(noise + np.linspace(0, 3, 400)) > 1.2
    assert rhat(noise * np.array([[1], [1], [1], [4]])) > 1.05


def test_rhat_of_chains_that_do_not_move():
    assert rhat([[1.0] * 8, [2.0] * 8]) == math.inf
    assert math.isnan(rhat([[1.0] * 8, [1.0] * 8]))


def test_rhat_needs_two_chains_and_four_draws():
    with pytest.raises(BadInput, match="`draws` must be of at least 2 chains, but got 1"):
        rhat(np.zeros((1, 10)))
    with pytest.raises(BadInput, match="at least 4 draws of each chain, but got 3"):
        rhat(np.zeros((2, 3)))


def nested_by_definition(draws):
    """Margossian et al. (2024), equations 5 to 8, chain by chain."""
    superchains, chains, count = draws.shape
    means = [float(np.mean(draws[k])) for k in range(superchains)]
    grand = sum(means) / superchains
    between = sum((mean - grand) ** 2 for mean in means) / (superchains - 1)
    within = 0.0
    for k in range(superchains):
        own = [float(np.mean(draws[k, m])) for m in range(chains)]
        if chains > 1:
            within += sum((mean - means[k]) ** 2 for mean in own) / (chains - 1)
        if count > 1:
            squares = [
                sum((x - own[m]) ** 2 for x in draws[k, m]) / (count - 1) for m in range(chains)
            ]
            within += sum(squares) / chains
    within /= superchains
    return math.sqrt((within + between) / within)


def between_all_chains(draws):
    """The planted bug: means of chains compared with one another, superchains forgotten."""
    chains = draws.reshape(-1, draws.shape[2])
    superchain_means = draws.mean((1, 2), keepdims=True)
    within = ((draws.mean(2, keepdims=True) - superchain_means) ** 2).sum(1) / (draws.shape[1] - 1)
    return math.sqrt(1 + chains.mean(1).var(ddof=1) / within.mean())


@pytest.mark.parametrize("shape", [(2, 2, 1), (8, 10, 1), (5, 4, 3), (4, 1, 6), (3, 2, 2)])
def test_nested_rhat_is_its_definition(shape):
    draws = RNG.gamma(2.0, size=shape) + RNG.normal(size=(shape[0], 1, 1))
    assert nested_rhat(draws) == pytest.approx(nested_by_definition(draws), rel=1e-12)


def test_the_planted_bug_is_caught():
    draws = RNG.gamma(2.0, size=(8, 10, 1))
    bug = between_all_chains(draws)
    assert bug != pytest.approx(nested_by_definition(draws), rel=0.05)
    # Independent draws are what it is about: the bug would find them far from agreement.
    assert bug > 1.3
    assert nested_rhat(draws) < 1.15


def test_one_draw_per_chain_by_hand():
    # Means 1 and 5; B = 8; variances inside 2 and 2, W = 2.
    assert nested_rhat([[[0.0], [2.0]], [[4.0], [6.0]]]) == pytest.approx(math.sqrt(1 + 8 / 2))


def test_independent_draws_give_what_is_expected_of_them():
    draws = np.random.default_rng(3).normal(size=(2000, 10, 1))
    # B M is chi-square / 1999: a relative standard error of 0.032; five of them on 1/M.
    assert nested_rhat(draws) ** 2 - 1 == pytest.approx(1 / 10, rel=0.16)


def test_superchains_that_have_not_forgotten_their_start_are_seen():
    start = RNG.normal(size=(8, 1, 1))
    assert nested_rhat(0.9 * start + math.sqrt(1 - 0.9**2) * RNG.normal(size=(8, 10, 1))) > 1.5


def test_equal_weights_change_nothing_and_whole_ones_are_copies():
    draws = RNG.normal(size=(3, 4, 2))
    equal = nested_rhat(draws, weights=np.full((3, 4), 7.0))
    assert equal == pytest.approx(nested_rhat(draws), rel=1e-12)
    # A chain of weight zero may as well not be there.
    weights = np.array([[1.0, 1, 1, 0]] * 3)
    assert nested_rhat(draws, weights) == pytest.approx(nested_rhat(draws[:, :3]), rel=1e-12)


def test_nothing_varies_inside_superchains():
    assert nested_rhat([[[1.0], [1.0]], [[2.0], [2.0]]]) == math.inf
    assert math.isnan(nested_rhat(np.ones((2, 2, 1))))


@pytest.mark.parametrize(
    ("draws", "weights", "words"),
    [
        (np.zeros((1, 4, 1)), None, "nested R-hat needs at least two islands, but got 1."),
        (np.zeros((3, 1, 1)), None, "several chains or several draws in each superchain"),
        (np.zeros((3, 4)), None, r"\(superchains, chains, draws\), but got shape \(3, 4\)"),
        (np.zeros((2, 2, 1)), np.ones((2, 3)), r"`weights` must be of shape \(2, 2\)"),
        (np.zeros((2, 2, 1)), [[1.0, -1.0], [1.0, 1.0]], "`weights` must be finite, not negative"),
        (np.zeros((2, 2, 1)), [[0.0, 0.0], [1.0, 1.0]], "not all zero"),
    ],
)
def test_too_little_to_compare_is_refused(draws, weights, words):
    with pytest.raises(BadInput, match=words):
        nested_rhat(draws, weights)
