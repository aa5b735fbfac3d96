"""Noise of islands, each with its own whatever runs beside it, and the steps that use it."""

from __future__ import annotations

import math
import re

import pytest
import torch
from chain_networks import make_target, needs_compiler
from stationary import FixedNoise
from targets import island_noise

import sbmc
from sbmc import SGHMC, SGLD, UBU, BadInput
from sbmc.model.kernels.native import steps
from sbmc.model.threads import torch_threads
from sbmc.samplers import sghmc, sgld
from sbmc.samplers.noise import PhiloxNoise, kick
from sbmc.target.target import Evaluation

SAMPLERS = [SGLD, SGHMC, UBU]


def philox(particles=3, islands=2, seed=0):
    return PhiloxNoise(island_noise(particles, seed, islands).generators, particles)


class TestPhilox:
    def test_an_island_has_the_same_numbers_alone_and_folded(self):
        both, second = philox(), philox(islands=1, seed=1)
        for dim in (5, 130, 2):
            assert torch.equal(
                both.normal(dim, torch.float32)[3:], second.normal(dim, torch.float32)
            )

    def test_draws_differ_and_can_be_repeated(self):
        rng = philox()
        first, second = (rng.normal(40, torch.float32) for _ in range(2))
        assert not torch.equal(first, second)
        again = philox()
        assert torch.equal(again.normal(40, torch.float32), first)

    def test_goes_on_from_its_state(self):
        rng = philox()
        rng.normal(40, torch.float32)
        state = rng.state
        after = rng.normal(40, torch.float32)
        resumed = PhiloxNoise(rng.generators, 3, state=state)
        assert torch.equal(resumed.normal(40, torch.float32), after)
        assert torch.equal(state[:, 1], torch.ones(2, dtype=torch.int64))

    def test_some_of_the_islands_go_on_alone(self):
        rng, whole = philox(islands=3), philox(islands=3)
        numbers = [whole.normal(7, torch.float32) for _ in range(2)]
        some = rng.select([0, 2])
        assert torch.equal(some.normal(7, torch.float32), numbers[0][[0, 1, 2, 6, 7, 8]])
        assert rng.state[:, 1].tolist() == [1, 0, 1]
        last = some.select([1])
        assert torch.equal(last.normal(7, torch.float32), numbers[1][6:])
        assert torch.equal(rng.select([1]).normal(7, torch.float32), numbers[0][3:6])

    def test_all_else_comes_from_the_generators(self):
        rng, plain = philox(), island_noise(3, islands=2)
        for each in plain.generators:  # the key
            torch.randint(-(2**63), 2**63 - 1, (1,), generator=each)
        rng.normal(9, torch.float32)
        assert torch.equal(rng.permutations(8), plain.permutations(8))
        assert torch.equal(rng.uniform(), plain.uniform())

    def test_double_precision_has_the_same_numbers(self):
        single, double = philox().normal(9, torch.float32), philox().normal(9, torch.float64)
        assert torch.equal(single.double(), double)


class TestSetting:
    @pytest.mark.parametrize("sampler", SAMPLERS)
    def test_torch_is_the_default_and_another_name_is_refused(self, sampler):
        assert sampler().noise is None  # and that is torch: records of before have no such setting
        words = "`noise` must be one of torch, philox, but got 'philix'. Did you mean 'philox'?"
        with pytest.raises(BadInput, match=re.escape(words)):
            sampler(noise="philix")

    @pytest.mark.parametrize("sampler", SAMPLERS)
    def test_fit_depends_on_the_seed_and_not_on_threads_or_folding(self, sampler):
        torch.manual_seed(3)
        inputs = torch.randn(40, 3)
        net = torch.nn.Sequential(torch.nn.Linear(3, 9), torch.nn.ReLU(), torch.nn.Linear(9, 2))
        data = inputs, (inputs[:, 0] > 0).long()

        def positions(noise="philox", islands=2, seed=0):
            found = sbmc.fit(
                net,
                data,
                sampler=sampler(epochs=2, batch_size=7, step_size=1e-3, noise=noise),
                particles=3,
                islands=islands,
                seed=seed,
                progress=False,
            )
            return found.positions

        whole = positions()
        assert torch.equal(positions(islands=1)[0], whole[0])
        with torch_threads(2):
            assert torch.equal(positions(), whole)
        assert not torch.allclose(positions(seed=1), whole, atol=1e-4)
        assert not torch.allclose(positions(noise="torch"), whole, atol=1e-4)


def force(z):
    return Evaluation(z.sum(-1).double(), 3 - 2 * z.exp())


@needs_compiler
class TestFusedSteps:
    """In float32 a step is one pass in C: the formula of the docstring, from injected noise."""

    def test_sghmc(self):
        rng = torch.Generator().manual_seed(1)
        z, p, ξ = (torch.randn(4, 37, generator=rng) for _ in range(3))
        ε, γ, β, λ = 0.3, 1.5, 0.4, 0.6
        numbers = {"step_size": ε, "friction": γ, "gradient_noise": β, "temperature": λ}
        moved, info = sghmc.step(FixedNoise([ξ]), sghmc.SGHMCState(z, p), force, **numbers)
        z, p, ξ = z.double(), p.double(), ξ.double()
        there = z + ε * p
        kicked = (1 - ε * γ) * p + ε * (λ * (3 - 2 * there.exp()) - there)
        kicked += math.sqrt(2 * (γ - β) * ε) * ξ
        assert moved.momentum.dtype == torch.float32
        torch.testing.assert_close(moved.position.double(), there, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(moved.momentum.double(), kicked, rtol=1e-5, atol=1e-5)
        assert not info.non_finite.any()

    def test_sgld(self):
        rng = torch.Generator().manual_seed(2)
        z, ξ = (torch.randn(4, 37, generator=rng) for _ in range(2))
        ε, λ = 0.2, 0.6
        moved, _ = sgld.step(FixedNoise([ξ]), sgld.SGLDState(z), force, step_size=ε, temperature=λ)
        z, ξ = z.double(), ξ.double()
        expected = z + ε / 2 * (λ * (3 - 2 * z.exp()) - z) + math.sqrt(ε) * ξ
        torch.testing.assert_close(moved.position.double(), expected, rtol=1e-5, atol=1e-5)

    def test_with_and_without_c(self, monkeypatch):
        rng = torch.Generator().manual_seed(3)
        x, g, z = (torch.randn(6, 37, generator=rng) for _ in range(3))
        factors = {"keep": 0.9, "force": 0.1, "temperature": 1.2, "scale": 0.5}
        compiled = kick(philox(), x, g, z, **factors)
        monkeypatch.setenv("SBMC_NATIVE", "0")
        assert not steps.available()
        torch.testing.assert_close(kick(philox(), x, g, z, **factors), compiled)

    def test_a_position_that_is_not_finite_is_told(self):
        z = torch.zeros(3, 5)
        for value in (math.nan, math.inf):
            z[1, 2] = value
            state = sghmc.SGHMCState(z, torch.zeros(3, 5))
            noise = FixedNoise([torch.zeros(3, 5)])
            _, info = sghmc.step(noise, state, force, step_size=0.1, friction=1.0)
            assert info.non_finite.tolist() == [False, True, False]

    def test_a_step_costs_what_it_did(self):
        target = make_target("mlp")
        assert target.evaluations.gradient == 0
        start = torch.zeros(3, target.dim)
        settings = SGHMC(epochs=2, batch_size=8, noise="philox")
        settings.run(target, island_noise(3), start)
        assert target.evaluations.gradient == 6
