"""From the settings of a run to the sampler that they describe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput, nearest, require

if TYPE_CHECKING:
    from sbmc.samplers.contract import Sampler

MOVES = ("hmc", "mala", "pcn")

# Samplers on mini-batches, by the names of their classes in lower case.
STOCHASTIC_GRADIENT = ("sgld", "sghmc", "ubu")
# Training has a `batch_size` too, and the two need not agree.
_RENAMED = {"batch_size": "sampler_batch_size"}

# Settings of SMC's moves; None leaves a value to the move. Which moves have which is theirs to say.
_MOVE_SETTINGS = (
    "leapfrog",
    "trajectory",
    "jitter",
    "step_size",
    "adapt",
    "acceptance_band",
    "shrink",
    "grow",
)


def sampler_defaults(kind: str | None) -> dict[str, Any]:
    """The sampler's own defaults, read from the sampler so that they are written once.

    Args:
        kind: `"hmc"`, `"smc"`, one of `STOCHASTIC_GRADIENT`; None for a method without a sampler.

    Returns:
        Setting names to values.
    """
    if kind is None:
        return {}
    from sbmc.samplers import HMC, SMC

    if kind == "hmc":
        return {f.name: f.default for f in dataclasses.fields(HMC)}
    if kind in STOCHASTIC_GRADIENT:
        fields = dataclasses.fields(_stochastic_gradient(kind))
        return {_RENAMED.get(f.name, f.name): f.default for f in fields}
    own = {f.name: f.default for f in dataclasses.fields(SMC) if f.name != "move"}
    weights = {"island_weights": SMC.default_weights}
    return {**own, **weights, "move": "hmc", **dict.fromkeys(_MOVE_SETTINGS)}


def build_sampler(kind: str, settings: Mapping[str, Any]) -> Sampler:
    """Make the sampler that the settings describe.

    Args:
        kind: `"hmc"`, `"smc"` or one of `STOCHASTIC_GRADIENT`.
        settings: resolved settings; those that are not the sampler's are passed over.

    Returns:
        The sampler's settings, checked.

    Raises:
        BadInput: if the sampler, or SMC's move, refuses one.
    """
    from sbmc.posterior import check_weighting
    from sbmc.samplers import HMC, SMC

    if kind == "hmc":
        # HMC has a default budget; a record says what it was.
        given = settings.get("steps") is not None or settings.get("epochs") is not None
        require(given, "steps", "given, or else `epochs`", None)
        return HMC(**_own(HMC, settings))
    if kind in STOCHASTIC_GRADIENT:
        renamed = {name: settings[given] for name, given in _RENAMED.items()}
        sampler = _stochastic_gradient(kind)
        return sampler(**_own(sampler, {**settings, **renamed}))
    check_weighting(settings["island_weights"])
    return SMC(**{**_own(SMC, settings), "move": build_move(settings)})


def build_move(settings: Mapping[str, Any]) -> Any:
    """Make the move of SMC that the settings describe.

    Args:
        settings: resolved settings, `move` among them.

    Returns:
        Settings of the kernel.

    Raises:
        BadInput: if there is no such move, or it has no such setting.
    """
    from sbmc.samplers import HMC, MALA, PCN

    kinds = dict(zip(MOVES, (HMC, MALA, PCN), strict=True))
    name = settings["move"]
    if name not in kinds:
        raise BadInput(
            f"`move` must be one of {', '.join(MOVES)}, but got {name!r}.{nearest(name, MOVES)}"
        )
    given = {key: settings[key] for key in _MOVE_SETTINGS if settings.get(key) is not None}
    known = {f.name for f in dataclasses.fields(kinds[name])}
    for key in sorted(set(given) - known):
        require(False, key, f"left out with the move {name}", given[key])
    return kinds[name](**given)


def _stochastic_gradient(kind: str) -> Any:
    from sbmc import samplers

    return getattr(samplers, kind.upper())


def _own(sampler: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in dataclasses.fields(sampler)}
    return {name: value for name, value in settings.items() if name in names}
