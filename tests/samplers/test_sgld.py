import math
from functools import partial

import pytest
import torch
from stationary import FixedNoise, order_of, orders, stationary
from targets import AnalyticTarget, skewed_log_likelihood

from sbmc.samplers import sgld
from sbmc.target.target import Evaluation

ALL = [[(0, 1, 2, 3)]]


def moments(size, passes, step=sgld.step):
    return stationary(partial(step, step_size=size), sgld.SGLDState, 1, passes)


def too_much_noise(rng, state, estimate, *, step_size, temperature=1.0):
    """A planted bug: the noise of the other convention, N(0, 2ε)."""
    louder = FixedNoise([math.sqrt(2) * rng.normal(1, torch.float64)])
    return sgld.step(louder, state, estimate, step_size=step_size, temperature=temperature)


class TestStep:
    def test_follows_the_formula(self):
        target = AnalyticTarget(skewed_log_likelihood)
        z, ε, λ, ξ = 0.4, 0.3, 0.6, -1.3
        state = sgld.SGLDState(torch.tensor([[z]], dtype=torch.float64))
        moved, info = sgld.step(
            FixedNoise([torch.tensor([[ξ]], dtype=torch.float64)]),
            state,
            target,
            step_size=ε,
            temperature=λ,
        )
        expected = z + ε / 2 * (λ * (3 - 2 * math.exp(z)) - z) + math.sqrt(ε) * ξ
        assert moved.position.item() == pytest.approx(expected, rel=1e-9)
        assert info.log_likelihood.item() == pytest.approx(3 * z - 2 * math.exp(z))
        assert not info.non_finite.any()


class TestBias:
    """Exact: stationary moments of the real step on a Gaussian target; see `stationary`."""

    @pytest.mark.parametrize("size", [0.01, 0.1, 0.3])
    def test_all_data_give_the_variance_of_the_docstring(self, size):
        found = moments(size, ALL)
        precision = 7.5
        assert found.variance == pytest.approx(1 / (1 - size * precision / 4) - 1, rel=1e-9)
        assert found.mean == pytest.approx(0, abs=1e-9)

    @pytest.mark.parametrize("batch", [1, 2])
    def test_is_of_first_order_with_batches_without_replacement(self, batch):
        assert order_of(lambda e: moments(e, orders(batch)).variance, 0.002) == pytest.approx(
            1, abs=0.1
        )
        assert order_of(lambda e: moments(e, orders(batch)).mean, 0.002) == pytest.approx(
            1, abs=0.1
        )
        assert abs(moments(1e-4, orders(batch)).variance) < 1e-3

    def test_wrong_noise_is_caught(self):
        found = moments(1e-4, orders(1), too_much_noise)
        assert found.variance > 0.9

    def test_a_missing_scale_is_caught(self, monkeypatch):
        """The second planted bug: the data count for a quarter of what they are."""
        import stationary as exact

        whole = exact.estimate

        def unscaled(batch):
            return lambda z: Evaluation(*(part / 4 for part in whole(batch)(z)))

        monkeypatch.setattr(exact, "estimate", unscaled)
        found = moments(1e-4, orders(1))
        assert found.variance > 0.5
        assert abs(found.mean) > 0.01
