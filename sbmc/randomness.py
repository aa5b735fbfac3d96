"""Random streams: one `torch.Generator` per purpose, all spawned from one seed.

Nothing here, nor anywhere in the package, touches torch's or NumPy's global generators.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import torch

from sbmc.checks import require

# The Mersenne twister of a torch generator on the CPU: 624 words, after three of bookkeeping.
_STATE_WORDS = 624
_STATE_START = 24


class Stream(IntEnum):
    """The first step of a path: what the numbers are for.

    Two purposes never share a stream, so the split of the data does not move with the number of
    islands, nor the noise of an island with the way the anchor was trained. A value, once given,
    is never changed, since that would change every result that was made with it.
    """

    ISLANDS = 0
    TRAINING = 1
    OUT_OF_DOMAIN = 2
    SPLIT = 3
    PILOT = 4
    PRIOR_CENTRES = 5
    DROPOUT_MASKS = 6
    SWAG = 7
    LAPLACE = 8
    NETWORK = 9
    HEALTH = 10
    PREDICTIONS = 11
    DISTILLATION = 12
    UPDATES = 13
    RANKING = 14


def generator(seed: int, *path: int) -> torch.Generator:
    """Make the generator at the end of a path that starts at a seed.

    The stream depends on `(seed, *path)` and on nothing else: island 3 has the same noise whether
    4 or 400 islands run, in whatever order, in whatever process. `numpy.random.SeedSequence` mixes
    seed and path into the generator's whole state, so that neighbours have nothing in common.

    Args:
        seed: an integer from 0 to 2**128 - 1.
        path: integers from 0 to 2**32 - 1, usually a `Stream` and an index.

    Returns:
        A fresh generator on the CPU.

    Raises:
        BadInput: if the seed or a step of the path is out of range or no integer.

    Examples:
        >>> noise = torch.randn(2, generator=generator(0, Stream.ISLANDS, 3))
        >>> torch.equal(noise, torch.randn(2, generator=generator(0, Stream.ISLANDS, 3)))
        True
    """
    # The bounds are those within which SeedSequence distinguishes all paths: it cuts larger numbers
    # into words of 32 bits, so that the path (2**32,) would be the path (0, 1).
    require_seed(seed)
    for i, step in enumerate(path):
        rule = "an integer from 0 to 2**32 - 1"
        require(_integer_below(2**32, step), f"path[{i}]", rule, step)
    sequence = np.random.SeedSequence(int(seed), spawn_key=tuple(int(step) for step in path))
    return _from_state(sequence.generate_state(_STATE_WORDS))


def require_seed(seed: object) -> None:
    """Refuse what `generator` cannot start from."""
    require(_integer_below(2**128, seed), "seed", "an integer from 0 to 2**128 - 1", seed)


def require_short_seed(seed: object) -> None:
    """Refuse what scikit-learn cannot start from."""
    require(_integer_below(2**32, seed), "seed", "an integer from 0 to 2**32 - 1", seed)


def _from_state(state_words: np.ndarray) -> torch.Generator:
    # `manual_seed` uses 32 bits of a seed on the CPU: among ten thousand streams, two would then
    # be the same with a probability of one per cent. With the entire state no two are.
    first = int(state_words[0])
    rng = torch.Generator(device="cpu").manual_seed(first)
    state = rng.get_state().numpy()
    twister = state[_STATE_START : _STATE_START + 8 * _STATE_WORDS].view(np.uint64)
    if twister.size != _STATE_WORDS or int(twister[0]) != first:
        raise RuntimeError(f"torch {torch.__version__} stores its generators in an unknown form.")
    twister[:] = state_words
    return rng.set_state(torch.from_numpy(state))


def _integer_below(bound: int, value: object) -> bool:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        return False
    return 0 <= int(value) < bound
