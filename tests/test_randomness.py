"""Random streams depend on their path and on nothing else."""

import itertools

import numpy as np
import pytest
import torch

from sbmc.checks import BadInput
from sbmc.randomness import Stream, generator


def draw(*path):
    return torch.randn(64, generator=generator(*path))


def test_the_same_path_gives_the_same_numbers():
    assert torch.equal(draw(7, Stream.ISLANDS, 3), draw(7, Stream.ISLANDS, 3))


def test_an_island_is_the_same_whatever_else_is_made():
    alone = draw(7, Stream.ISLANDS, 3)
    torch.manual_seed(0)
    others = {p: generator(7, Stream.ISLANDS, p) for p in reversed(range(40))}
    torch.randn(1000, generator=others[2])
    assert torch.equal(torch.randn(64, generator=others[3]), alone)


def test_different_paths_differ():
    paths = [(0,), (1,), (0, 0), (0, 0, 0), (0, 1), (0, 0, 1), (0, 1, 0), (1, 0), (2**127, 0)]
    paths += [(0, stream, 5) for stream in Stream]
    draws = {path: draw(*path) for path in paths}
    for one, other in itertools.combinations(draws, 2):
        assert not torch.isin(draws[one], draws[other]).any(), (one, other)


def test_the_whole_state_is_seeded():
    # `manual_seed` would give the same numbers to any two streams that agree in 32 bits.
    states = [generator(0, Stream.ISLANDS, p).get_state().numpy()[24:5016] for p in range(2)]
    words = [state.view(np.uint64) for state in states]
    assert len(words[0]) == 624
    assert (words[0] != words[1]).mean() > 0.99
    expected = np.random.SeedSequence(0, spawn_key=(0, 1)).generate_state(624)
    assert np.array_equal(words[1], expected)


def test_neighbouring_islands_are_uncorrelated():
    # 200 independent pairs of 4,000 normals: each correlation has a standard deviation of 1/√4000,
    # and the largest of 200 exceeds 4.5 of them with a probability of 200 × 6.8e-6 = 0.14 %.
    draws = torch.stack([torch.randn(4000, generator=generator(1, 0, p)) for p in range(201)])
    correlations = (draws[1:] * draws[:-1]).mean(dim=1)
    assert correlations.abs().max() < 4.5 / 4000**0.5


def test_global_generators_are_left_alone():
    def states():
        # NumPy's global generator is the thing looked at, old-fashioned as it is.
        return torch.get_rng_state(), torch.from_numpy(np.random.get_state()[1].copy())  # noqa: NPY002

    before = states()
    draw(0, Stream.TRAINING, 1)
    assert all(torch.equal(one, other) for one, other in zip(before, states(), strict=True))


def test_a_stored_state_resumes():
    rng = generator(0, Stream.ISLANDS, 0)
    torch.randn(11, generator=rng)
    copy = torch.Generator()
    copy.set_state(rng.get_state())
    assert torch.equal(torch.randn(9, generator=copy), torch.randn(9, generator=rng))


def test_numpy_integers_are_integers():
    assert torch.equal(draw(np.int64(7), np.uint8(1)), draw(7, 1))


@pytest.mark.parametrize("seed", [-1, 0.5, True, "0", None, 2**128])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(BadInput) as refused:
        generator(seed)
    expected = f"`seed` must be an integer from 0 to 2**128 - 1, but got {seed!r}."
    assert str(refused.value) == expected


@pytest.mark.parametrize("step", [-1, 1.0, False, 2**32])
def test_bad_paths_are_refused(step):
    with pytest.raises(BadInput) as refused:
        generator(0, Stream.ISLANDS, step)
    expected = f"`path[1]` must be an integer from 0 to 2**32 - 1, but got {step!r}."
    assert str(refused.value) == expected


def test_streams_keep_their_values():
    # Stored results were made with these; a new order would silently change them all.
    assert [(s.name, s.value) for s in Stream][:4] == [
        ("ISLANDS", 0),
        ("TRAINING", 1),
        ("OUT_OF_DOMAIN", 2),
        ("SPLIT", 3),
    ]
