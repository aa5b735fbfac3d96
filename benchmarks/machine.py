"""The machine's own rates: a large matrix product and a large copy, as fast as torch makes them."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

SIDE = 2048
COPY_BYTES = 256 * 2**20
TRIES = 3


class Machine:
    """Both rates, the better of a few tries each; torch's threads are the caller's affair.

    Args:
        quick: tiny sizes.
    """

    def __init__(self, quick: bool = False) -> None:
        side = 64 if quick else SIDE
        self._left, self._right, self._out = (torch.rand(side, side) for _ in range(3))
        self._source = torch.ones((2**16 if quick else COPY_BYTES) // 4)
        self._copy = torch.empty_like(self._source)

    def rates(self) -> dict[str, float]:
        """Operations and bytes per second; a copy reads and writes."""
        side = len(self._left)
        multiply = _fastest(lambda: torch.mm(self._left, self._right, out=self._out))
        copy = _fastest(lambda: self._copy.copy_(self._source))
        return {
            "flops_per_second": 2 * side**3 / multiply,
            "bytes_per_second": 2 * self._source.numel() * 4 / copy,
        }


def _fastest(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(TRIES):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)
