"""The memory of a process, now and at its peak; and sizes of memory as text."""

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
        value: bytes, or a text such as "2GiB" (powers of 1024) and "500 MB" (powers of 1000).
        name: the argument, for the error message.

    Returns:
        Bytes.

    Raises:
        BadInput: it is neither, or it is not positive.

    Examples:
        >>> parse_bytes("2GiB"), parse_bytes("500 MB"), parse_bytes(10**9)
        (2147483648, 500000000, 1000000000)
        >>> parse_bytes("2 apples")
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `memory_limit` must be bytes, or a text such as '2GiB' or '500 MB', \
but got '2 apples'.
    """
    rule = "bytes, or a text such as '2GiB' or '500 MB'"
    if isinstance(value, str):
        text = value if not value.strip().isdecimal() else f"{value.strip()}B"
        match = _SIZE.fullmatch(text)
        require(match is not None, name, rule, value)
        assert match is not None  # or it was refused
        base = 1024 if match[3] else 1000
        require(len(match[1]) < 20, name, rule, value)
        size = math.floor(float(match[1]) * base ** _POWERS[match[2].lower()])
    else:
        require(is_whole(value), name, rule, value)
        size = int(value)
    require(size < 2**63, name, "less than 8 EiB", value)
    require(size > 0, name, "positive", value)
    return size


def format_bytes(count: float) -> str:
    """Format a number of bytes for people to read.

    Examples:
        >>> format_bytes(512), format_bytes(2_500_000), format_bytes(3e9)
        ('512 B', '2.5 MB', '3.0 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} B"


def resident_bytes() -> int:
    """Memory of this process now, or at its peak where the system does not report the former."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return peak_bytes()


def peak_bytes(*, workers: bool = False) -> int:
    """The most memory that this process has held so far.

    Args:
        workers: also consider processes that it has started and that have ended; the largest
            counts.

    Returns:
        Bytes; 0 where the system does not report them.
    """
    try:
        import resource
    except ImportError:  # Windows does not have this module
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    this_process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    # On Linux a process inherits `ru_maxrss` from the process that started it, which may have been
    # larger; `VmHWM` starts from zero.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                this_process = int(line.split()[1]) * 1024
    if not workers:
        return this_process
    return max(this_process, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit)


def release_memory() -> None:
    """Return freed memory to the system, where the allocator would hold on to it (glibc)."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
