"""Particles that do not fit together are sampled one after another, and nothing else changes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.samplers.contract import Sampler
from sbmc.samplers.sg_chains import StochasticGradient

INPUTS = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
DATA = INPUTS, (INPUTS[:, 0] > 0).long()
SHORT = sbmc.SGHMC(epochs=4, batch_size=16, draws=2)
HELD = 10**9


@pytest.fixture(autouse=True)
def known_memory(monkeypatch):
    """The memory of this process must not decide what a test finds."""
    monkeypatch.setattr("sbmc.islands.memory_budget.resident_bytes", lambda: HELD)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4000), nn.ReLU6(), nn.Linear(4000, 2))


def tight(net, sampler=SHORT, **options):
    """A limit in which one particle fits, and ten of them do not."""
    one = sbmc.expect(net, DATA, sampler=sampler, particles=1, **options).bytes
    all_results = 10 * sampler.draws * 24_002 * 4 * 3
    return one + all_results


def fitted(net, limit=None, sampler=SHORT, **options):
    compute = sbmc.Compute(memory_limit=limit, **options.pop("compute", {}))
    return sbmc.fit(net, DATA, sampler=sampler, compute=compute, **{"particles": 10, **options})


def test_particles_are_sampled_apart_where_they_do_not_fit(net):
    limit = tight(net)
    free, apart = fitted(net), fitted(net, limit)
    assert apart.positions.shape == free.positions.shape == (1, 20, 24_002)
    assert apart.cost.expected_bytes <= limit < free.cost.expected_bytes
    assert apart.settings["particles_apart"] is True
    assert "particles_apart" not in free.settings
    assert apart.cost.epochs == free.cost.epochs == 4
    assert apart.cost.total_epochs == free.cost.total_epochs == 40
    assert len(apart.islands) == 1
    assert len(apart.islands[0].displacement) == apart.islands[0].distinct == 10


def test_they_are_the_islands_of_one_particle(net):
    """Particle k of island i has the stream of island i·N + k, draws before particles."""
    apart = fitted(net, tight(net, islands=2), islands=2, particles=10)
    single = fitted(net, particles=1, islands=20, compute={"executor": sbmc.InProcess(fold=1)})
    expected = single.positions.unflatten(0, (2, 10)).transpose(1, 2).flatten(1, 2)
    torch.testing.assert_close(apart.positions, expected, rtol=1e-4, atol=1e-4)
    assert [report.index for report in apart.islands] == [0, 1]


def test_a_limit_in_which_they_fit_changes_nothing(net):
    assert torch.equal(fitted(net, HELD + 2**32).positions, fitted(net).positions)


def test_a_run_that_was_split_goes_on_split(net, tmp_path):
    limit, folder = tight(net, islands=2), {"checkpoint": tmp_path / "run"}
    whole = fitted(net, limit, islands=2)
    fitted(net, limit, compute=dict(folder))
    # Ample by now: the checkpoint decides, not the memory.
    extended = fitted(net, HELD + 2**32, islands=2, compute=dict(folder))
    assert extended.settings["particles_apart"] is True
    torch.testing.assert_close(extended.positions, whole.positions, rtol=1e-4, atol=1e-4)


def test_a_particle_that_fails_fails_its_island(net, monkeypatch):
    run = StochasticGradient.size_at
    monkeypatch.setattr(StochasticGradient, "size_at", lambda *a: 1e30 * run(*a))
    with pytest.raises(RuntimeError, match="1 of 1 islands failed"):
        fitted(net, tight(net))


@pytest.mark.parametrize("start", ["anchor", "members"])
def test_samplers_and_starts_that_bind_particles_together_are_refused(net, start):
    sampler = sbmc.HMC(steps=2, leapfrog=1, step_size=0.1)
    options = {"sampler": sampler} if start == "anchor" else {"start": [net, net]}
    with pytest.raises(BadInput, match=r"fewer `particles` take less"):
        fitted(net, tight(net, **options), **options)


def test_only_samplers_on_mini_batches_say_that_particles_are_independent():
    assert not Sampler.independent_particles
    assert sbmc.SGLD.independent_particles
    assert not sbmc.SMC.independent_particles
    assert not sbmc.HMC.independent_particles
