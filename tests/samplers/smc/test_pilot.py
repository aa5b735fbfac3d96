"""A pilot run learns what adapts; what follows adapts no more."""

import pytest
import torch
from targets import AnalyticTarget, island_noise, prior_draws, run_smc, skewed_log_likelihood

from sbmc.samplers import HMC, MALA, PCN, SMC
from sbmc.samplers.smc.pilot import learn


def steep() -> AnalyticTarget:
    return AnalyticTarget(lambda z: 10 * skewed_log_likelihood(z))


def pilot(settings: SMC, particles: int = 12, target: AnalyticTarget | None = None):
    rng = island_noise(particles, seed=99)
    return learn(settings, target or steep(), rng, prior_draws(rng, settings, 2))


@pytest.mark.parametrize(
    "settings",
    [
        SMC(mutations=3, pilot=True),
        SMC(mutations=8, eta=0.3, pilot=True),
        SMC(mutations=3, waste_free=True, pilot=True),
        SMC(mutations=3, move=PCN(), resample_below=0.5, pilot=True),
        SMC(mutations=3, move=MALA(), ess=0.8, resampling="residual", pilot=True),
        SMC(mutations=2, move=HMC(), pilot=True),
    ],
)
def test_freezes_what_the_pilot_found(settings):
    frozen, run = pilot(settings)
    assert settings.frozen
    assert frozen.frozen
    assert not frozen.pilot
    assert frozen.eta is None
    assert frozen.temperatures == tuple(each["temperature"] for each in run.temperatures)
    assert frozen.step_sizes == tuple(each["step_size"] for each in run.temperatures)
    assert len(set(frozen.step_sizes)) > 1
    for name in ("move", "ess", "resampling", "resample_below", "waste_free"):
        assert getattr(frozen, name) == getattr(settings, name)
    if not settings.waste_free:
        assert frozen.mutations == tuple(each["mutations"] for each in run.temperatures)
    # Whatever the noise, islands then do the same things at the same temperatures.
    for island in run_smc(frozen, steep(), 12, islands=3, dim=2):
        assert island.outcome == "completed"
        for name in ("temperature", "step_size", "mutations"):
            ours = [each[name] for each in island.temperatures]
            assert ours == [each[name] for each in run.temperatures]


def test_numbers_of_moves_that_adapted_are_frozen_one_by_one():
    frozen, _ = pilot(SMC(mutations=20, eta=0.2, pilot=True))
    assert len(set(frozen.mutations)) > 1
    assert all(2 <= number <= 20 for number in frozen.mutations)
    assert frozen.mutations_at(1) == frozen.mutations[1]


def test_the_frozen_run_searches_for_nothing():
    frozen, run = pilot(SMC(mutations=3, pilot=True))
    target = steep()
    (island,) = run_smc(frozen, target, 12, dim=2)
    assert island.epochs == 1 + 3 * len(frozen.temperatures)
    assert target.evaluations.gradient == 12 * island.epochs
    assert run.epochs > island.epochs


def test_a_pilot_that_does_not_arrive_says_why():
    target = AnalyticTarget(lambda z: -1e90 * z.square().sum(-1))
    words = r"the pilot run of SMC ended as stuck: no temperature above 0 keeps the effective"
    with pytest.raises(RuntimeError, match=words):
        pilot(SMC(mutations=2, pilot=True), target=target)


def test_the_particles_of_the_islands_are_not_the_pilots():
    frozen, run = pilot(SMC(mutations=3, pilot=True))
    (island,) = run_smc(frozen, steep(), 12, seed=5, dim=2)
    assert not torch.equal(island.draws[0], run.draws[0])
