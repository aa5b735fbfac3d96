"""The prior that a weight decay stands for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sbmc.checks import BadInput, Phrase, is_number, require, require_count, require_flag
from sbmc.model.parameters import Selection


@dataclass(frozen=True)
class WeightDecay:
    """The prior N(0, 1 / (weight_decay · n)) of a network that was trained with a weight decay.

    `torch.optim.SGD(..., weight_decay=w)` and `Adam` add w·θ to the gradient of the mean loss, so
    that training minimises

        −(1/n) Σ_i log p(y_i | x_i, θ) + (w/2) ‖θ‖².

    Times n, this is the negative log posterior with the prior N(0, v), v = 1 / (w·n).

    Args:
        weight_decay: w > 0. The loss has to be a mean over examples, as torch's are.
        examples: n, how many examples the network was trained on; None for the number of the data
            that are given.
        exempt: parameters that were not decayed (biases and normalisation layers often are not): a
            regular expression on their names, or a predicate. They follow `"auto"`.
        decoupled: True for `AdamW`, whose decay is applied apart from the gradient. It minimises no
            loss with a penalty, because Adam scales the gradient and not the decay, so that no
            prior belongs to it. With True the formula above is taken as an approximation.

    Raises:
        BadInput: a value breaks its rule.

    Examples:
        >>> WeightDecay(1e-3, examples=500).variance(n=80)
        2.0
        >>> WeightDecay(0.0)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `weight_decay` must be positive and finite (without one, use \
prior_variance="auto"), but got 0.0.
    """

    weight_decay: float
    examples: int | None = None
    exempt: Selection | None = None
    decoupled: bool = False

    def __post_init__(self) -> None:
        decay, count, exempt = self.weight_decay, self.examples, self.exempt
        good = is_number(decay) and 0 < decay < math.inf
        rule = 'positive and finite (without one, use prior_variance="auto")'
        require(good, "weight_decay", rule, decay)
        require_count("examples", count, optional=True)
        good = exempt is None or isinstance(exempt, str) or callable(exempt)
        require(good, "exempt", "a regular expression or a predicate on names", exempt)
        if isinstance(exempt, str):
            try:
                re.compile(exempt)
            except re.error as error:
                raise BadInput(
                    f"`exempt` must be a regular expression, but got {exempt!r} ({error})."
                ) from None
        require_flag("decoupled", self.decoupled)

    def variance(self, n: int | None) -> float:
        """V = 1 / (weight_decay · n), with the examples that were given or else `n` of them.

        Raises:
            BadInput: neither is known.
        """
        count = n if self.examples is None else int(self.examples)
        rule = "given in WeightDecay(..., examples=n), because there are no data to count"
        require(count is not None, "examples", rule, None)
        assert count is not None  # for the type checker
        return 1.0 / (float(self.weight_decay) * count)

    def decayed(self, names: Iterable[str]) -> set[str]:
        """The parameters to which the decay was applied.

        Raises:
            BadInput: `exempt` matches none of them, or all.
        """
        exempt, every = self.exempt, set(names)
        if exempt is None:
            return every
        spared = {
            name
            for name in every
            if (exempt(name) if callable(exempt) else re.search(exempt, name) is not None)
        }
        shown = exempt if isinstance(exempt, str) else Phrase("a predicate")
        require(bool(spared), "exempt", f"a selection that matches some of {sorted(every)}", shown)
        require(spared != every, "exempt", "a selection that leaves some to be decayed", shown)
        return every - spared

    def as_setting(self, n: int | None) -> dict[str, Any]:
        """Plain values, with the number of examples that was used."""
        exempt = self.exempt if isinstance(self.exempt, str) or self.exempt is None else "predicate"
        return {
            "weight_decay": float(self.weight_decay),
            "examples": n if self.examples is None else int(self.examples),
            **({} if exempt is None else {"exempt": exempt}),
            **({"decoupled": True} if self.decoupled else {}),
        }
