"""Every sampler there is: found by importing what is in `sbmc.samplers`, not by a list of names.

A new file with a `Sampler` in it is found as it is, and so is the skeleton on the page that says
how to write one. What is written here by name are budgets that suit a test, where those of `small`
do not.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import pkgutil
import re
import sys
import types
from typing import Any

import pytest
from repository import ROOT

import sbmc.samplers
from sbmc.samplers.contract import Sampler

# Settings that make a run of a few steps, where a budget of epochs or of steps is not the way.
SMALL: dict[str, dict[str, Any]] = {
    "SMC": {"mutations": 2},
    "NUTS": {"warmup_draws": 12, "draws": 2, "max_depth": 3},
}

# Optional packages without which a sampler can be set up, but not run.
NEEDS = {"NUTS": "nutpie"}


def discover() -> list[type[Sampler]]:
    """All classes that can run, in the order of their names."""
    found: dict[str, type[Sampler]] = {}
    package = sbmc.samplers
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if not isinstance(value, type) or value.__module__ != module.name:
                continue
            # A base of other settings has no `run` of its own.
            if issubclass(value, Sampler) and value.run is not Sampler.run:
                found[name] = value
    return [found[name] for name in sorted(found)]


PAGE = ROOT / "docs" / "adding_a_sampler.md"


def documented() -> type[Sampler]:
    """The sampler that the page on adding one is about, made from the code on the page."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert code is not None
    module = types.ModuleType("documented_sampler")
    sys.modules[module.__name__] = module  # where dataclasses look annotations up
    exec(compile(code[1], str(PAGE), "exec"), vars(module))
    (found,) = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
        if issubclass(value, Sampler)
    ]
    return found


def field_names(sampler: type[Sampler]) -> set[str]:
    """The names of its settings."""
    return {field.name for field in dataclasses.fields(sampler)}  # type: ignore[arg-type]


def budget(sampler: type[Sampler], epochs: int, steps: int) -> dict[str, int]:
    """A budget in the sampler's own terms: epochs if it has them, or else steps."""
    names = field_names(sampler)
    if "epochs" in names:
        return {"epochs": epochs}
    return {"steps": steps} if "steps" in names else {}


def small(sampler: type[Sampler], **changes: Any) -> Sampler:
    """Settings of a run of a few steps."""
    settings = SMALL.get(sampler.__name__, budget(sampler, epochs=6, steps=4))
    return sampler(**{**settings, **changes})


def _runnable(sampler: type[Sampler]) -> Any:
    package = NEEDS.get(sampler.__name__)
    missing = package is not None and importlib.util.find_spec(package) is None
    return pytest.param(sampler, marks=pytest.mark.skipif(missing, reason=f"needs {package}"))


SAMPLERS = [*discover(), documented()]
NAMES = [sampler.__name__ for sampler in SAMPLERS]
# For tests of settings, and for tests that run them.
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=NAMES)
every_run = pytest.mark.parametrize("sampler", [_runnable(each) for each in SAMPLERS], ids=NAMES)
