"""Memory of a process: what it holds, what it has held at most, and sizes in words."""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

from sbmc.checks import is_whole, require

_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]?)(i?)b\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_bytes(value: Any, name: str = "memory_limit") -> int:
    """Read a size.

    Args:
        value: bytes, or words such as "2GiB" (powers of 1024) and "500 MB" (powers of 1000).
        name: the argument, for the error message.

    Returns:
        Bytes.

    Raises:
        BadInput: it is neither, or not positive.

    Example:
        >>> parse_bytes("2GiB"), parse_bytes("500 MB"), parse_bytes(10**9)
        (2147483648, 500000000, 1000000000)
        >>> parse_bytes("2 apples")
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `memory_limit` must be bytes, or words such as '2GiB' or '500 MB', \
but got '2 apples'.
    """
    rule = "bytes, or words such as '2GiB' or '500 MB'"
    if isinstance(value, str):
        words = value if not value.strip().isdecimal() else f"{value.strip()}B"
        found = _SIZE.fullmatch(words)
        require(found is not None, name, rule, value)
        assert found is not None  # or it was refused
        base = 1024 if found[3] else 1000
        size = math.floor(float(found[1]) * base ** _POWERS[found[2].lower()])
    else:
        require(is_whole(value), name, rule, value)
        size = int(value)
    require(size > 0, name, "positive", value)
    return size


def size_in_words(count: float) -> str:
    """Bytes to read.

    Example:
        >>> size_in_words(512), size_in_words(2_500_000), size_in_words(3e9)
        ('512 B', '2.5 MB', '3.0 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} B"


def resident_bytes() -> int:
    """Memory of this process, now where the system says so, else at its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return peak_bytes()


def peak_bytes(*, workers: bool = False) -> int:
    """The most memory that this process has held so far.

    Args:
        workers: look at processes that it has started, and that have ended, too; the largest
            counts.

    Returns:
        Bytes; 0 where the system does not say.
    """
    try:
        import resource
    except ImportError:  # Windows has none
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    # Linux hands `ru_maxrss` down from the process that started this one, which may have been
    # larger; `VmHWM` starts afresh.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                own = int(line.split()[1]) * 1024
    if not workers:
        return own
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit)


def release_memory() -> None:
    """Give memory that was freed back to the system, where the allocator keeps it (glibc)."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
