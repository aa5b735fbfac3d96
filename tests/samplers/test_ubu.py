import math
from functools import partial

import pytest
import torch
from stationary import FixedNoise, order_of, orders, stationary
from targets import AnalyticTarget, skewed_log_likelihood

from sbmc.samplers import ubu

ALL = [[(0, 1, 2, 3)]]
PRECISION = 7.5


def moments(size, passes, step=ubu.step, friction=2.0):
    move = partial(step, step_size=size, friction=friction)
    return stationary(move, ubu.UBUState, 4, passes)


def louder(rng, state, estimate, *, step_size, friction):
    """A planted bug: noise that is wrong by a part that vanishes with the step size."""
    columns = [(1 + step_size) * rng.normal(1, torch.float64) for _ in range(4)]
    return ubu.step(FixedNoise(columns), state, estimate, step_size=step_size, friction=friction)


def half_a_kick(rng, state, estimate, *, step_size, friction):
    """A planted bug: the drifts have their time, the kick has half of it."""
    start = ubu.drift(rng, state, step_size / 2, friction)
    pull = estimate(start.position).gradient - start.position
    kicked = start._replace(momentum=start.momentum + step_size / 2 * pull)
    return ubu.drift(rng, kicked, step_size / 2, friction), None


class TestDrift:
    @pytest.mark.parametrize(("time", "friction"), [(0.2, 3.0), (1e-4, 2.0), (2.0, 0.4)])
    def test_noise_has_the_covariance_of_the_docstring(self, time, friction):
        # Two rows: what one unit of either number does.
        numbers = [torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [1.0]])]
        origin = ubu.UBUState(torch.zeros(2, 1).double(), torch.zeros(2, 1).double())
        moved = ubu.drift(FixedNoise(numbers), origin, time, friction)
        arms = torch.cat(list(moved), 1)
        covariance = arms.T @ arms
        η = math.exp(-friction * time)
        assert covariance[1, 1].item() == pytest.approx(1 - η**2, rel=1e-9)
        assert covariance[0, 1].item() == pytest.approx((1 - η) ** 2 / friction, rel=1e-9)
        x = friction * time
        # For small x the formula itself loses digits.
        expected = (
            (2 * x - 3 + 4 * η - η**2) / friction**2 if x > 0.01 else 2 * x**3 / 3 / friction**2
        )
        assert covariance[0, 0].item() == pytest.approx(expected, rel=1e-3 if x < 0.01 else 1e-9)

    def test_two_halves_are_a_whole(self):
        """The flow is exact: means and covariances of two drifts are those of one twice as long."""

        def law(times):
            columns = [torch.eye(4)[:, k : k + 1] for k in range(2 * len(times))]
            columns = [torch.cat([torch.zeros(3, 1), c]) for c in columns]
            state = ubu.UBUState(
                torch.tensor([[0.0], [1], [0], *[[0]] * 4]).double(),
                torch.tensor([[0.0], [0], [1], *[[0]] * 4]).double(),
            )
            rng = FixedNoise(columns)
            for time in times:
                state = ubu.drift(rng, state, time, 1.7)
            ends = torch.cat(list(state), 1)
            return ends[:3], ends[3:].T @ ends[3:]

        for one, two in zip(law([0.6]), law([0.3, 0.3]), strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-12)

    def test_series_and_formula_meet(self):
        x = ubu.SMALL
        formula, series = 2 * x - 4 * math.tanh(x / 2), x**3 / 6 * (1 - x**2 / 10)
        assert formula == pytest.approx(series, rel=1e-8)


class TestStep:
    def test_follows_the_formula(self):
        target = AnalyticTarget(skewed_log_likelihood)
        z, p, h, γ, λ = 0.4, -0.7, 0.3, 1.5, 0.6
        numbers = [-1.3, 0.2, 0.9, 1.1]
        state = ubu.UBUState(*torch.tensor([[[z]], [[p]]], dtype=torch.float64))
        moved, info = ubu.step(
            FixedNoise([torch.tensor([[n]], dtype=torch.float64) for n in numbers]),
            state,
            target,
            step_size=h,
            friction=γ,
            temperature=λ,
        )
        η = math.exp(-γ * h / 2)
        variance = (γ * h - 3 + 4 * η - η**2) / γ**2
        shared = (1 - η) ** 2 / γ / math.sqrt(1 - η**2)

        def half(z, p, first, second):
            z = z + (1 - η) / γ * p + shared * first + math.sqrt(variance - shared**2) * second
            return z, η * p + math.sqrt(1 - η**2) * first

        z, p = half(z, p, *numbers[:2])
        value = 3 * z - 2 * math.exp(z)
        p = p + h * (λ * (3 - 2 * math.exp(z)) - z)
        z, p = half(z, p, *numbers[2:])
        assert moved.position.item() == pytest.approx(z, rel=1e-8)
        assert moved.momentum.item() == pytest.approx(p, rel=1e-8)
        assert info.log_likelihood.item() == pytest.approx(value)


class TestBias:
    """Exact: stationary moments of the real step on a Gaussian target; see `stationary`."""

    def test_all_data_give_the_variance_of_the_docstring(self):
        found = moments(0.02, ALL)
        assert found.variance == pytest.approx(-(0.02**2) * PRECISION / 6, rel=0.01)
        assert found.mean == pytest.approx(0, abs=1e-9)

    def test_all_data_give_second_order(self):
        for part in ("variance", "momentum"):
            found = order_of(lambda e, part=part: getattr(moments(e, ALL), part), 0.05)
            assert found == pytest.approx(2, abs=0.05)

    @pytest.mark.parametrize("batch", [1, 2])
    def test_batches_there_and_back_leave_the_order_at_two(self, batch):
        passes = orders(batch, paired=True)
        for part in ("mean", "variance"):
            found = order_of(lambda e, part=part: getattr(moments(e, passes), part), 0.005)
            assert found == pytest.approx(2, abs=0.15)

    def test_the_way_back_pays(self):
        """The variance is closer to the target's than with passes in one direction."""
        both, one = moments(0.03, orders(1, paired=True)), moments(0.03, orders(1))
        assert abs(both.variance) < abs(one.variance) / 5

    def test_a_short_batch_makes_it_one(self):
        found = order_of(lambda e: moments(e, orders(3, paired=True)).variance, 0.01)
        assert found == pytest.approx(1, abs=0.1)

    def test_wrong_noise_is_caught_by_the_order(self):
        found = order_of(lambda e: moments(e, ALL, louder).variance, 0.05)
        assert found < 1.5

    def test_a_wrong_kick_is_caught(self):
        assert moments(1e-3, orders(1, paired=True), half_a_kick).variance > 0.9
