"""The registry: every file of this folder that has `METHODS` in it, and every sampler there is."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator

from sbmc.checks import BadInput, nearest
from sbmc.report.markup import cut
from sbmc_studies.experiments.methods.contract import Method

# The order of `sbmc methods`: the paper's baselines, then ours beside them, then the samplers.
_FIRST = ("map", "de", "swa", "swag", "mc-dropout", "laplace", "rms", "cold")


def _find() -> Iterator[Method]:
    package = __name__.rpartition(".")[0]
    folder = importlib.import_module(package).__path__
    for module in pkgutil.iter_modules(folder):
        if module.name not in ("contract", "registry"):
            yield from importlib.import_module(f"{package}.{module.name}").METHODS


def _rank(method: Method) -> int:
    return _FIRST.index(method.name) if method.name in _FIRST else len(_FIRST)


METHODS: dict[str, Method] = {method.name: method for method in sorted(_find(), key=_rank)}
"""All methods, by the names that `--method` takes."""


def get_method(name: str) -> Method:
    """Look a method up by its name.

    Args:
        name: a key of `METHODS`.

    Returns:
        The method.

    Raises:
        BadInput: if there is no such method; the message has the nearest name.

    Examples:
        >>> get_method("s-hmc").name
        's-hmc'
    """
    if name not in METHODS:
        raise BadInput(
            f"`method` must be one of {', '.join(METHODS)}, but got {name!r}."
            + nearest(name, METHODS)
        )
    return METHODS[name]


def get_methods(names: Iterable[str]) -> list[Method]:
    """Look several methods up, each once, in the order given."""
    return [get_method(name) for name in dict.fromkeys(names)]


def method_label(name: str) -> str:
    """The name of a method in tables; a method that this version does not know keeps its name."""
    return METHODS[name].label if name in METHODS else cut(name, 40)
