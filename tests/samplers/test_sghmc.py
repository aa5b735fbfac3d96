import math
from functools import partial

import pytest
import torch
from stationary import FixedNoise, order_of, orders, stationary
from targets import AnalyticTarget, island_noise, skewed_log_likelihood

from sbmc.samplers import sghmc

ALL = [[(0, 1, 2, 3)]]
PRECISION = 7.5


def moments(size, passes, step=sghmc.step, friction=2.0, **options):
    move = partial(step, step_size=size, friction=friction, **options)
    return stationary(move, sghmc.SGHMCState, 1, passes)


def wrong_noise(rng, state, estimate, *, step_size, **options):
    """A planted bug: the noise is scaled by ε, not by its root."""
    weaker = FixedNoise([math.sqrt(step_size) * rng.normal(1, torch.float64)])
    return sghmc.step(weaker, state, estimate, step_size=step_size, **options)


class TestStep:
    def test_follows_the_formula(self):
        target = AnalyticTarget(skewed_log_likelihood)
        z, p, ε, γ, β, λ, ξ = 0.4, -0.7, 0.3, 1.5, 0.4, 0.6, -1.3
        state = sghmc.SGHMCState(*torch.tensor([[[z]], [[p]]], dtype=torch.float64))
        moved, info = sghmc.step(
            FixedNoise([torch.tensor([[ξ]], dtype=torch.float64)]),
            state,
            target,
            step_size=ε,
            friction=γ,
            gradient_noise=β,
            temperature=λ,
        )
        there = z + ε * p
        force = λ * (3 - 2 * math.exp(there)) - there
        kicked = (1 - ε * γ) * p + ε * force + math.sqrt(2 * (γ - β) * ε) * ξ
        assert moved.position.item() == pytest.approx(there, rel=1e-9)
        assert moved.momentum.item() == pytest.approx(kicked, rel=1e-9)
        assert info.log_likelihood.item() == pytest.approx(3 * there - 2 * math.exp(there))

    def test_begins_with_momenta_of_the_islands_own(self):
        rng = island_noise(3, seed=1, islands=2)
        state = sghmc.init(rng, torch.zeros(6, 2).double())
        again = torch.randn(3, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        assert torch.equal(state.momentum[3:], again)
        assert torch.equal(state.position, torch.zeros(6, 2).double())


class TestBias:
    """Exact: stationary moments of the real step on a Gaussian target; see `stationary`."""

    def test_all_data_give_the_variances_of_the_docstring(self):
        size, friction = 0.01, 2.0
        found = moments(size, ALL, friction=friction)
        assert found.variance == pytest.approx(size**2 * PRECISION / 4, rel=0.02)
        assert found.momentum == pytest.approx(friction * size / 2, rel=0.05)
        assert found.mean == pytest.approx(0, abs=1e-9)

    def test_all_data_give_the_orders_of_the_docstring(self):
        assert order_of(lambda e: moments(e, ALL).variance, 0.02) == pytest.approx(2, abs=0.05)
        assert order_of(lambda e: moments(e, ALL).momentum, 0.02) == pytest.approx(1, abs=0.05)

    @pytest.mark.parametrize("batch", [1, 2])
    def test_batches_of_one_size_leave_the_order_at_two(self, batch):
        mean = order_of(lambda e: moments(e, orders(batch)).mean, 0.01)
        assert mean == pytest.approx(2, abs=0.1)
        assert order_of(lambda e: moments(e, orders(batch)).variance, 0.01) > 1.9

    def test_a_short_batch_makes_it_one(self):
        found = order_of(lambda e: moments(e, orders(3)).variance, 0.01)
        assert found == pytest.approx(1, abs=0.1)

    def test_noise_of_the_gradient_heats_as_the_docstring_says(self):
        """Batches of one with replacement: their variance V is the same in every step."""
        from stationary import CENTRES, CURVATURES, MEAN

        size, friction = 1e-3, 2.0
        pulls = [-4 * a * (MEAN - m) for a, m in zip(CURVATURES, CENTRES, strict=True)]
        mean = sum(pulls) / 4
        noise = sum((pull - mean) ** 2 for pull in pulls) / 4
        # The slopes of the batches differ too, by about 1.
        slopes = [4 * a for a in CURVATURES]
        noise += sum((slope - 6.5) ** 2 for slope in slopes) / 4 / PRECISION
        single = [[(i,)] for i in range(4)]
        heat = size * noise / (2 * friction)
        assert moments(size, single).variance == pytest.approx(heat, rel=0.05)
        # Taken off the noise that is added, it is gone, but for a second order.
        balanced = moments(size, single, gradient_noise=size * noise / 2)
        assert abs(balanced.variance) < 0.05 * heat

    def test_wrong_noise_is_caught(self):
        assert abs(moments(1e-3, orders(1), wrong_noise).variance) > 0.5
