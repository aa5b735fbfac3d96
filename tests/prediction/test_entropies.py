"""The entropy of mixtures against adaptive quadrature."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import distributions

from sbmc.prediction.entropies import entropy_split
from sbmc.prediction.predictive import PredictiveMixture

WEIGHTS = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
LOCS = torch.tensor([[0.0, -4.0], [1.0, 0.0], [1.5, 7.0]], dtype=torch.float64)
SCALES = torch.tensor([[1.0, 0.5], [0.7, 1.0], [1.2, 0.6]], dtype=torch.float64)
DEGREES = torch.full_like(LOCS, 4.0)


def by_quadrature(parts):
    def density(x):
        return float(WEIGHTS.numpy() @ np.array([part.pdf(x) for part in parts]))

    points = [part.mean() for part in parts]
    value, _ = integrate.quad(
        lambda x: -density(x) * np.log(density(x) + 1e-300), -60, 60, points=points, limit=800
    )
    return value


@pytest.mark.parametrize("name", ["normal", "student_t"])
def test_against_adaptive_quadrature(name):
    if name == "normal":
        ours = distributions.Normal(LOCS, SCALES)
        theirs = [[stats.norm(LOCS[i, k], SCALES[i, k]) for i in range(3)] for k in range(2)]
    else:
        ours = distributions.StudentT(DEGREES, LOCS, SCALES)
        theirs = [[stats.t(4, LOCS[i, k], SCALES[i, k]) for i in range(3)] for k in range(2)]
    found = entropy_split(PredictiveMixture(ours, WEIGHTS))
    for k in range(2):
        total = by_quadrature(theirs[k])
        aleatoric = sum(w * p.entropy() for w, p in zip(WEIGHTS.tolist(), theirs[k], strict=True))
        # Heavy tails are integrated to ±60 alone here, and by 32 nodes there.
        tolerance = 1e-4 if name == "normal" else 5e-3
        assert found.total[k].item() == pytest.approx(total, abs=tolerance)
        assert found.aleatoric[k].item() == pytest.approx(aleatoric, abs=tolerance)
        assert found.epistemic[k].item() == pytest.approx(total - aleatoric, abs=2 * tolerance)


def test_counts_against_their_sum():
    rates = torch.tensor([[0.5, 9.0], [2.0, 4.0], [6.0, 5.0]], dtype=torch.float64)
    found = entropy_split(PredictiveMixture(distributions.Poisson(rates), WEIGHTS))
    masses = stats.poisson.pmf(np.arange(200)[:, None, None], rates.numpy())
    mixed = np.einsum("i,nik->nk", WEIGHTS.numpy(), masses)
    np.testing.assert_allclose(found.total, stats.entropy(mixed, axis=0), atol=1e-6)
    each = stats.entropy(masses, axis=0)
    np.testing.assert_allclose(found.aleatoric, WEIGHTS.numpy() @ each, atol=1e-6)


def test_particles_that_agree_have_no_epistemic_part():
    same = distributions.Normal(LOCS[:1].expand(3, 2), SCALES[:1].expand(3, 2))
    found = entropy_split(PredictiveMixture(same, WEIGHTS))
    assert found.epistemic.max() < 1e-12
    exact = stats.norm(0, SCALES[0].numpy()).entropy()
    np.testing.assert_allclose(found.total, exact, rtol=1e-12)


def test_without_quantiles_draws_are_used():
    shapes, rates = SCALES + 1, torch.ones_like(SCALES)
    gammas = distributions.Gamma(shapes, rates)
    found = entropy_split(PredictiveMixture(gammas, WEIGHTS))
    exact = WEIGHTS.numpy() @ stats.gamma(shapes.numpy()).entropy()
    # Means over 3 × 256 draws of log densities with a standard deviation below 1.
    np.testing.assert_allclose(found.aleatoric, exact, atol=0.2)
    assert (found.epistemic >= 0).all()


def test_the_unit_moves_the_total_and_not_the_epistemic_part():
    first = entropy_split(PredictiveMixture(distributions.Normal(LOCS, SCALES), WEIGHTS))
    hundredfold = distributions.Normal(100 * LOCS, 100 * SCALES)
    second = entropy_split(PredictiveMixture(hundredfold, WEIGHTS))
    torch.testing.assert_close(second.total - first.total, torch.full((2,), np.log(100)).double())
    torch.testing.assert_close(second.epistemic, first.epistemic)
