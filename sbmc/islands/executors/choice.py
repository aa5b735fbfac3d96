"""Turns the argument `executor` into the settings of an executor."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from concurrent.futures import Executor as FuturesExecutor
from functools import cache
from pathlib import Path
from typing import Any

from sbmc.checks import require, require_choice
from sbmc.islands.executors.contract import Executor
from sbmc.islands.executors.futures import Futures


@cache
def executors() -> dict[str, type[Executor]]:
    """Find every executor in `sbmc.islands.executors`, including files that are added there.

    Returns:
        The settings classes that need no arguments, by their names.

    Examples:
        >>> list(executors())
        ['in-process', 'processes', 'ray']
    """
    by_name: dict[str, type[Executor]] = {}
    for module in pkgutil.walk_packages([str(Path(__file__).parent)], f"{__package__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Executor) and _needs_no_more(value):
                by_name[value.name] = value
    return dict(sorted(by_name.items()))


def _needs_no_more(settings: Any) -> bool:
    """Whether settings can be made from a name alone: every field has a default."""
    missing = dataclasses.MISSING
    return dataclasses.is_dataclass(settings) and all(
        field.default is not missing or field.default_factory is not missing
        for field in dataclasses.fields(settings)
    )


def as_executor(value: Any, workers: int | None = None, address: str | None = None) -> Executor:
    """The settings that the argument `executor` stands for.

    Args:
        value: a name; settings; any `concurrent.futures.Executor`; or None, which means in process
            unless `workers` (processes) or `address` (Ray) is given.
        workers: how many workers, if `value` is a name.
        address: the address of a cluster, if `value` is a name.

    Returns:
        The settings.

    Raises:
        BadInput: it is something else, or that executor does not have such a setting.

    Examples:
        >>> as_executor("processes", workers=4)
        Processes(workers=4, threads=None)
        >>> as_executor(None)
        InProcess(fold=None, threads=None)
        >>> as_executor("proceses")
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `executor` must be one of in-process, processes, ray, but got \
'proceses'. Did you mean 'processes'?
    """
    given = {"workers": workers, "address": address}
    given = {name: setting for name, setting in given.items() if setting is not None}
    if value is None:
        value = "ray" if address is not None else "processes" if workers is not None else None
    if not isinstance(value, str | None):
        for name, setting in given.items():
            require(False, name, "left out unless `executor` is a name", setting)
        if isinstance(value, FuturesExecutor):
            return Futures(value)
        rule = "a name, settings such as sbmc.Processes(), or a concurrent.futures.Executor"
        require(isinstance(value, Executor), "executor", rule, value)
        return value
    known = executors()
    key = "in-process" if value is None else value
    require_choice("executor", key, known)
    settings: Any = known[key]
    for name in given:
        has = name in {field.name for field in dataclasses.fields(settings)}
        require(has, name, f"left out with the executor {key}", given[name])
    return settings(**given)
