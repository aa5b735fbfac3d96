"""The thermostat: what it reads, what it decides, and that it sees a few stiff directions."""

from __future__ import annotations

import math

import pytest
import torch
from targets import island_noise

from sbmc.samplers import thermostat
from sbmc.samplers.auto_batches import pass_over_batches
from sbmc.samplers.auto_state import AutoRun, AutoState
from sbmc.samplers.langevin import LangevinInfo, LangevinState
from sbmc.samplers.thermostat import (
    Decision,
    Excess,
    Heat,
    HeatMeter,
    decide,
    error_limit,
    excess_heat,
    factor_for_errors,
    too_fast,
)
from sbmc.target.target import Evaluation


class TestReadings:
    def test_are_their_formulas(self):
        rng = torch.Generator().manual_seed(3)
        z, p, g = (torch.randn(4, 5, generator=rng) for _ in range(3))
        value = torch.randn(4, generator=rng).double()
        meter = HeatMeter(2, 2, [2, 3], z)
        meter.add(LangevinState(z, p, value, g), LangevinInfo(p, p, torch.zeros(4).bool()))
        meter.add(LangevinState(z, 2 * p, value, g), LangevinInfo(p, 2 * p, torch.zeros(4).bool()))
        first, second = meter.read()
        rows = slice(2, 4)
        squares = (p[rows].square() + (2 * p[rows]).square()) / 2
        along = ((p[rows] * g[rows]).sum(1) ** 2 / g[rows].square().sum(1)).mean()
        expected = Heat(
            float(squares.mean()),
            (float(squares[:, :2].mean()), float(squares[:, 2:].mean())),
            float(2.5 * along),
            float((z[rows] * (z[rows] - g[rows])).mean()),
            float((z[rows].square().sum(1) / 2 - value[rows]).mean() / 5),
        )
        assert second.layers == pytest.approx(expected.layers, rel=1e-5)
        for name in ("average", "along", "virial", "energy"):
            assert getattr(second, name) == pytest.approx(getattr(expected, name), rel=1e-5)
        assert first != second

    def test_in_equilibrium_nothing_is_too_hot(self):
        """Standard normal positions and momenta, of a likelihood that is a Gaussian too."""
        rng, precision = torch.Generator().manual_seed(1), 4.0
        meter = HeatMeter(1, 10, [60, 4], torch.zeros(10, 64))
        for _ in range(8):
            z = torch.randn(10, 64, generator=rng) / math.sqrt(precision)
            p = torch.randn(10, 64, generator=rng)
            value = -(precision - 1) / 2 * z.double().square().sum(1)
            state = LangevinState(z, p, value, -(precision - 1) * z)
            meter.add(state, LangevinInfo(p, p, torch.zeros(10).bool()))
        (heat,) = meter.read()
        assert heat.virial == pytest.approx(1, abs=0.1)
        assert heat.average == pytest.approx(1, abs=0.1)
        options = {"particles": 10, "steps": 8, "arrived": 1.0, "time": 8.0}
        assert excess_heat(heat, [60, 4], **options).likely < 0.5

    @pytest.mark.parametrize(
        "hot",
        [{"average": 1.2}, {"layers": (1.0, 13.0)}, {"along": 60.0}],
        ids=["average", "layer", "gradient"],
    )
    def test_each_reading_counts(self, hot):
        calm = Heat(1.0, (1.0, 1.0), 1.0, 1.0, 0.5)
        options = {"particles": 10, "steps": 8, "arrived": 1.0, "time": 8.0}
        assert excess_heat(calm, [9000, 1000], **options).likely < 1
        assert excess_heat(calm._replace(**hot), [9000, 1000], **options).certain > 1

    def test_heat_that_has_not_arrived_yet_is_foreseen(self):
        heat = Heat(1.06, (1.06,), 1.0, 1.0, 0.5)
        options = {"particles": 10, "steps": 8, "time": 8.0}
        assert excess_heat(heat, [10_000], arrived=1.0, **options).likely < 1
        assert excess_heat(heat, [10_000], arrived=0.5, **options).likely > 1

    def test_chance_is_no_heat(self):
        """A mean square of 1.4 says nothing in twelve coordinates, and much in 12,000."""
        heat = Heat(1.4, (1.4,), 1.0, 1.0, 0.5)
        options = {"particles": 4, "steps": 8, "arrived": 1.0, "time": 1.0}
        few, many = (excess_heat(heat, [size], **options) for size in (3, 3000))
        assert few.likely < 1 < many.certain < many.likely


