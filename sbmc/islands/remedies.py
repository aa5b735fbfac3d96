"""What to try when a sampler did not do its work: sentences with calls that can be copied."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sbmc import samplers
from sbmc.samplers.chain_settings import ChainSettings
from sbmc.samplers.contract import Sampler
from sbmc.samplers.sg_chains import StochasticGradient

Symptom = Literal["too few moves", "rejected", "stayed", "collapsed"]

# How much longer a run should be than one that did not suffice.
LONGER = 4
# Stochastic gradients are noisy: their step size is a fraction of one that was still too large for
# exact moves. On all networks of `benchmarks/health.py` that needed a remedy, this one moved them.
SMALLER = 5
# Below two passes after warm-up there is nothing to keep.
FEWEST_PASSES = 8


def remedies_for(
    symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
) -> tuple[str, ...]:
    """Sentences that say what to try.

    Args:
        symptoms: what is wrong.
        settings: of the posterior; the sampler's name and settings are read.
        step_size: the smallest that an island ended with.

    Returns:
        The sentences, the one to begin with first.

    Example:
        >>> settings = {"sampler": "SGHMC", "sampler_settings": {"epochs": 4, "step_size": 0.1}}
        >>> remedies_for(["stayed"], settings, 0.1)[0]
        'Give the chains a longer run: sampler=sbmc.SGHMC(epochs=16, step_size=0.1).'
    """
    kind = _class_of(settings.get("sampler"))
    given = dict(settings.get("sampler_settings") or {})
    if "collapsed" in symptoms or kind is samplers.SMC:
        return _for_smc(given)
    if kind is not None and issubclass(kind, StochasticGradient):
        return (f"Give the chains a longer run: {_call(kind, given, _longer(given))}.",)
    if kind is not None and issubclass(kind, ChainSettings):
        return _for_chains(symptoms, kind, given, step_size)
    if kind is samplers.NUTS:
        return (f"Give the chains a longer warm-up: {_call(kind, given, _more_draws(given))}.",)
    return ("Give the chains a longer run, or a smaller step size.",)


def _for_smc(given: Mapping[str, Any]) -> tuple[str, ...]:
    more = {}
    if isinstance(given.get("mutations"), int):
        more["mutations"] = LONGER * given["mutations"]
    return (
        f"Give the particles more moves at every temperature: {_call(samplers.SMC, given, more)}.",
        "More particles or more islands would help too.",
    )


def _for_chains(
    symptoms: Sequence[Symptom],
    kind: type[Sampler],
    given: Mapping[str, Any],
    step_size: float | None,
) -> tuple[str, ...]:
    longer = _call(kind, given, _longer(given))
    if list(symptoms) == ["too few moves"]:
        return (f"Give the chains a longer run: {longer}.",)
    epochs = given.get("epochs") or given.get("steps") or samplers.HMC().budget
    small = 0.01 if step_size is None else step_size / SMALLER
    noisy = {"epochs": max(epochs, FEWEST_PASSES), "step_size": float(f"{small:.2g}")}
    return (
        "Stochastic-gradient chains move where these are rejected, and cost about as much: "
        f"{_call(samplers.SGHMC, {}, noisy)}. They are biased; a smaller step size lessens that.",
        f"To stay exact, give the chains a longer run: {longer}; a deep network may need many "
        "times more than that.",
    )


def _longer(given: Mapping[str, Any]) -> dict[str, Any]:
    name = "steps" if given.get("steps") else "epochs"
    now = given.get(name) or samplers.HMC().budget
    return {name: max(LONGER * now, FEWEST_PASSES)}


def _more_draws(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"warmup_draws": LONGER * given.get("warmup_draws", samplers.NUTS().warmup_draws)}


def _class_of(name: Any) -> type[Sampler] | None:
    """A sampler of this library by its name; None for a user's own."""
    found = getattr(samplers, str(name), None)
    return found if isinstance(found, type) and issubclass(found, Sampler) else None


def _call(kind: type[Sampler], given: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    """The sampler as one would type it: the changes, and what else differs from its defaults."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    nothing = dataclasses.MISSING
    required = [
        each.name for each in fields if each.default is nothing and each.default_factory is nothing
    ]
    values = {**given, **changes}
    # Some defaults are filled in when settings are made, so they are read off a made one.
    usual = dataclasses.asdict(kind(**{name: values[name] for name in required}))  # type: ignore[call-overload]
    kept = {
        name: value
        for name, value in given.items()
        # Moves of SMC and other compound values are left for the reader to put in.
        if isinstance(value, bool | int | float | str)
        and (name in required or value != usual.get(name))
    }
    texts = [f"{name}={value!r}" for name, value in {**kept, **changes}.items()]
    return f"sampler=sbmc.{kind.__name__}({', '.join(texts)})"
