"""The stream of normal noise, and the fused step, against their definitions.

Statistical tests have fixed keys: each states how often a right stream would fail it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from chain_networks import needs_compiler
from planting import planted
from scipy import stats

from sbmc.model.kernels.native import steps
from sbmc.model.kernels.native.plan import NotAChain
from sbmc.model.threads import torch_threads

# Random123's known answers: counter, key, words.
PI_COUNTER, PI_KEY = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI_COUNTER, PI_KEY, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]
FALSE_ALARM = 1e-6


def streams(keys=(11, 12), draws=(0, 0), each=3):
    both = (torch.from_numpy(np.array(a, np.uint64).view(np.int64)) for a in (keys, draws))
    return steps.Streams(each, *both)


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_philox_gives_the_known_answers(counter, key, words):
    found = steps.philox_by_numpy(np.array([counter]), np.array([key]))
    assert tuple(found[0]) == words


@needs_compiler
def test_words_in_c_are_those_of_numpy():
    library = steps._load()
    key, draw, particle, count = 0x0123456789ABCDEF, 2**40 + 5, 77, 37
    found = np.empty((count, 4), np.uint32)
    library.sbmc_philox(key, draw, particle, count, found.ctypes.data)
    low = 2**32 - 1
    rest = [draw & low, draw >> 32, particle]
    counter = np.array([[block, *rest] for block in range(count)])
    expected = steps.philox_by_numpy(counter, np.array([[key & low, key >> 32]] * count))
    assert np.array_equal(found, expected)


@needs_compiler
@pytest.mark.parametrize("dim", [1, 63, 64, 65, 1474])
def test_numbers_in_c_are_those_of_the_definition(dim):
    given = streams((2**63 + 9, 5), (7, 2**33))
    ours, theirs = steps.normal(given, dim), steps.normal_by_numpy(given, dim)
    assert ours.shape == (6, dim)
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=3e-6, atol=1e-6)


def test_without_a_compiler_numpy_does_it(monkeypatch):
    given = streams()
    before = steps.normal(given, 70)
    monkeypatch.setenv("SBMC_NATIVE", "0")
    assert not steps.available()
    torch.testing.assert_close(steps.normal(given, 70), before, rtol=3e-6, atol=1e-6)
    with pytest.raises(NotAChain):
        steps.kick(*[before] * 4, keep=1, force=1, temperature=1, scale=1)


@needs_compiler
def test_a_number_depends_on_key_draw_particle_and_index_alone(monkeypatch):
    whole = steps.normal(streams(), 200)
    assert torch.equal(steps.normal(streams(each=5), 200)[:3], whole[:3])
    assert torch.equal(steps.normal(streams((12,), (0,)), 200), whole[3:])
    assert torch.equal(steps.normal(streams(), 100), whole[:, :100])
    monkeypatch.setattr(steps, "LEAST_NUMBERS", 1)
    for threads in (2, 3):
        with torch_threads(threads):
            assert torch.equal(steps.normal(streams(), 200), whole)
    rows = [*whole, *steps.normal(streams(draws=(1, 1)), 200)]
    assert not any(torch.equal(a, b) for i, a in enumerate(rows) for b in rows[:i])


@pytest.fixture(scope="module")
def sample():
    """A million numbers: 50 particles with 200 draws of 100 numbers each."""
    return np.stack(
        [steps.normal(streams((2024,), (draw,), 50), 100).numpy() for draw in range(200)]
    )


def two_sided(deviations):
    return 2 * stats.norm.sf(abs(deviations))


def test_moments(sample):
    """Mean, variance, skewness and kurtosis; a right stream fails with probability 4e-6."""
    count, flat = sample.size, sample.astype(np.float64).ravel()
    # Variances of the sample moments of a standard normal number.
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        off = ((flat**power).mean() - mean) / math.sqrt(variance / count)
        assert two_sided(off) > FALSE_ALARM, power


def test_distribution_and_tails(sample):
    """Kolmogorov-Smirnov on everything, and beyond 3 and 4; fails with probability 5e-6."""
    flat = sample.astype(np.float64).ravel()
    assert stats.kstest(flat, "norm").pvalue > FALSE_ALARM
    for edge in (3.0, 4.0):
        expected = 2 * stats.norm.sf(edge)
        beyond = int((np.abs(flat) > edge).sum())
        assert stats.binomtest(beyond, flat.size, expected).pvalue > FALSE_ALARM
        sizes = np.abs(flat[np.abs(flat) > edge])
        assert stats.kstest(1 - stats.norm.sf(sizes) / stats.norm.sf(edge), "uniform").pvalue > 1e-6


def test_particles_draws_indices_and_keys_are_independent(sample):
    """Correlations of numbers and of squares, one apart; fails with probability 1.6e-5."""
    data = sample.astype(np.float64)
    other = np.stack(
        [steps.normal(streams((2025,), (draw,), 50), 100).numpy() for draw in range(200)]
    ).astype(np.float64)
    shifts = {
        "draws": (data[1:], data[:-1]),
        "particles": (data[:, 1:], data[:, :-1]),
        "indices": (data[..., 1:], data[..., :-1]),
        "pairs of Box and Muller": (data[..., :16], data[..., 16:32]),
        "keys": (data, other),
    }
    for name, (a, b) in shifts.items():
        for left, right in ((a, b), (a**2 - 1, b**2 - 1), (a, b**2 - 1)):
            scale = math.sqrt((left**2).mean() * (right**2).mean() / left.size)
            assert two_sided((left * right).mean() / scale) > FALSE_ALARM, name


@needs_compiler
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("-2.0f * logarithm", "-1.9f * logarithm"),  # too narrow
        ("* 3.6572951e-10f", "* 3.2e-10f"),  # angles that leave gaps
        ("normal_pair(word[2], word[3]", "normal_pair(word[0], word[3]"),  # one radius for both
    ],
)
def test_a_wrong_stream_is_caught(right, wrong, tmp_path, monkeypatch):
    with planted(monkeypatch, tmp_path, steps, right, wrong):
        numbers = np.stack(
            [steps.normal(streams((2024,), (draw,), 50), 100).numpy() for draw in range(50)]
        )
    failed = 0
    for check in (test_moments, test_distribution_and_tails, two_radii):
        try:
            check(numbers)
        except AssertionError:
            failed += 1
    assert failed


def two_radii(sample):
    """The radii of the two pairs of a block have nothing in common."""
    first, second = (sample[..., i : i + 32].reshape(*sample.shape[:2], 2, 16) for i in (0, 32))
    radii = [(x.astype(np.float64) ** 2).sum(-2).ravel() for x in (first, second)]
    assert stats.pearsonr(*radii).pvalue > FALSE_ALARM


@needs_compiler
@pytest.mark.parametrize("shape", [(1, 1), (3, 16), (4, 150)])
def test_a_kick_follows_the_formula(shape):
    rng = torch.Generator().manual_seed(1)
    x, g, z, xi = (torch.randn(*shape, generator=rng) for _ in range(4))
    factors = {"keep": 0.7, "force": 0.3, "temperature": 1.7, "scale": 0.4}
    moved, broken = steps.kick(x, g, z, xi, **factors)
    exact = 0.7 * x.double() + 0.3 * (1.7 * g.double() - z.double()) + 0.4 * xi.double()
    torch.testing.assert_close(moved.double(), exact, rtol=1e-6, atol=1e-6)
    assert not broken.any()


@needs_compiler
def test_a_kick_with_streams_has_the_noise_of_normal(monkeypatch):
    monkeypatch.setattr(steps, "LEAST_NUMBERS", 1)
    rng = torch.Generator().manual_seed(2)
    x, g, z = (torch.randn(6, 131, generator=rng) for _ in range(3))
    factors = {"keep": 0.7, "force": 0.3, "temperature": 1.7, "scale": 0.4}
    given, _ = steps.kick(x, g, z, steps.normal(streams(), 131), **factors)
    for threads in (1, 2):
        with torch_threads(threads):
            drawn, _ = steps.kick(x, g, z, streams(), **factors)
        assert torch.equal(drawn, given)


@needs_compiler
@pytest.mark.parametrize("column", [0, 15, 16, 64, 99])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_kick_tells_what_is_not_finite(column, value):
    tensors = [torch.zeros(3, 100) for _ in range(4)]
    for tensor in tensors:
        tensor[1, column] = value
        _, broken = steps.kick(*tensors, keep=0.7, force=0.3, temperature=1.7, scale=0.4)
        assert broken.tolist() == [False, True, False]
        tensor[1, column] = 0.0
