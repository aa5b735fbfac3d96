"""What samplers share when they say what to try: symptoms, and calls that can be copied."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

Symptom = Literal["too few moves", "rejected", "stayed", "restarted", "relaxing", "collapsed"]

# How much longer a run should be than one that did not suffice.
LONGER = 4
# Below two passes after warm-up there is nothing to keep.
FEWEST_PASSES = 8


def longer_run(settings: Mapping[str, Any], default_epochs: int) -> dict[str, Any]:
    """The setting to change for a longer run, with its new value.

    Args:
        settings: of the run that was too short.
        default_epochs: the budget of a run whose settings name neither steps nor epochs.

    Returns:
        `steps` if the run was set in steps, and else `epochs`.

    Example:
        >>> longer_run({"epochs": 40}, default_epochs=160)
        {'epochs': 160}
    """
    name = "steps" if settings.get("steps") else "epochs"
    now = settings.get(name) or default_epochs
    return {name: max(LONGER * now, FEWEST_PASSES)}


def call_of(kind: type, settings: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    """The sampler as one would type it: the changes, and what else differs from its defaults.

    Args:
        kind: the class of the sampler's settings.
        settings: of the run, by name.
        changes: settings to change, with their new values.

    Returns:
        `sampler=sbmc.NAME(...)`, and without `sbmc.` for a class that is not the library's.
    """
    fields = dataclasses.fields(kind)
    nothing = dataclasses.MISSING
    required = [
        each.name for each in fields if each.default is nothing and each.default_factory is nothing
    ]
    values = {**settings, **changes}
    # Some defaults are filled in when settings are made, so they are read off a made one.
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
