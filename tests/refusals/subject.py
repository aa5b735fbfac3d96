"""A function that is called wrongly; networks and posteriors that right calls are made of."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from refusals.odd_values import CLASSES, DATA, INPUTS, NETWORKS, TARGETS, VALUES, WIDTH, X, Y
from torch import nn

import sbmc

NETS = {"model", "trained", "module", "layer", "network"}
SETS = {"data", "train", "validation", "ood"}
ROWS_OF = {"inputs", "x", "X"}
ANSWERS = {"labels", "targets", "y"}
LIKELIHOOD_NAMES = ("likelihood", "targets", "classification", "noise", "prediction")
QUIET = {"progress": False}


@dataclass(frozen=True)
class Subject:
    """A function, and arguments with which it works.

    Attributes:
        name: as the user calls it.
        function: what is called, with keywords alone.
        right: arguments that work; those of the signature that are absent keep their defaults.
        named: further words by which messages may call an argument.
        left_out: arguments that are not made wrong.
        public: what is tried, where `function` is made around it.
    """

    name: str
    function: Callable[..., Any]
    right: dict[str, Any] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    public: Any = None

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        return {
            name: each
            for name, each in inspect.signature(self.function).parameters.items()
            if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
            if name not in self.left_out
        }

    def odd_values(self, argument: str) -> dict[str, Any]:
        kinds = ((NETS, NETWORKS), (SETS, DATA), (ROWS_OF, INPUTS), (ANSWERS, TARGETS))
        more: dict[str, Any] = {}
        for names, values in kinds:
            if argument in names:
                more = {**values}
        if argument == "ood":
            more |= INPUTS
        return {**VALUES, **more}


def network(outputs=CLASSES):
    torch.manual_seed(0)
    return nn.Linear(WIDTH, outputs)


def sampler():
    return sbmc.HMC(steps=2, leapfrog=1, step_size=0.1, adapt=False, warmup=0.0)


@cache
def posteriors():
    """Posteriors of classes and of numbers, each with what it predicts."""
    options: dict[str, Any] = {"s": 0.1, "sampler": sampler(), "particles": 2, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sbmc.HealthWarning)  # so short a run does not move
        classes = sbmc.fit(network(), (X, Y), islands=2, **options)
        numbers = sbmc.fit(network(1), (X, X[:, :1]), likelihood="gaussian", **options)
    return classes, numbers, classes.predict(X), numbers.predict(X)
