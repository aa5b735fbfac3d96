"""Several steps at one temperature: how many, at which step size, and what they tell."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import pytest
import torch
from targets import AnalyticTarget, island_noise, run_smc, skewed_log_likelihood

from sbmc.samplers import HMC, MALA, PCN, SMC, mala
from sbmc.samplers.smc.mutation import Mutation


class Place(NamedTuple):
    position: torch.Tensor
    log_likelihood: torch.Tensor


class Told(NamedTuple):
    acceptance: torch.Tensor
    non_finite: torch.Tensor


class FakeKernel:
    """Takes the particles of an island to given distances; islands are known by temperature."""

    def __init__(self, distances: dict[float, Sequence[float]]) -> None:
        self.distances = distances
        self.made = dict.fromkeys(distances, 0)
        self.asked: list[tuple[list[float], list[float]]] = []

    def advance(self, rng, state, target, *, step_sizes, temperature):
        self.asked.append((temperature.tolist(), step_sizes))
        places = []
        for heat in temperature.tolist():
            distance = self.distances[heat][self.made[heat]]
            self.made[heat] += 1
            # The mean over the particles is what counts: one goes twice as far, one stays.
            places.append(torch.tensor([[2 * distance, 0.0], [0.0, 0.0]], dtype=torch.float64))
        rates = torch.tensor([0.2, 0.6] * len(places), dtype=torch.float64)
        info = Told(rates, torch.tensor([True, False] * len(places)))
        return Place(torch.cat(places), state.log_likelihood), info, [3] * len(places)


def mutate(distances, *, eta=None, most=8):
    heats = list(distances)
    kernel = FakeKernel(distances)
    count = len(heats)
    start = Place(torch.zeros(2 * count, 2).double(), torch.zeros(2 * count).double())
    move = Mutation(kernel, None, [0.1 * i for i in range(1, count + 1)], [most] * count, eta)
    rng = island_noise(2, islands=count)
    state, info, copies = move(rng, start, torch.tensor(heats, dtype=torch.float64))
    assert copies == 1
    return state, info, kernel


class TestDisplacementRule:
    # Relative changes: 0.5, 0.2, 0.05, 0.0, ...
    SLOWING = (1.0, 1.5, 1.8, 1.89, 1.89, 1.89, 1.89, 1.89)

    @pytest.mark.parametrize(
        ("eta", "expected"), [(0.6, 2), (0.5, 2), (0.4, 3), (0.1, 4), (1e-9, 5)]
    )
    def test_stops_at_the_first_small_relative_change(self, eta, expected):
        _, info, _ = mutate({0.3: self.SLOWING}, eta=eta)
        assert info.mutations == [expected]

    def test_makes_two_steps_at_least(self):
        _, info, _ = mutate({0.3: [1.0] * 8}, eta=100.0)
        assert info.mutations == [2]

    def test_makes_no_more_than_the_maximum(self):
        growing = [float(2**i) for i in range(8)]
        for most in (2, 5, 8):
            _, info, _ = mutate({0.3: growing}, eta=0.5, most=most)
            assert info.mutations == [most]

    def test_a_distance_that_shrinks_is_a_change_too(self):
        _, info, _ = mutate({0.3: [2.0, 1.0, 0.99] + [0.99] * 5}, eta=0.1)
        assert info.mutations == [3]

    def test_particles_that_have_yet_to_leave_are_given_time(self):
        _, info, _ = mutate({0.3: [0.0, 0.0, 0.0, 1.0, 1.01, 1.0, 1.0, 1.0]}, eta=0.1)
        assert info.mutations == [5]

    def test_islands_stop_by_themselves_and_are_then_left_alone(self):
        state, info, kernel = mutate({0.3: self.SLOWING, 0.7: [5.0] * 8}, eta=0.1)
        assert info.mutations == [4, 2]
        heats = [asked[0] for asked in kernel.asked]
        assert heats == [[0.3, 0.7], [0.3, 0.7], [0.3], [0.3]]
        # Twice the mean distance for the first particle of each island.
        assert state.position[:, 0].tolist() == pytest.approx([2 * 1.89, 0, 10, 0])

    def test_without_it_all_steps_are_made(self):
        _, info, _ = mutate({0.3: [1.0] * 8})
        assert info.mutations == [8]


class TestAccounts:
    def test_are_means_and_sums_over_steps(self):
        _, info, _ = mutate({0.3: [1.0] * 8, 0.7: [1.0] * 8}, most=4)
        assert info.acceptance == pytest.approx([0.4, 0.4])
        assert info.evaluations == [12, 12]
        assert info.non_finite == [4, 4]

    def test_step_sizes_are_each_islands_own(self):
        _, _, kernel = mutate({0.3: [1.0] * 8, 0.7: [1.0] * 8}, most=2)
        assert kernel.asked == [([0.3, 0.7], pytest.approx([0.1, 0.2]))] * 2

    def test_the_state_that_was_given_is_left_alone(self):
        target = AnalyticTarget(skewed_log_likelihood)
        state = mala.init(torch.zeros(4, 2, dtype=torch.float64), target)
        before = [part.clone() for part in state]
        Mutation(MALA(), target, [0.3], [3])(island_noise(4), state, torch.ones(1).double())
        assert all(torch.equal(a, b) for a, b in zip(before, state, strict=True))

    def test_numbers_of_steps_may_differ_between_islands(self):
        target = AnalyticTarget(skewed_log_likelihood)
        state = mala.init(torch.zeros(6, 1, dtype=torch.float64), target)
        target.calls.clear()
        move = Mutation(MALA(), target, [0.3, 0.3], [1, 3])
        _, info, _ = move(island_noise(3, islands=2), state, torch.ones(2).double())
        assert info.mutations == [1, 3]
        assert target.calls == [6, 3, 3]


class Spy(MALA):
    """Notes the step size and temperature of every move."""

    seen: ClassVar[list[tuple[float, float]]] = []

    def advance(self, rng, state, target, *, step_sizes, temperature):
        Spy.seen.append((float(temperature[0]), step_sizes[0]))
        return super().advance(rng, state, target, step_sizes=step_sizes, temperature=temperature)


class TestStepSizes:
    def test_are_constant_at_a_temperature_and_adapt_between(self):
        Spy.seen = []
        target = AnalyticTarget(lambda z: 20 * skewed_log_likelihood(z))
        settings = SMC(mutations=3, move=Spy(step_size=0.5, shrink=0.6, grow=1.2))
        (run,) = run_smc(settings, target, 20, dim=2)
        heats = [each["temperature"] for each in run.temperatures]
        sizes = [each["step_size"] for each in run.temperatures]
        expected = [(t, s) for t, s in zip(heats, sizes, strict=True) for _ in range(3)]
        assert Spy.seen == expected
        assert len(set(sizes)) > 2
        size = 0.5
        for each in run.temperatures:
            assert each["step_size"] == pytest.approx(size, rel=1e-12)
            low, high = settings.move.acceptance_band
            rate = each["acceptance"]
            size *= 0.6 if rate < low else 1.2 if rate > high else 1.0
        assert run.step_size == pytest.approx(size, rel=1e-12)

    @pytest.mark.parametrize("move", [HMC(leapfrog=1), MALA(), PCN()])
    def test_a_first_one_is_searched_for_and_paid_for(self, move):
        target = AnalyticTarget(lambda z: 5 * skewed_log_likelihood(z))
        settings = SMC(mutations=2, temperatures=(0.5, 1.0), move=move)
        (run,) = run_smc(settings, target, 50, dim=2)
        found = run.temperatures[0]["step_size"]
        assert found != 0.1
        assert found <= move.largest_step
        spent = run.epochs + run.forward_epochs
        assert 1 + 2 * 2 < spent <= 1 + 2 * 2 + 12
        total = target.evaluations.gradient + target.evaluations.forward
        assert total == 50 * spent
        # Near what the rule wants: it would not move far from here.
        wanted = sum(move.acceptance_band) / 2
        assert run.temperatures[0]["acceptance"] == pytest.approx(wanted, abs=0.25)

    def test_the_walk_never_steps_further_than_one(self):
        settings = SMC(mutations=1, temperatures=(0.1, 0.2, 0.3, 1.0), move=PCN(step_size=1.0))
        (run,) = run_smc(settings, AnalyticTarget(lambda z: 0.1 * z.sum(-1)), 30)
        assert [each["step_size"] for each in run.temperatures] == [1.0] * 4

    def test_given_ones_are_used_as_they_are(self):
        sizes = (0.3, 0.1, 0.7)
        settings = SMC(mutations=2, temperatures=(0.2, 0.5, 1.0), step_sizes=sizes)
        target = AnalyticTarget(skewed_log_likelihood)
        (run,) = run_smc(settings, target, 10)
        assert tuple(each["step_size"] for each in run.temperatures) == sizes
        assert run.step_size == 0.7
        assert run.epochs == 1 + 2 * 3
