"""Sets how threads inside an operation of torch wait for each other: sleeping or spinning.

OpenMP's threads spin by default. That saves microseconds if every thread has a core to itself. If
not, a spinning thread keeps the thread that it waits for from running, and a computation takes many
times as long. OpenMP reads the policy once, when torch is imported, so this file must not import
torch.
"""

from __future__ import annotations

import os
import sys

# If one of these is set, the user has made a choice: for OpenMP, or its GNU or Intel version.
CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def let_threads_sleep() -> bool:
    """Ask OpenMP to let threads sleep while they wait, unless the user has made a choice.

    The command line calls it before it imports torch, and the processes that it starts inherit it.
    A program that uses the library sets `OMP_WAIT_POLICY=PASSIVE` itself.

    Returns:
        Whether it had an effect: not if torch has been imported, or a choice was made.
    """
    if "torch" in sys.modules or any(name in os.environ for name in CHOICES):
        return False
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    return True