class TestDecisions:
    def test_a_step_size_grows_where_it_is_cold(self):
        assert (
            decide(Excess(0.1, 0.1), 0.5, None, 0.5).factor
            > decide(Excess(0.9, 0.9), 0.5, None, 0.5).factor
            > 1
        )
        assert decide(Excess(0.9, 0.9), 0.5, None, 0.5).healthy

    def test_it_shrinks_where_it_is_hot_and_momenta_are_renewed(self):
        decision = decide(Excess(3.0, 3.0), 0.5, 1.0, 0.5)
        assert decision.factor < 1
        assert decision.renew
        assert not decision.put_back
        assert not decision.healthy
        assert decide(Excess(5.0, 5.0), 0.5, 1.0, 0.5).put_back

    def test_it_waits_while_it_cools_or_while_energy_is_released(self):
        """Else it would run down to nothing: heat stays for a time of 1/(2γ), however short ε."""
        assert decide(Excess(3.0, 3.0), 0.5, 6.0, 0.5) == Decision(1.0, renew=True)
        assert decide(Excess(9.0, 9.0), 0.4, 3.0, 0.5) == Decision(1.0, renew=True, healthy=True)

    @pytest.mark.parametrize("dim", [1, 3, 1000])
    def test_a_particle_in_equilibrium_is_not_too_fast(self, dim):
        """10⁵ of them: the chance that one of them were is below 1e-4."""
        rng = torch.Generator().manual_seed(dim)
        count = 10**5 if dim < 100 else 10**3
        z, p = (torch.randn(count, dim, generator=rng) for _ in range(2))
        value = torch.zeros(count, dtype=torch.float64)
        state = LangevinState(z, p, value, torch.zeros_like(z))
        blown, fast = too_fast(state, torch.zeros(count).bool(), value)
        assert not blown.any()
        assert not fast.any()

    def test_a_fast_particle_has_blown_up_if_it_went_up(self):
        dim = 100
        z = torch.stack([torch.ones(dim), 4 * torch.ones(dim), torch.ones(dim)])
        p = torch.stack([3 * torch.ones(dim), 3 * torch.ones(dim), torch.ones(dim)])
        value = torch.zeros(3, dtype=torch.float64)
        state = LangevinState(z, p, value, torch.zeros_like(z))
        reference = torch.full((3,), dim / 2, dtype=torch.float64)
        blown, fast = too_fast(state, torch.zeros(3).bool(), reference)
        assert blown.tolist() == [False, True, False]
        assert fast.tolist() == [True, False, False]
        blown, _ = too_fast(state, torch.tensor([False, False, True]), reference)
        assert blown.tolist() == [False, True, True]

    def test_energy_errors_of_one_are_left_alone(self):
        assert factor_for_errors(torch.ones(5), growth=2.0) == pytest.approx(1)
        assert factor_for_errors(torch.full((5,), 1e-6), growth=2.0) == 2.0
        assert factor_for_errors(torch.tensor([0.1, math.nan]), growth=2.0) == 0.5

    def test_a_particle_may_miss_more_energy_where_it_has_more(self):
        assert error_limit(3) == 10
        assert error_limit(10_000) == 1000


class StiffDirections:
    """In place of `MiniBatches`: ten directions of 10,000 with a large curvature.

    −ℓ = a w² (sqrt(1 + (x/w)²) − 1) with the width w of one posterior standard deviation: steps
    that are not stable do not blow up, since the force is bounded. They only run hot.
    """

    curvature = 1e4
    stream = None

    def __len__(self):
        return 640

    def __call__(self, z, index):
        x, width = z[:, :10].double(), self.curvature**-0.5
        root = (1 + (x / width) ** 2).sqrt()
        gradient = torch.zeros_like(z)
        gradient[:, :10] = (-self.curvature * x / root).to(z.dtype)
        return Evaluation(-(self.curvature * width**2 * (root - 1)).sum(-1), gradient)


def step_sizes_in_stable_ones(seed=3, passes=20):
    """Step sizes after each pass, in units of the largest stable one, from twice that."""
    stable = 2 / math.sqrt(StiffDirections.curvature)
    rng = island_noise(10, seed=seed)
    start = torch.zeros(10, 10_000)
    state = AutoState.at(start, rng.normal(10_000, start.dtype))
    run, sizes = AutoRun(2 * stable, 10), []
    options = {"batch_size": 64, "blocks": (10_000,), "passes": 100, "half": 50}
    for _ in range(passes):
        pass_over_batches(rng, state, [run], StiffDirections(), **options)
        sizes.append(run.step_size / stable)
    return sizes


class TestTenStiffDirectionsOfTenThousand:
    def test_are_caught_at_twice_the_stable_step(self):
        sizes = step_sizes_in_stable_ones()
        assert min(sizes) < 1
        assert sum(sizes[-10:]) / 10 < 1.2

    def test_are_not_seen_by_a_mean_over_all_coordinates(self, monkeypatch):
        """A planted bug: only the average counts."""
        monkeypatch.setattr(thermostat, "TOLERANCE_ALONG", math.inf)
        monkeypatch.setattr(thermostat, "TOLERANCE_BY_LAYER", math.inf)
        sizes = step_sizes_in_stable_ones()
        assert sum(sizes[-10:]) / 10 > 3
