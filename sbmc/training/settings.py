"""How to train, checked before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

import torch
from torch import Tensor

from sbmc.checks import nearest, require
from sbmc.training.adam import Adam
from sbmc.training.optimiser import Optimiser

INITIAL = ("model", "reset", "prior")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings shared by all members of an ensemble; see `train_ensemble` for what they mean."""

    prior_variance: float | Tensor
    learning_rate: float
    batch_size: int
    max_epochs: int
    window: int
    patience: int
    initial: str
    seed: int
    anchored: bool = False
    prior_centre: Tensor | None = None
    given_optimiser: Optimiser | None = None
    starts: Tensor | None = None  # (members, dim), instead of `initial`

    def __post_init__(self) -> None:
        check_variance(self.prior_variance)
        require(
            _positive(self.learning_rate),
            "learning_rate",
            "positive and finite",
            self.learning_rate,
        )
        for name in ("batch_size", "max_epochs", "window", "patience"):
            require_count(getattr(self, name), name)
        hint = nearest(str(self.initial), INITIAL).rstrip("?")
        rule = f"'model', 'reset' or 'prior'{hint}"
        require(self.initial in INITIAL, "initial", rule, self.initial)
        require_count(self.seed, "seed", least=0)
        require(isinstance(self.anchored, bool), "anchored", "True or False", self.anchored)

    @property
    def optimiser(self) -> Optimiser:
        """The optimiser that was given; Adam if there was none."""
        return self.given_optimiser or Adam(self.learning_rate)


def require_count(value: object, name: str, least: int = 1) -> None:
    """Refuse anything but an integer of at least `least`."""
    rule = "a positive integer" if least == 1 else "a non-negative integer"
    good = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
    require(good, name, rule, value)


def check_variance(value: object) -> None:
    """Refuse a prior variance that is no positive number, nor a vector of them."""
    if isinstance(value, Tensor):
        require(value.ndim <= 1, "prior_variance", "a number or a vector", tuple(value.shape))
        good = bool((torch.isfinite(value) & (value > 0)).all())
    else:
        good = _positive(value)
    require(good, "prior_variance", "positive and finite", value)


def _positive(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < math.inf
