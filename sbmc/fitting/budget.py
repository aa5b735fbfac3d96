"""How much a fit may cost: counted in trainings of the network, or in seconds.

A training is what the network itself took: E passes over the training data. With the training that
the network has had, a budget of four is what a deep ensemble of five costs. It covers all particles
of all islands together: with N·P chains, each may make 4·E / (N·P) epochs. Chains end before that
when predictions have settled.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from sbmc.checks import MOST_COUNT, BadInput, is_number, require, require_flag

# With the network's own training, what a deep ensemble of five costs: people compare with that.
DEFAULT_TRAININGS = 4.0
# Where nobody says how long the network was trained: this many gradient steps on batches of 64, as
# small networks usually get, within these bounds of passes over the data.
USUAL_STEPS, USUAL_BATCH = 4_000, 64
FEWEST_EPOCHS, MOST_EPOCHS = 20, 200

_UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|sec|min|m|h)\s*")


class TrainingLength(NamedTuple):
    """How many passes over the data the network's training made, and how that is known."""

    epochs: float
    reason: str


@dataclass(frozen=True)
class Budget:
    """What a fit may cost.

    Args:
        trainings: in units of the network's own training, over all particles together.
        seconds: a limit of time instead.
        trained_epochs: how many passes over the training data the network was trained for. A model
            from `train_map` or `train_ensemble` remembers it. For another model it is estimated
            from the number of examples unless it is given here.
        stop_early: whether chains end before the budget is spent when predictions have settled.
        extend: chains whose predictions have not settled when the budget is spent go on until they
            have, for at most so many times the budget. With 1, the default, nothing goes beyond it.

    Raises:
        BadInput: an argument breaks its rule, or both `trainings` and `seconds` are given.

    Examples:
        >>> Budget(trainings=10, trained_epochs=50).epochs(nn.Linear(2, 2), examples=1000)
        500.0
    """

    trainings: float | None = None
    seconds: float | None = None
    trained_epochs: float | None = None
    stop_early: bool = True
    extend: float = 1.0

    def __post_init__(self) -> None:
        for name in ("trainings", "seconds", "trained_epochs"):
            value = getattr(self, name)
            good = value is None or (is_number(value) and 0 < value <= MOST_COUNT)
            require(good, name, f"positive and at most {MOST_COUNT:,}", value)
        require_flag("stop_early", self.stop_early)
        good = is_number(self.extend) and 1 <= self.extend < math.inf
        require(good, "extend", "at least 1 and finite", self.extend)
        rule = "1 where `stop_early` is False: nothing says when to end then"
        require(self.stop_early or self.extend == 1, "extend", rule, self.extend)
        if self.trainings is not None and self.seconds is not None:
            raise BadInput(
                "`budget` must be either `trainings` or `seconds`, but got both. Leave one out."
            )
        if self.trainings is None and self.seconds is None:
            object.__setattr__(self, "trainings", DEFAULT_TRAININGS)

    def training_length(self, model: nn.Module, examples: int) -> TrainingLength:
        """How long the network was trained: as told, as it remembers, or by rule.

        Args:
            model: the network.
            examples: rows of the training data.

        Returns:
            Passes over the data, and where the number comes from, in words.
        """
        if self.trained_epochs is not None:
            return TrainingLength(float(self.trained_epochs), "given as `trained_epochs`")
        remembered: Any = getattr(getattr(model, "history", None), "epochs", 0)
        if is_number(remembered) and remembered > 0:
            return TrainingLength(float(remembered), "remembered by the model")
        by_rule = USUAL_STEPS * USUAL_BATCH / examples
        epochs = min(max(by_rule, FEWEST_EPOCHS), MOST_EPOCHS)
        return TrainingLength(
            float(epochs),
            f"assumed from {examples:,} examples; sbmc.Budget(trained_epochs=...) tells it",
        )

    def epochs(
        self, model: nn.Module, examples: int, seconds_per_epoch: float | None = None
    ) -> float:
        """Epochs that all particles may make together.

        Args:
            model: the network.
            examples: rows of the training data.
            seconds_per_epoch: what one epoch of one particle takes; needed for a budget of time.

        Returns:
            The number of epochs.
        """
        if self.seconds is None:
            assert self.trainings is not None
            return self.trainings * self.training_length(model, examples).epochs
        assert seconds_per_epoch is not None
        return self.seconds / seconds_per_epoch


def as_budget(value: Any) -> Budget:
    """Read a budget: a number of trainings, a time such as `"30s"`, or a `Budget`.

    Args:
        value: what the user gave; None for the default.

    Returns:
        The budget.

    Raises:
        BadInput: it is none of these.

    Examples:
        >>> as_budget("2min").seconds
        120.0
    """
    if value is None:
        return Budget()
    if isinstance(value, Budget):
        return value
    if isinstance(value, str) and (time := _TIME.fullmatch(value)):
        return Budget(seconds=float(time[1]) * _UNITS[time[2]])
    rule = "a number of trainings, a time such as '30s' or '2min', or sbmc.Budget(...)"
    good = is_number(value) and 0 < value <= MOST_COUNT
    require(good, "budget", rule, value)
    return Budget(trainings=float(value))
