"""How to train, checked before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sbmc.checks import is_number, require, require_choice, require_count, require_flag
from sbmc.randomness import require_seed
from sbmc.storage.arrays import require_plain
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
            require_count(name, getattr(self, name))
            object.__setattr__(self, name, int(getattr(self, name)))  # of numpy's integers
        steps = all(hasattr(self.optimiser, each) for each in ("init", "step", "compiled_step"))
        rule = "sbmc.training.Adam(...) or sbmc.training.SGD(...)"
        good = steps and not isinstance(self.optimiser, type)
        require(good, "optimiser", rule, self.given_optimiser)
        require_choice("initial", self.initial, INITIAL)
        require_seed(self.seed)
        require_flag("anchored", self.anchored)

    @property
    def optimiser(self) -> Optimiser:
        """The optimiser that was given; Adam if there was none."""
        given = self.given_optimiser
        return Adam(float(self.learning_rate)) if given is None else given


def check_variance(value: object) -> None:
    """Refuse a prior variance that is no positive number, nor a vector of them."""
    if isinstance(value, Tensor):
        require_plain(value, "prior_variance")
        require(value.ndim <= 1, "prior_variance", "a number or a vector", tuple(value.shape))
        good = bool((torch.isfinite(value) & (value > 0)).all())
    else:
        good = _positive(value)
    require(good, "prior_variance", "positive and finite", value)


def _positive(value: object) -> bool:
    return is_number(value) and 0 < value < math.inf  # type: ignore[operator]
