"""How the threads inside an operation of torch wait for each other: asleep, or spinning.

OpenMP's threads spin by default. That saves microseconds if every thread has a core to itself.
Otherwise a spinning thread takes the core from the thread that it waits for, and a computation
takes many times as long. OpenMP reads the policy once, when torch is imported, so this file must
not import torch.
"""

from __future__ import annotations

import os
import sys

# A user who has set one of these has made a choice: for OpenMP, its GNU or its Intel version.
CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def let_threads_sleep() -> bool:
    """Ask OpenMP to let threads sleep while they wait, unless the user has made a choice.

    The command line calls it before it imports torch, and the processes that it starts inherit it.
    A program that uses the library sets `OMP_WAIT_POLICY=PASSIVE` itself.

    Returns:
        Whether the policy was set: False if torch was imported before, or a choice was made.
    """
    if "torch" in sys.modules or any(name in os.environ for name in CHOICES):
        return False
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    return True
