"""How the threads inside an operation of torch wait for each other: asleep, or spinning.

OpenMP's threads spin unless they are told otherwise. That saves microseconds where every thread has
a core to itself. Where it has not, a thread that spins keeps the one it waits for from running,
and a computation takes many times its time. OpenMP reads the policy once, when torch is imported,
so this file imports nothing of that.
"""

from __future__ import annotations

import os
import sys

# Whoever has set one of these has made a choice: of OpenMP, of its GNU and of its Intel version.
CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def let_threads_sleep() -> bool:
    """Ask OpenMP to let threads sleep while they wait, unless the user has made a choice.

    The command line calls it before it imports torch, and the processes that it starts inherit it.
    A program that uses the library sets `OMP_WAIT_POLICY=PASSIVE` itself.

    Returns:
        Whether it was of any use: not so if torch has been imported, or a choice was made.
    """
    if "torch" in sys.modules or any(name in os.environ for name in CHOICES):
        return False
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    return True
