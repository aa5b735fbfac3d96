"""From the settings of a run to the sampler that they describe."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from sbmc import samplers
from sbmc.checks import BadInput, nearest, require
from sbmc.posterior.weights import check_weighting
from sbmc.samplers.contract import Sampler

MOVES = ("hmc", "mala", "pcn")

# Training has a `batch_size` too, and the two need not agree.
_RENAMED = {"batch_size": "sampler_batch_size"}

# Settings of SMC's moves; None stands for the move's default. Not every move has all of them.
_MOVE_SETTINGS = (
    "leapfrog",
    "trajectory",
    "splitting",
    "jitter",
    "step_size",
    "adapt",
    "acceptance_band",
    "shrink",
    "grow",
)

# The order of `sbmc methods`; samplers that are not named here come last.
_ORDER = ("hmc", "smc", "sghmc", "sgld", "ubu", "mala", "pcn", "ghmc", "nuts")


@cache
def sampler_classes() -> dict[str, type[Sampler]]:
    """Find every sampler in `sbmc.samplers`: a file that is added there is found as well.

    Returns:
        The settings classes, by their names in lower case.

    Examples:
        >>> sampler_classes()["hmc"].__name__
        'HMC'
    """
    classes: dict[str, type[Sampler]] = {}
    for module in pkgutil.walk_packages(samplers.__path__, f"{samplers.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Sampler) and _is_concrete(value):
                classes[value.__name__.lower()] = value
    known = [name for name in _ORDER if name in classes]
    return {name: classes[name] for name in (*known, *sorted(set(classes) - set(known)))}


def _is_concrete(sampler: type[Sampler]) -> bool:
    return bool(getattr(sampler, "summary", "")) and dataclasses.is_dataclass(sampler)


def sampler_defaults(kind: str) -> dict[str, Any]:
    """The defaults of a sampler, read from its class so that they are written once.

    Args:
        kind: a key of `sampler_classes()`.

    Returns:
        Setting names to values.
    """
    sampler = sampler_classes()[kind]
    defaults = {_RENAMED.get(f.name, f.name): f.default for f in _fields(sampler)}
    if "move" in defaults:
        del defaults["move"]
        weights = {"island_weights": sampler.default_weights}
        defaults = {**defaults, **weights, "move": "hmc", **dict.fromkeys(_MOVE_SETTINGS)}
    return defaults


@cache
def sampler_kinds() -> dict[str, str]:
    """The types of all settings that samplers have, as their classes state them.

    Returns:
        Setting names to types, without None.

    Examples:
        >>> sampler_kinds()["steps"], sampler_kinds()["step_size"]
        ('int', 'float')
    """
    return {
        _RENAMED.get(each.name, each.name): str(each.type).removesuffix(" | None")
        for sampler in sampler_classes().values()
        for each in _fields(sampler)
    }


def build_sampler(kind: str, settings: Mapping[str, Any]) -> Sampler:
    """Make the sampler that the settings describe.

    Args:
        kind: a key of `sampler_classes()`.
        settings: resolved settings; those that are not the sampler's are ignored.

    Returns:
        The sampler's settings, checked.

    Raises:
        BadInput: if the sampler, or SMC's move, refuses one.
    """
    sampler = sampler_classes()[kind]
    names = {f.name for f in _fields(sampler)}
    given = {name: settings.get(_RENAMED.get(name, name)) for name in names - {"move"}}
    if {"steps", "epochs"} <= names:
        # Samplers have a default budget, but a record has to say what it was.
        budget = given["steps"] is not None or given["epochs"] is not None
        require(budget, "steps", "given, or else `epochs`", None)
    if "move" in names:
        check_weighting(settings["island_weights"])
        given["move"] = build_move(settings)
    return sampler(**given)


def build_move(settings: Mapping[str, Any]) -> Any:
    """Make the move of SMC that the settings describe.

    Args:
        settings: resolved settings, `move` among them.

    Returns:
        Settings of the kernel.

    Raises:
        BadInput: if there is no such move, or it has no such setting.
    """
    name = settings["move"]
    if name not in MOVES:
        raise BadInput(
            f"`move` must be one of {', '.join(MOVES)}, but got {name!r}.{nearest(name, MOVES)}"
        )
    kernel: Any = sampler_classes()[name]
    given = {key: settings[key] for key in _MOVE_SETTINGS if settings.get(key) is not None}
    known = {f.name for f in _fields(kernel)}
    for key in sorted(set(given) - known):
        require(False, key, f"left out with the move {name}", given[key])
    return kernel(**given)


def _fields(sampler: Any) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(sampler)
