"""Steps of stochastic-gradient samplers in C, and the stream of normal noise that goes with them.

The stream is Philox4x32-10 with the transformation of Box and Muller; `steps.c` states it. A number
depends on an island's key, the number of the draw, the particle and the index in its vector, and on
nothing else. Where there is no compiler, `normal_by_numpy` gives the same numbers, to rounding.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sbmc.model.kernels.native.build import load
from sbmc.model.kernels.native.library import is_available, library_of
from sbmc.model.kernels.native.plan import NotAChain
from sbmc.model.threads import even_chunks, side_by_side, thread_count

SOURCE = Path(__file__).with_name("steps.c")
FUNCTIONS = ("sbmc_normal", "sbmc_philox", "sbmc_kick")
BLOCKS = 16  # as there
ROUNDS, MULTIPLIERS, WEYL = 10, (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
# Numbers below which a chunk of particles is not worth a thread of its own.
LEAST_NUMBERS = 2**16


class Streams(ctypes.Structure):
    """The structure `islands` in steps.c: whose noise the particles have.

    Args:
        each: particles of every island.
        keys: one for each island, int64, whose bits count.
        draws: how many draws each island has made, int64.
    """

    _fields_ = (("each", ctypes.c_int64), ("key", ctypes.c_void_p), ("draw", ctypes.c_void_p))

    def __init__(self, each: int, keys: Tensor, draws: Tensor) -> None:
        super().__init__(each, keys.data_ptr(), draws.data_ptr())
        self.keys, self.draws = keys, draws  # which the addresses point to

    def __len__(self) -> int:
        return len(self.keys) * int(self.each)


class _Step(ctypes.Structure):
    """The structure `step` in steps.c."""

    _fields_ = tuple((name, ctypes.c_float) for name in ("keep", "force", "temperature", "scale"))


def available() -> bool:
    """Whether there is C code to use."""
    return is_available(_load)


def normal(streams: Streams, dim: int) -> Tensor:
    """Standard normal numbers `(particles, dim)` of all islands' next draw, float32."""
    out = torch.empty(len(streams), dim)
    try:
        library = library_of(_load)
    except NotAChain:
        return torch.from_numpy(normal_by_numpy(streams, dim))

    def fill(rows: slice) -> None:
        part = out[rows]
        library.sbmc_normal(ctypes.byref(streams), rows.start, rows.stop, dim, part.data_ptr())

    list(side_by_side(fill, chunks_of(len(streams), dim)))
    return out


