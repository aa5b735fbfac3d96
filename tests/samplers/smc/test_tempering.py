"""One temperature: what is weighted, resampled, carried on and added to the evidence."""

import math
from typing import NamedTuple

import pytest
import torch
from targets import island_noise

from sbmc.samplers.smc.resampling import systematic
from sbmc.samplers.smc.tempering import (
    Selection,
    SMCState,
    first_state,
    next_temperatures,
    select_always,
    select_below,
    tempered_step,
)


class Particles(NamedTuple):
    position: torch.Tensor
    log_likelihood: torch.Tensor


LIKELIHOODS = torch.tensor([[0.0, -1.0, -3.0], [2.0, 5.0, -torch.inf]], dtype=torch.float64)
WEIGHTS = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], dtype=torch.float64)
POSITIONS = torch.arange(6, dtype=torch.float64).view(6, 1)


def make_state(weights=WEIGHTS) -> SMCState:
    state = first_state(Particles(POSITIONS, LIKELIHOODS.flatten()), 2)
    return state._replace(
        log_weights=weights.log(),
        temperature=torch.tensor([0.1, 0.4], dtype=torch.float64),
        log_evidence=torch.tensor([-7.0, 3.0], dtype=torch.float64),
    )


def ahead(values, weights, temperature):
    return temperature + 0.5


def keep_all(rng, log_weights):
    ancestors = torch.arange(3).repeat(len(log_weights), 1)
    return Selection(ancestors, log_weights, torch.full((len(log_weights),), 3))


def stay(rng, particles, temperature):
    return particles, "told", 1


def step(state=None, *, increment=ahead, resample=keep_all, move=stay):
    parts = {"increment": increment, "resample": resample, "move": move}
    return tempered_step(island_noise(3, islands=2), state or make_state(), **parts)


def test_the_first_state_is_the_prior():
    state = first_state(Particles(POSITIONS, LIKELIHOODS.flatten()), 2)
    torch.testing.assert_close(state.log_weights.exp(), torch.full((2, 3), 1 / 3).double())
    assert state.temperature.tolist() == state.log_evidence.tolist() == [0.0, 0.0]
    assert state.roots.tolist() == [[0, 1, 2]] * 2
    assert {state.log_weights.dtype, state.temperature.dtype, state.log_evidence.dtype} == {
        torch.float64
    }


def test_weights_and_evidence_follow_the_formula():
    after, info = step()
    tilted = WEIGHTS * (0.5 * LIKELIHOODS).exp()
    total = tilted.sum(1)
    torch.testing.assert_close(after.log_weights.exp(), tilted / total[:, None])
    expected = torch.tensor([-7.0, 3.0], dtype=torch.float64) + total.log()
    torch.testing.assert_close(after.log_evidence, expected)
    torch.testing.assert_close(after.temperature, torch.tensor([0.6, 0.9], dtype=torch.float64))
    torch.testing.assert_close(info.ess, total**2 / tilted.square().sum(1))
    assert info.moves == "told"


def test_each_island_has_its_own_temperature():
    def own(values, weights, temperature):
        # The second island's likelihoods are the ones that reach 5.
        return 1.0 if values.max() > 4 else temperature

    assert next_temperatures(make_state(), own).tolist() == [0.1, 1.0]


def test_the_move_is_given_the_selected_at_the_new_temperature():
    def choose(rng, log_weights):
        chosen = torch.tensor([[2, 2, 0], [1, 1, 1]])
        even = torch.full((2, 3), 1 / 3, dtype=torch.float64).log()
        return Selection(chosen, even, torch.tensor([2, 1]))

    given = []

    def record(rng, particles, temperature):
        given.append((particles.position.flatten().tolist(), temperature.tolist()))
        return particles._replace(position=particles.position + 10), None, 1

    after, info = step(resample=choose, move=record)
    assert given == [([2, 2, 0, 4, 4, 4], [0.6, 0.9])]
    assert after.particles.position.flatten().tolist() == [12, 12, 10, 14, 14, 14]
    assert after.particles.log_likelihood.tolist() == [-3, -3, 0, 5, 5, 5]
    assert after.roots.tolist() == [[2, 2, 0], [1, 1, 1]]
    assert info.distinct.tolist() == [2, 1]
    # Families are counted from the first draws, not from the temperature before.
    again, _ = step(after, resample=choose, move=record)
    assert again.roots.tolist() == [[0, 0, 2], [1, 1, 1]]


def test_a_move_may_multiply_the_population():
    def doubled(rng, particles, temperature):
        return Particles(*(part.repeat_interleave(2, 0) for part in particles)), None, 2

    after, _ = step(move=doubled)
    assert after.log_weights.shape == after.roots.shape == (2, 6)
    torch.testing.assert_close(after.log_weights.exp().sum(1), torch.ones(2).double())
    assert after.roots[0].tolist() == [0, 0, 1, 1, 2, 2]
    single, _ = step()
    halves = single.log_weights.exp().repeat_interleave(2, 1) / 2
    torch.testing.assert_close(after.log_weights.exp(), halves)


def test_is_pure():
    state = make_state()
    before = [part.clone() for part in (*state.particles, *state[1:])]
    step(state, resample=select_always(systematic, 3))
    parts = (*state.particles, *state[1:])
    assert all(torch.equal(a, b) for a, b in zip(before, parts, strict=True))


class TestSelection:
    def test_always_gives_equal_weights_to_as_many_as_are_wanted(self):
        for count in (2, 3, 8):
            chosen = select_always(systematic, count)(island_noise(3, islands=2), WEIGHTS.log())
            assert chosen.ancestors.shape == (2, count)
            even = torch.full((2, count), -math.log(count), dtype=torch.float64)
            assert torch.equal(chosen.log_weights, even)
            assert chosen.distinct.tolist() == [len(set(row)) for row in chosen.ancestors.tolist()]

    def test_below_a_threshold_resamples_only_the_islands_that_need_it(self):
        weights = torch.tensor([[0.9, 0.05, 0.05], [0.3, 0.4, 0.3]], dtype=torch.float64)
        rng = island_noise(3, islands=2)
        untouched = rng.generators[1].get_state()
        chosen = select_below(systematic, 0.5)(rng, weights.log())
        assert chosen.ancestors[0, :2].tolist() == [0, 0]
        assert chosen.log_weights[0].tolist() == [-math.log(3)] * 3
        assert chosen.ancestors[1].tolist() == [0, 1, 2]
        assert torch.equal(chosen.log_weights[1], weights[1].log())
        # One that is left alone draws nothing.
        assert torch.equal(rng.generators[1].get_state(), untouched)

    @pytest.mark.parametrize("threshold", [0.5, 2 / 3])
    def test_at_the_threshold_is_below_it(self, threshold):
        # Two of three, or all but a rounding of that.
        weights = torch.tensor([[0.5, 0.5 - 1e-12, 1e-12]], dtype=torch.float64)
        chosen = select_below(systematic, threshold)(island_noise(3), weights.log())
        resampled = chosen.log_weights[0].tolist() == [-math.log(3)] * 3
        assert resampled == (threshold > 0.6)

    def test_selecting_leaves_the_given_weights_alone(self):
        weights = torch.tensor([[0.9, 0.05, 0.05]], dtype=torch.float64).log()
        before = weights.clone()
        select_below(systematic, 0.9)(island_noise(3), weights)
        assert torch.equal(weights, before)
