import math

import pytest
import torch
from checks import distribution_fits
from targets import (
    AnalyticTarget,
    flat_target,
    island_noise,
    skewed_cdf,
    skewed_log_likelihood,
)

from sbmc import GHMC, SMC, BadInput
from sbmc.samplers import ghmc, hmc_kernel


def skewed_state(particles=8, dim=3):
    target = AnalyticTarget(skewed_log_likelihood)
    start = torch.randn(particles, dim, generator=torch.Generator().manual_seed(3)).double()
    return ghmc.init(start, target, island_noise(particles, seed=9)), target


def options(particles, size, count=1, friction=2.0):
    sizes = torch.full((particles,), size, dtype=torch.float64)
    return {
        "step_size": sizes,
        "leapfrog": torch.full((particles,), count),
        "friction": friction,
    }


class TestStep:
    @pytest.mark.parametrize("seed", range(4))
    def test_follows_the_formula(self, seed):
        target = AnalyticTarget(skewed_log_likelihood)
        z, p, ε, γ, λ = 0.4, -0.7, 1.2, 1.5, 0.6
        state = ghmc.GHMCState(
            torch.tensor([[z]], dtype=torch.float64),
            *target(torch.tensor([[z]], dtype=torch.float64)),
            torch.tensor([[p]], dtype=torch.float64),
        )
        moved, info = ghmc.step(
            island_noise(1, seed=seed), state, target, temperature=λ, **options(1, ε, friction=γ)
        )
        rng = torch.Generator().manual_seed(seed)
        ξ = torch.randn(1, 1, generator=rng, dtype=torch.float64).item()
        u = torch.rand(1, generator=rng, dtype=torch.float64).item()

        def force(x):
            return λ * (3 - 2 * math.exp(x)) - x

        def energy(x, q):
            return -λ * (3 * x - 2 * math.exp(x)) + x**2 / 2 + q**2 / 2

        a = math.exp(-γ * ε)
        p = a * p + math.sqrt(1 - a**2) * ξ
        half = p + ε / 2 * force(z)
        there = z + ε * half
        ahead = half + ε / 2 * force(there)
        expected = min(1, math.exp(energy(z, p) - energy(there, ahead)))
        assert info.acceptance.item() == pytest.approx(expected, rel=1e-9)
        end = (there, ahead) if u < expected else (z, -p)
        assert (moved.position.item(), moved.momentum.item()) == pytest.approx(end, rel=1e-9)

    def test_both_ends_of_the_formula_are_reached(self):
        state, target = skewed_state(200, 1)
        _, info = ghmc.step(island_noise(200), state, target, **options(200, 1.2))
        assert 20 < info.accepted.sum() < 180

    def test_friction_does_not_depend_on_how_time_is_cut(self):
        """Where nothing is at stake, L steps of ε remember as much as one of L·ε."""
        target = flat_target()
        momentum = torch.ones(1, 1, dtype=torch.float64)
        origin = torch.zeros(1, 1, dtype=torch.float64)
        state = ghmc.GHMCState(origin, *target(origin), momentum)

        class Silent:
            def normal(self, dim, dtype):
                return torch.zeros(1, dim, dtype=dtype)

            def uniform(self):
                return torch.zeros(1, dtype=torch.float64)

        # A step so short that the flow itself changes nothing.
        moved, _ = ghmc.step(Silent(), state, target, **options(1, 1e-6, 4, friction=1e5))
        assert moved.momentum.item() == pytest.approx(math.exp(-0.4), rel=1e-5)

    def test_a_momentum_that_is_all_new_is_hmc(self):
        state, target = skewed_state(40)
        ours, told = ghmc.step(island_noise(40), state, target, **options(40, 0.5, 3, friction=1e6))
        theirs, info = hmc_kernel.step(
            island_noise(40),
            hmc_kernel.init(state.position, target),
            target,
            step_size=torch.full((40,), 0.5, dtype=torch.float64),
            leapfrog=torch.full((40,), 3),
        )
        torch.testing.assert_close(told.acceptance, info.acceptance)
        torch.testing.assert_close(ours.position, theirs.position)

    def test_a_non_finite_proposal_turns_round_and_is_counted(self):
        target = AnalyticTarget(lambda z: torch.where(z[:, 0] > 0, torch.nan, -z.square().sum(-1)))
        start = torch.full((20, 1), -0.01, dtype=torch.float64)
        state = ghmc.init(start, target, island_noise(20))
        after, info = ghmc.step(island_noise(20, seed=5), state, target, **options(20, 0.5))
        assert 0 < info.non_finite.sum() < 20
        assert (after.position[info.non_finite] == -0.01).all()
        # They were on their way up, and are now on their way down.
        assert (after.momentum[info.non_finite] < 0).all()
        assert all(torch.isfinite(part).all() for part in after)


def chains(step, size=0.9, friction=0.3, steps=100, particles=2000):
    """Where independent chains have got to from the prior, with rejections all the way."""
    target = AnalyticTarget(skewed_log_likelihood)
    rng = island_noise(particles, seed=4)
    state = ghmc.init(rng.normal(1, torch.float64), target, rng)
    for _ in range(steps):
        state, info = step(rng, state, target, **options(particles, size, friction=friction))
    assert 0.1 < float(info.acceptance.mean()) < 0.9
    return state.position[:, 0]


def without_the_turn(rng, state, target, **settings):
    """A planted bug: a rejected step goes on in the old direction."""
    moved, info = ghmc.step(rng, state, target, **settings)
    rows = info.accepted.unsqueeze(-1)
    return moved._replace(momentum=torch.where(rows, moved.momentum, -moved.momentum)), info


class TestDistribution:
    """Each check raises a false alarm with probability 1e-4, if the seed were drawn anew."""

    def test_skewed_target(self):
        assert distribution_fits(chains(ghmc.step), skewed_cdf())

    def test_a_rejection_without_a_turn_is_caught(self):
        assert not distribution_fits(chains(without_the_turn), skewed_cdf())


class TestSettings:
    def test_the_default_forgets_a_momentum_in_a_quarter_period(self):
        assert math.exp(-GHMC().friction * math.pi / 2) < 0.05

    def test_is_no_move_of_smc(self):
        with pytest.raises(BadInput, match="`move` must be settings of a kernel"):
            SMC(move=GHMC())

    @pytest.mark.parametrize("epochs", [2, 7, 40])
    def test_the_budget_is_spent_to_the_last(self, epochs):
        target = AnalyticTarget(skewed_log_likelihood)
        settings = GHMC(epochs=epochs, leapfrog=3)
        (run,) = settings.run(target, island_noise(5), torch.zeros(5, 2, dtype=torch.float64))
        assert run.epochs == epochs
        assert target.evaluations.gradient == 5 * epochs
