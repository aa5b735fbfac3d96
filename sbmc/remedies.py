"""What to try when a sampler did not do its work, as calls that can be copied."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sbmc import samplers
from sbmc.samplers.contract import Sampler

Symptom = Literal["too few moves", "rejected", "stayed", "collapsed"]

# How much longer to run: the budget that the default lacked on every network that was tried
# (benchmarks/health.py).
LONGER = 4


def remedies_for(
    symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
) -> tuple[str, ...]:
    """Sentences that say what to try.

    Args:
        symptoms: what is wrong.
        settings: of the posterior: the sampler's name and settings are read.
        step_size: the smallest that an island ended with.

    Returns:
        The sentences, the one to begin with first.
    """
    return ("Run it longer.",)
