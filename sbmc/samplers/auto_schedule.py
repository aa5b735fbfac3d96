"""What the epochs of the self-tuning sampler are spent on, and the size of its mini-batches."""

from __future__ import annotations

import math
from typing import NamedTuple

# Examples of a mini-batch: as many, doubled until a pass has at most so many steps, up to the
# largest. Larger batches are less noisy, and bear larger steps in proportion, so that a pass goes
# as far; but its steps are fewer, and so is the noise to draw for them. Beyond the largest there is
# nothing to be saved any more.
BATCH_SIZE, MOST_STEPS_OF_A_PASS, LARGEST_BATCH = 64, 200, 8_192
# In fewer batches, as many more steps are not worth the noise of their gradients.
FEWEST_BATCHES = 8
# From so many epochs on, steps on all data go as far as those on batches, without their noise.
EPOCHS_FOR_ALL_DATA = 64
# Fewer epochs hold no exact moves that would be worth what they take from the dynamics.
EPOCHS_FOR_EXACT_MOVES = 24
# The part of a run that goes on batches, if exact moves follow; then steps on all data, which
# find the step size; and the part of the exact moves that tune it.
SHARE_ON_BATCHES, SHARE_ON_ALL_DATA, TUNING = 0.5, 0.2, 0.3


def batch_size_of(examples: int) -> int:
    """Examples of a mini-batch.

    Examples:
        >>> [batch_size_of(n) for n in (100, 12_800, 12_801, 50_000, 10**9)]
        [64, 64, 128, 256, 8192]
    """
    size = BATCH_SIZE
    while size * MOST_STEPS_OF_A_PASS < examples and size < LARGEST_BATCH:
        size *= 2
    return size


class Schedule(NamedTuple):
    """What the epochs of a run are spent on, in this order, and why."""

    on_batches: int  # passes in mini-batches
    on_all_data: int  # dynamics on all data, their first evaluation included
    exact: int  # leapfrog steps of exact moves
    reason: str

    @property
    def epochs(self) -> int:
        """All of them."""
        return self.on_batches + self.on_all_data + self.exact

    @property
    def dynamics(self) -> int:
        """The epochs after which exact moves begin."""
        return self.on_batches + self.on_all_data

    @property
    def tuned_until(self) -> int:
        """The epochs after which the step size is frozen."""
        return self.dynamics + int(TUNING * self.exact)


def schedule_of(examples: int, epochs: int, *, streamed: bool = False) -> Schedule:
    """The one rule that decides between mini-batches and all data.

    Args:
        examples: n.
        epochs: the budget.
        streamed: whether data are read in passes and not held, so that no step sees all of them.

    Returns:
        Mini-batches alone, if data are streamed; all data at every step, if there are few batches
        of them, or epochs enough; mini-batches for the first half and exact moves for the rest, if
        those are affordable; and else mini-batches alone.

    Examples:
        >>> schedule_of(100, 20)[:3], schedule_of(5_000, 40)[:3], schedule_of(5_000, 8)[:3]
        ((0, 10, 10), (20, 8, 12), (8, 0, 0))
        >>> schedule_of(5_000, 40, streamed=True)[:3]
        (40, 0, 0)
    """
    batches = math.ceil(examples / BATCH_SIZE)
    size = f"{examples} examples, {epochs} epochs"
    if streamed:
        reason = "mini-batches alone, since the data are streamed; the posterior is biased"
        return Schedule(epochs, 0, 0, f"{size}: {reason}")
    if batches < FEWEST_BATCHES or epochs >= EPOCHS_FOR_ALL_DATA:
        few = f"there are fewer than {FEWEST_BATCHES} batches of {BATCH_SIZE}"
        many = f"from {EPOCHS_FOR_ALL_DATA} epochs on, steps on all data go as far as on batches"
        reason = few if batches < FEWEST_BATCHES else many
        return Schedule(0, epochs // 2, epochs - epochs // 2, f"{size}: all data, since {reason}")
    if epochs < EPOCHS_FOR_EXACT_MOVES:
        reason = f"{size}: mini-batches alone, since exact moves take {EPOCHS_FOR_EXACT_MOVES}"
        return Schedule(epochs, 0, 0, f"{reason} epochs or more; the posterior is biased")
    first = round(SHARE_ON_BATCHES * epochs)
    second = round(SHARE_ON_ALL_DATA * epochs)
    reason = f"{size}: mini-batches for {first} epochs, then exact moves"
    return Schedule(first, second, epochs - first - second, reason)
