"""Serves posteriors over HTTP: answers with their uncertainty as JSON, and a page to play with."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbmc_serve.app import create_app
    from sbmc_serve.limits import Limits

# `sbmc --help` imports this package for its command, which needs neither torch nor Starlette.
_LATE = {"create_app": "sbmc_serve.app", "Limits": "sbmc_serve.limits"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'sbmc_serve' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


__all__ = ["Limits", "create_app"]
