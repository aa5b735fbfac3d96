"""Langevin steps: their formula, what they leave invariant, and the energy that they miss."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from stationary import PRECISION, FixedNoise, stationary
from targets import AnalyticTarget, island_noise, skewed_log_likelihood
from torch import Tensor

from sbmc.samplers import langevin
from sbmc.samplers.langevin import LangevinState

ALL_DATA = [[(0, 1, 2, 3)]]


class Columns(NamedTuple):
    """What the next step needs, as `stationary` wants it: every field is `(particles, 1)`."""

    position: Tensor
    momentum: Tensor
    gradient: Tensor


def affine_step(size, friction, half_kick=0.5):
    """A step on the Gaussian target of `stationary`; a planted bug may change the half kick."""

    def step(rng, state, evaluate):
        value = torch.zeros(len(state.position), dtype=torch.float64)
        sizes = torch.full((len(value),), size, dtype=torch.float64)
        inner = LangevinState(state.position, state.momentum, value, state.gradient)
        missing = (half_kick - 0.5) * size * (state.gradient - state.position)
        inner = inner._replace(momentum=inner.momentum + missing)
        moved, info = langevin.step(rng, inner, evaluate, step_size=sizes, friction=friction)
        return Columns(moved.position, moved.momentum, moved.gradient), info

    return step


@pytest.mark.parametrize("part", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("friction", [0.3, 1.0, 20.0])
def test_positions_of_a_gaussian_have_the_right_mean_and_variance_at_any_stable_step(
    part, friction
):
    size = part * 2 / math.sqrt(PRECISION)
    moments = stationary(affine_step(size, friction), Columns, 1, ALL_DATA)
    assert moments.mean == pytest.approx(0, abs=1e-10)
    assert moments.variance == pytest.approx(0, abs=1e-10)


def test_a_half_kick_of_the_wrong_length_shows():
    size = 1 / math.sqrt(PRECISION)
    moments = stationary(affine_step(size, 1.0, half_kick=0.6), Columns, 1, ALL_DATA)
    assert abs(moments.variance) > 0.01


def test_a_step_is_its_formula():
    ε, γ, z, p, ξ = 0.3, 1.7, 0.4, -0.2, 0.9
    target = AnalyticTarget(skewed_log_likelihood)
    column = torch.tensor([[z]], dtype=torch.float64)
    state = LangevinState(column, torch.tensor([[p]]).double(), *target(column))

    def force(position):
        return 3 - 2 * math.exp(position) - position

    p1 = p + ε / 2 * force(z)
    p2 = math.exp(-γ * ε) * p1 + math.sqrt(1 - math.exp(-2 * γ * ε)) * ξ
    there = z + ε / 2 * (p1 + p2)
    noise = FixedNoise([torch.tensor([[ξ]])])
    size = torch.tensor([ε], dtype=torch.float64)
    moved, info = langevin.step(noise, state, target, step_size=size, friction=γ)
    assert float(moved.position) == pytest.approx(there, rel=1e-6)
    assert float(moved.momentum) == pytest.approx(p2 + ε / 2 * force(there), rel=1e-6)
    assert float(moved.log_likelihood) == pytest.approx(3 * there - 2 * math.exp(there), rel=1e-6)
    assert [float(each) for each in info[:2]] == pytest.approx([p1, p2], rel=1e-6)


def test_without_friction_the_energy_error_is_of_third_order():
    target = AnalyticTarget(skewed_log_likelihood)
    start = langevin.init(island_noise(50, seed=2), torch.zeros(50, 4).double(), target)

    def error(size):
        sizes = torch.full((50,), size, dtype=torch.float64)
        moved, info = langevin.step(
            island_noise(50, seed=9), start, target, step_size=sizes, friction=0.0
        )
        return float(langevin.energy_error(start, moved, info).square().mean().sqrt())

    assert math.log2(error(0.02) / error(0.01)) == pytest.approx(3, abs=0.1)


def test_momenta_between_the_half_kicks_are_at_temperature_one_with_all_data():
    """At 0.9 of the stable step size; the standard error of the mean square is 0.5 %."""
    precision = 100.0
    target = AnalyticTarget(lambda z: -(precision - 1) * z.square().sum(-1) / 2)
    rng = island_noise(400, seed=4)
    start = rng.normal(40, torch.float64) / math.sqrt(precision)
    state = langevin.init(rng, start, target)
    sizes = torch.full((400,), 0.9 * 2 / math.sqrt(precision), dtype=torch.float64)
    heat = []
    for _ in range(60):
        state, info = langevin.step(rng, state, target, step_size=sizes, friction=1.0)
        heat.append(float(info.after_noise.square().mean()))
    assert sum(heat[20:]) / 40 == pytest.approx(1, abs=0.02)
    # Those after the last half kick are colder, and would have to be corrected: 1 − ε²a/4.
    assert float(state.momentum.square().mean()) == pytest.approx(1 - 0.81, abs=0.03)


def test_the_energy_that_the_noise_brings_in_is_no_error():
    """Where there is no force, the noise is all that changes the energy."""
    target = AnalyticTarget(lambda z: z.square().sum(-1) / 2)  # takes the prior away
    start = langevin.init(island_noise(50, seed=2), torch.ones(50, 4).double(), target)
    sizes = torch.full((50,), 0.7, dtype=torch.float64)
    moved, info = langevin.step(island_noise(50), start, target, step_size=sizes, friction=1.0)
    assert float(langevin.energy_error(start, moved, info).abs().max()) < 1e-12
    assert float((langevin.energy(moved) - langevin.energy(start)).abs().min()) > 1e-3
