"""Helpers for the remedies of samplers: symptoms, and calls that can be copied."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

Symptom = Literal["too few moves", "rejected", "stayed", "restarted", "relaxing", "collapsed"]

# By which factor a run should be longer than one that was too short.
LONGER = 4
# A run needs at least two passes after warm-up.
FEWEST_PASSES = 8


def longer_run(settings: Mapping[str, Any], default_epochs: int) -> dict[str, Any]:
    """The setting to change for a longer run, with its new value.

    Args:
        settings: settings of the run that was too short.
        default_epochs: the budget of a run whose settings name neither steps nor epochs.

    Returns:
        `steps` if the run was set in steps, and else `epochs`.

    Examples:
        >>> longer_run({"epochs": 40}, default_epochs=160)
        {'epochs': 160}
    """
    name = "steps" if settings.get("steps") else "epochs"
    now = settings.get(name) or default_epochs
    return {name: max(LONGER * now, FEWEST_PASSES)}


def call_of(kind: type, settings: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    """The sampler as Python code: the changes, and all that differs from its defaults.

    Args:
        kind: the class of the sampler's settings.
        settings: settings of the run, by name.
        changes: settings to change, with their new values.

    Returns:
        `sampler=sbmc.NAME(...)`; without `sbmc.` for a class outside the library.
    """
    fields = dataclasses.fields(kind)
    nothing = dataclasses.MISSING
    required = [
        each.name for each in fields if each.default is nothing and each.default_factory is nothing
    ]
    values = {**settings, **changes}
    # Some defaults are computed when settings are made, so they are read from an instance.
    usual = dataclasses.asdict(kind(**{name: values[name] for name in required}))
    different = {
        name: value
        for name, value in settings.items()
        # Moves of SMC and other compound values are left for the reader to put in.
        if isinstance(value, bool | int | float | str)
        and (name in required or value != usual.get(name))
    }
    texts = [f"{name}={value!r}" for name, value in {**different, **changes}.items()]
    package = "sbmc." if kind.__module__.startswith("sbmc.") else ""
    return f"sampler={package}{kind.__name__}({', '.join(texts)})"
