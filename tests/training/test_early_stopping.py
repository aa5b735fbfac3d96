"""The stopping rule on sequences made by hand."""

from __future__ import annotations

import math

import pytest

from sbmc.training.early_stopping import EarlyStopping


def stopped_at(losses, window=10, patience=5):
    """The epoch, counted from 1, at which the rule says stop; None if it never does."""
    rule = EarlyStopping(window, patience)
    for epoch, loss in enumerate(losses, 1):
        if rule.update(loss):
            return epoch
    return None


def test_a_falling_loss_never_stops():
    assert stopped_at([1.0 - 0.001 * i for i in range(500)]) is None


def test_a_constant_loss_stops_once_the_first_average_has_waited():
    # The average exists from epoch 10; epochs 11 to 15 do not improve on it.
    assert stopped_at([1.0] * 100) == 15


def test_a_minimum_stops_when_the_average_turns():
    # Falls to epoch 20, then rises as it fell: the average of ten is lowest around the minimum,
    # over epochs 15..24 and 16..25 alike, first seen at epoch 24; equal is no improvement.
    losses = [abs(i - 20) for i in range(1, 60)]
    averages = {e: sum(losses[e - 10 : e]) / 10 for e in range(10, 50)}
    lowest = min(averages, key=averages.__getitem__)
    assert lowest == 24
    assert stopped_at(losses) == lowest + 5


def test_the_average_forgives_a_lucky_epoch():
    losses = [2.0 - 0.01 * i for i in range(100)]
    losses[3] = 1.9  # nothing is lower until epoch 12
    assert stopped_at(losses, window=1) == 4 + 5
    assert stopped_at(losses, window=10) is None


def test_patience_starts_again_after_an_improvement():
    losses = [3.0, 3.0, 3.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    assert stopped_at(losses, window=1, patience=3) == 10
    assert stopped_at(losses, window=1, patience=2) == 3


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_no_improvement_and_passes(bad):
    losses = [2.0, bad, *[1.0] * 4]
    # window 2: 2+bad, bad+1 do not count; 1.0 first at epoch 4.
    assert stopped_at(losses, window=2, patience=3) is None
    assert stopped_at([*losses, 1.0], window=2, patience=3) == 7
    assert stopped_at([bad] * 10, window=2, patience=3) == 4