def kick(
    position: Tensor,
    gradient: Tensor,
    centre: Tensor,
    noise: Tensor | Streams,
    *,
    keep: float,
    force: float,
    temperature: float,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """keep·x + force·(temperature·gradient − z) + scale·ξ in one pass over the numbers.

    Args:
        position: x, `(particles, dim)` float32, as are the other tensors.
        gradient: of the log likelihood.
        centre: z.
        noise: ξ, or the streams from which it is drawn on the way.
        keep: the factor of x.
        force: the factor of the force.
        temperature: λ.
        scale: the factor of the noise.

    Returns:
        The result `(particles, dim)`, and which particles have a number that is not finite.

    Raises:
        NotAChain: there is no C code.
    """
    library = library_of(_load)
    tensors = [position, gradient, centre, *([noise] if isinstance(noise, Tensor) else [])]
    tensors = [tensor.contiguous() for tensor in tensors]
    out = torch.empty_like(tensors[0])
    finite = torch.empty(len(out), dtype=torch.bool)
    step, dim = _Step(keep, force, temperature, scale), out.shape[1]
    streams = None if isinstance(noise, Tensor) else ctypes.byref(noise)
    addresses = [tensor.data_ptr() for tensor in tensors]
    ends = out.data_ptr(), finite.data_ptr()

    def move(rows: slice) -> None:
        first, last = rows.start, rows.stop
        begin = 4 * dim * first  # bytes
        arrays = [address + begin for address in addresses] + [0] * (4 - len(addresses))
        written = ends[0] + begin, ends[1] + first
        library.sbmc_kick(ctypes.byref(step), streams, first, last, dim, *arrays, *written)

    list(side_by_side(move, chunks_of(len(out), dim)))
    return out, finite.logical_not_()


def chunks_of(particles: int, dim: int) -> list[slice]:
    """Chunks of particles, one for each thread, or fewer where there are few numbers."""
    return even_chunks(particles, min(thread_count(), particles * dim // LEAST_NUMBERS))


def philox_by_numpy(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Philox4x32-10 of counters `(..., 4)` and keys `(..., 2)`: words `(..., 4)`, uint32.

    Examples:
        >>> words = philox_by_numpy(np.zeros((1, 4), np.uint32), np.zeros((1, 2), np.uint32))
        >>> hex(int(words[0, 0]))
        '0x6627e8d5'
    """
    a, b, c, d = (counter[..., i].astype(np.uint64) for i in range(4))
    first, second = (key[..., i].astype(np.uint64) for i in range(2))
    low, word = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(ROUNDS):
        left, right = a * np.uint64(MULTIPLIERS[0]), c * np.uint64(MULTIPLIERS[1])
        a, b = (right >> word) ^ b ^ first, right & low
        c, d = (left >> word) ^ d ^ second, left & low
        first = (first + np.uint64(WEYL[0])) & low
        second = (second + np.uint64(WEYL[1])) & low
    return np.stack([a, b, c, d], -1).astype(np.uint32)


def normal_by_numpy(streams: Streams, dim: int) -> np.ndarray:
    """The numbers of `normal` by their definition, in float64 and then rounded."""
    each, groups = int(streams.each), -(-dim // (4 * BLOCKS))
    both = streams.keys, streams.draws
    keys, draws = (np.repeat(each_of.numpy().view(np.uint64), each) for each_of in both)
    particle = np.tile(np.arange(each, dtype=np.uint64), len(streams.keys))
    word = np.uint64(32)
    shape = len(keys), groups * BLOCKS
    parts = (draws, draws >> word, particle)
    blocks = np.broadcast_to(np.arange(groups * BLOCKS, dtype=np.uint64), shape)
    counter = np.stack([blocks, *(np.broadcast_to(p[:, None], shape) for p in parts)], -1)
    key = np.stack([keys, keys >> word], -1)[:, None, :]
    low = np.uint64(0xFFFFFFFF)
    words = philox_by_numpy(counter & low, np.broadcast_to(key & low, (*shape, 2)))
    pairs = [_box_muller(words[..., i], words[..., i + 1]) for i in (0, 2)]
    numbers = np.stack([x for pair in pairs for x in pair], -1)  # (particles, blocks, 4)
    numbers = numbers.reshape(len(keys), groups, BLOCKS, 4).swapaxes(-1, -2)
    return np.ascontiguousarray(numbers.reshape(len(keys), -1)[:, :dim], dtype=np.float32)


def _box_muller(length: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # Rounded to float32, as there: near 1 the logarithm depends on it.
    share = (length >> np.uint32(1)).astype(np.float32) + np.float32(0.5)
    radius = np.sqrt(-2 * np.log(share.astype(np.float64) / 2**31))
    turn = (angle << np.uint32(2)).view(np.int32) * (np.pi / 2**33)
    sign = np.where(angle >> np.uint32(31), -1.0, 1.0)
    swap = ((angle >> np.uint32(30)) & np.uint32(1)).astype(bool)
    cosine, sine = sign * np.cos(turn), np.sin(turn)
    return radius * np.where(swap, sine, cosine), radius * np.where(swap, cosine, sine)


@cache
def _load() -> ctypes.CDLL:
    library = load(SOURCE, FUNCTIONS)
    number, address = ctypes.c_int64, ctypes.c_void_p
    library.sbmc_normal.argtypes = [address, *[number] * 3, address]
    library.sbmc_philox.argtypes = [*[ctypes.c_uint64] * 2, ctypes.c_uint32, number, address]
    library.sbmc_kick.argtypes = [*[address] * 2, *[number] * 3, *[address] * 6]
    for name in FUNCTIONS:
        getattr(library, name).restype = None
    return library
