import pytest
import torch
from checks import averages_fit

from sbmc.samplers.smc.resampling import RESAMPLING, systematic

SCHEMES = sorted(RESAMPLING)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_weights(seed: int, count: int) -> torch.Tensor:
    """From nearly even to one that has nearly all, some of them zero."""
    rng = generator(seed)
    power = 10 ** (2 * torch.rand(1, generator=rng).item() - 1)
    logs = power * torch.randn(count, generator=rng, dtype=torch.float64)
    logs[torch.rand(count, generator=rng) < 0.2] = -torch.inf
    logs[0] = logs[0].nan_to_num(neginf=0.0)
    return logs.softmax(0)


def copies(name: str, weights: torch.Tensor, count: int, seed: int) -> torch.Tensor:
    chosen = RESAMPLING[name](generator(seed), weights, count)
    assert chosen.shape == (count,)
    return torch.bincount(chosen, minlength=len(weights))


@pytest.mark.parametrize("count", [1, 10, 33])
def test_systematic_counts_are_within_one(count):
    for seed in range(500):
        weights = random_weights(seed, 10)
        difference = copies("systematic", weights, count, seed) - count * weights
        assert difference.abs().max() < 1 + 1e-9


@pytest.mark.parametrize("count", [1, 10, 33])
def test_stratified_counts_are_within_two(count):
    for seed in range(300):
        weights = random_weights(seed, 10)
        difference = copies("stratified", weights, count, seed) - count * weights
        assert difference.abs().max() < 2 + 1e-9


@pytest.mark.parametrize("count", [1, 10, 33])
def test_residual_counts_are_at_least_the_floor(count):
    for seed in range(300):
        weights = random_weights(seed, 10)
        found = copies("residual", weights, count, seed)
        assert (found >= (count * weights - 1e-9).floor()).all()


def test_residual_keeps_whole_numbers_whole():
    # 10 × 0.3 is 2.9999999999999996.
    weights = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    for seed in range(50):
        assert copies("residual", weights, 10, seed).tolist() == [3, 3, 4]


@pytest.mark.parametrize("name", SCHEMES)
def test_weights_of_zero_are_never_chosen(name):
    # At both ends too, where a point that rounds would fall.
    weights = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0, 0.0], dtype=torch.float64)
    for seed in range(300):
        found = copies(name, weights, 11, seed)
        assert found[weights == 0].sum() == 0


@pytest.mark.parametrize("name", SCHEMES)
def test_a_point_that_rounds_to_one_falls_to_the_last_that_counts(name, monkeypatch):
    weights = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    almost = 1 - 2**-53

    def highest(*size, **options):
        return torch.full(size, almost, dtype=torch.float64)

    monkeypatch.setattr(torch, "rand", highest)
    assert copies(name, weights, 7, 0)[2] == 0


@pytest.mark.parametrize("name", SCHEMES)
def test_one_that_has_all_the_weight_gets_all_the_copies(name):
    weights = torch.zeros(6, dtype=torch.float64)
    weights[4] = 1
    assert copies(name, weights, 9, 0).tolist() == [0, 0, 0, 0, 9, 0]


@pytest.mark.parametrize("name", SCHEMES)
def test_ancestors_are_in_order_and_depend_on_the_generator_alone(name):
    weights = random_weights(3, 10)
    first, again, other = (RESAMPLING[name](generator(seed), weights, 20) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(first, first.sort().values)


@pytest.mark.parametrize("name", ["systematic", "stratified", "residual"])
def test_even_weights_leave_everyone_one_copy(name):
    weights = torch.full((7,), 1 / 7, dtype=torch.float64)
    for seed in range(50):
        assert copies(name, weights, 7, seed).tolist() == [1] * 7


WEIGHTS = torch.tensor([0.05, 0.31, 0.0, 0.02, 0.24, 0.38], dtype=torch.float64)


def unbiased(scheme, count: int = 8, runs: int = 3000) -> bool:
    rng = generator(7)
    found = [torch.bincount(scheme(rng, WEIGHTS, count), minlength=6) for _ in range(runs)]
    return averages_fit(torch.stack(found), count * WEIGHTS)


class TestExpectation:
    """Each check raises a false alarm with probability 1e-4, if the seed were drawn anew."""

    @pytest.mark.parametrize("name", SCHEMES)
    @pytest.mark.parametrize("count", [3, 8])
    def test_expected_copies_are_in_proportion_to_the_weights(self, name, count):
        assert unbiased(RESAMPLING[name], count)

    def test_ignored_weights_are_caught(self):
        assert not unbiased(lambda rng, w, n: systematic(rng, torch.full_like(w, 1 / len(w)), n))

    def test_a_comb_that_is_not_shifted_is_caught(self, monkeypatch):
        monkeypatch.setattr(torch, "rand", lambda *size, **options: torch.full(size, 0.5).double())
        assert not unbiased(systematic)

    def test_a_residual_that_rounds_is_caught(self):
        def rounds(rng, weights, count):
            certain = (weights * count).round().long()
            return torch.repeat_interleave(torch.arange(len(weights)), certain)

        assert not unbiased(rounds)

    def test_noise_is_least_where_it_is_said_to_be(self):
        rng = generator(3)
        spread = {}
        for name, scheme in RESAMPLING.items():
            runs = [torch.bincount(scheme(rng, WEIGHTS, 8), minlength=6) for _ in range(2000)]
            spread[name] = float(torch.stack(runs).double().var(0).sum())
        assert spread["systematic"] < 0.5 * spread["multinomial"]
        assert spread["stratified"] < 0.5 * spread["multinomial"]
        assert spread["residual"] < 0.6 * spread["multinomial"]
