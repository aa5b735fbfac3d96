"""What every step promises: it is pure, it costs what is stated, it tells what is not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from targets import AnalyticTarget, island_noise, skewed_log_likelihood

from sbmc.samplers import ghmc, hmc_kernel, langevin, mala, microcanonical, pcn, sghmc, sgld, ubu

PARTICLES = 20
THREE = torch.full((PARTICLES,), 3)  # leapfrog steps of each particle


class Kernel(NamedTuple):
    """A step with its settings.

    Attributes:
        init: `(start, target) -> state`.
        step: `(rng, state, target) -> (state, info)`.
        gradient: evaluations with gradient of each particle in a step.
        forward: those without.
        rejects: whether a step that leads to what is not finite is rejected.
    """

    init: Callable[..., Any]
    step: Callable[..., Any]
    gradient: int = 1
    forward: int = 0
    rejects: bool = True


def metropolis(module, init=None, gradient=1, forward=0, **options):
    """A kernel with a step size of its own for each particle."""
    sizes = torch.full((PARTICLES,), 0.5, dtype=torch.float64)
    return Kernel(
        init or module.init,
        lambda rng, state, target: module.step(rng, state, target, step_size=sizes, **options),
        gradient,
        forward,
    )


def stochastic(module, **options):
    """A kernel that rejects nothing; its states begin without an evaluation."""
    return Kernel(
        lambda start, target: module.init(island_noise(len(start)), start),
        lambda rng, state, target: module.step(rng, state, target, step_size=0.1, **options),
        rejects=False,
    )


KERNELS = {
    "hmc": metropolis(hmc_kernel, gradient=3, leapfrog=THREE),
    "mala": metropolis(mala),
    "pcn": metropolis(pcn, gradient=0, forward=1),
    "ghmc": metropolis(
        ghmc,
        lambda start, target: ghmc.init(start, target, island_noise(len(start))),
        gradient=3,
        leapfrog=THREE,
        friction=2.0,
    ),
    "langevin": Kernel(
        lambda start, target: langevin.init(island_noise(len(start)), start, target),
        lambda rng, state, target: langevin.step(
            rng, state, target, step_size=torch.full((rng.particles,), 0.1), friction=1.0
        ),
        rejects=False,
    ),
    "microcanonical": Kernel(
        lambda start, target: microcanonical.init(island_noise(len(start)), start, target),
        lambda rng, state, target: microcanonical.step(
            rng, state, target, step_size=torch.full((rng.particles,), 0.1)
        ),
        rejects=False,
    ),
    "sgld": stochastic(sgld),
    "sghmc": stochastic(sghmc, friction=1.0),
    "ubu": stochastic(ubu, friction=1.0),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def is_pure(kernel):
    """Whether a step leaves the state that it was given."""
    target = AnalyticTarget(skewed_log_likelihood)
    start = torch.randn(PARTICLES, 3, generator=torch.Generator().manual_seed(3)).double()
    state = kernel.init(start, target)
    before = [field.clone() for field in state]
    moved, _ = kernel.step(island_noise(PARTICLES), state, target)
    assert not torch.equal(moved.position, before[0])
    return all(torch.equal(a, b) for a, b in zip(before, state, strict=True))


def costs_what_is_stated(kernel):
    """Whether a step asks the target as often as it says."""
    target = AnalyticTarget(skewed_log_likelihood)
    state = kernel.init(torch.zeros(PARTICLES, 2, dtype=torch.float64), target)
    begun = target.evaluations.gradient, target.evaluations.forward
    kernel.step(island_noise(PARTICLES), state, target)
    spent = target.evaluations.gradient - begun[0], target.evaluations.forward - begun[1]
    return spent == (PARTICLES * kernel.gradient, PARTICLES * kernel.forward)


@every_kernel
def test_is_pure(kernel):
    assert is_pure(kernel)


@every_kernel
def test_costs_what_is_stated(kernel):
    assert costs_what_is_stated(kernel)


@pytest.mark.parametrize("name", [name for name, each in KERNELS.items() if each.rejects])
def test_a_proposal_that_is_not_finite_is_rejected_and_counted(name):
    target = AnalyticTarget(lambda z: torch.where(z[:, 0] > 0, torch.nan, -z[:, 0].square()))
    kernel, start = KERNELS[name], torch.full((PARTICLES, 1), -0.01, dtype=torch.float64)
    state = kernel.init(start, target)
    moved, info = kernel.step(island_noise(PARTICLES, seed=5), state, target)
    assert 0 < info.non_finite.sum() < PARTICLES
    assert not info.accepted[info.non_finite].any()
    assert (moved.position[info.non_finite] == -0.01).all()
    assert all(torch.isfinite(field).all() for field in moved)


@pytest.mark.parametrize("name", [name for name, each in KERNELS.items() if not each.rejects])
def test_what_is_not_finite_is_told(name):
    # Each particle so far from zero that a step does not take it across.
    target = AnalyticTarget(lambda z: torch.where(z[:, 0] > 0, torch.nan, 1.0) * z[:, 0])
    state = KERNELS[name].init(torch.tensor([[-9.0, 0.0], [9.0, 0.0], [-9.0, 0.0]]), target)
    _, info = KERNELS[name].step(island_noise(3), state, target)
    assert info.non_finite.tolist() == [False, True, False]


class TestPlantedBugs:
    def test_a_state_that_is_changed_in_place(self):
        def step(rng, state, target):
            moved, info = KERNELS["mala"].step(rng, state, target)
            state.gradient.add_(1)
            return moved, info

        assert not is_pure(KERNELS["mala"]._replace(step=step))

    def test_an_evaluation_too_many(self):
        def step(rng, state, target):
            target(state.position)
            return KERNELS["mala"].step(rng, state, target)

        assert not costs_what_is_stated(KERNELS["mala"]._replace(step=step))
