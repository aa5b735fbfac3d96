"""Draws have the distribution that they should, and leave torch's global generator alone."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions

from sbmc.prediction.drawing import draw

DRAWS = 20_000


def filled(value):
    return torch.full((DRAWS,), value, dtype=torch.float64)


CASES = {
    "normal": (distributions.Normal(filled(-1.0), filled(2.0)), stats.norm(-1, 2)),
    "student_t": (
        distributions.StudentT(filled(3.0), filled(1.0), filled(0.5)),
        stats.t(3, 1, 0.5),
    ),
    "poisson": (distributions.Poisson(filled(2.5)), stats.poisson(2.5)),
    "negative_binomial": (
        distributions.NegativeBinomial(filled(3.3), probs=filled(0.6)),
        stats.nbinom(3.3, 0.4),
    ),
    "bernoulli": (distributions.Bernoulli(filled(0.3)), stats.bernoulli(0.3)),
    "categorical": (
        distributions.Categorical(torch.tensor([0.5, 0.2, 0.3]).expand(DRAWS, 3)),
        stats.rv_discrete(values=([0, 1, 2], [0.5, 0.2, 0.3])),
    ),
    "laplace": (distributions.Laplace(filled(0.0), filled(1.0)), stats.laplace()),
}


@pytest.mark.parametrize("name", CASES)
def test_draws_follow_their_distribution(name):
    ours, theirs = CASES[name]
    rng = torch.Generator().manual_seed(0)
    before = torch.random.get_rng_state()
    drawn = draw(ours, rng).double()
    assert torch.equal(torch.random.get_rng_state(), before)
    at = np.unique(theirs.ppf(np.linspace(0.05, 0.95, 10)))
    shares = (drawn.numpy() <= at[:, None]).mean(1)
    expected = theirs.cdf(at)
    # Five standard errors at ten points: a false alarm in fewer than 1 of 170,000.
    assert (np.abs(shares - expected) <= 5 * np.sqrt(expected * (1 - expected) / DRAWS)).all()


def test_the_seed_decides():
    first, again, other = (
        draw(CASES["laplace"][0], torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_outputs_that_belong_together_keep_their_shape():
    normal = distributions.Normal(torch.zeros(4, 3), torch.ones(4, 3))
    drawn = draw(distributions.Independent(normal, 1), torch.Generator().manual_seed(0))
    assert drawn.shape == (4, 3)
