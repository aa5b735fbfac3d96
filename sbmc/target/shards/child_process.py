"""What a process does that must not outlive the one that has started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Make Linux kill this process when its parent dies, even if it is busy.

    Args:
        parent: its process number; if it has died before this call, this process ends here.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if sys.platform != "win32" and os.getppid() != parent:
        os._exit(0)
