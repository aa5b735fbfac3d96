"""Memory for the work of C code between calls, so that it is not asked for anew at every step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class Scratch:
    """Arrays that are lent to calls; those that run at the same time have one each.

    Examples:
        >>> scratch = Scratch()
        >>> with scratch.lend(3) as first, scratch.lend(5) as second:
        ...     len(first), len(second)
        (3, 5)
        >>> with scratch.lend(2) as again:
        ...     again is first
        True
    """

    def __init__(self) -> None:
        self._free: list[Tensor] = []

    @contextmanager
    def lend(self, numbers: int) -> Iterator[Tensor]:
        """At least so many float32 numbers, whatever they are, for the block."""
        try:
            array = self._free.pop()
        except IndexError:  # all are lent
            array = torch.empty(numbers)
        if len(array) < numbers:
            array = torch.empty(numbers)
        try:
            yield array
        finally:
            self._free.append(array)
