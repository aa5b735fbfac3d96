"""A user's own network, named on the command line as `FILE.py:NAME` or `package.module:NAME`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from sbmc.checks import BadInput, Phrase, nearest, require

FORM = "FILE.py:NAME or package.module:NAME, where NAME is a network or makes one"


def load_model(reference: str) -> nn.Module:
    """Import the code that a reference names, and get the network from it.

    Args:
        reference: `FILE.py:NAME` or `package.module:NAME`. The name stands for a module of torch,
            or for a class or function that makes one without arguments. The folder of the file, or
            for a package the current one, is searched for imports first, as `python FILE.py` does.

    Returns:
        The network.

    Raises:
        BadInput: there is no such file, package or name; the code fails; or it is not a network.
    """
    place, _, name = reference.rpartition(":")
    require(bool(place) and name.isidentifier(), "model", FORM, reference)
    code = _from_file(place) if place.endswith(".py") else _from_package(place)
    if not hasattr(code, name):
        public = [each for each in vars(code) if not each.startswith("_")]
        hint = nearest(name, public)
        raise BadInput(f"`model` must be a name in {place!r}, but got {name!r}.{hint}")
    found = getattr(code, name)
    if isinstance(found, nn.Module):
        return found
    require(callable(found), "model", FORM, Phrase(f"{name!r}, a {type(found).__name__}"))
    try:
        made = found()
    except Exception as error:
        rule = "a network, or a class or function that makes one without arguments"
        _refuse(rule, f"{name!r}, which raised", error)
    good = isinstance(made, nn.Module)
    require(good, "model", FORM, Phrase(f"{name!r}, which makes a {type(made).__name__}"))
    return made


def _from_file(place: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    require(path.is_file(), "model", "in a file that exists", place)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # its name ends in .py
    assert spec.loader is not None
    code = importlib.util.module_from_spec(spec)
    _search_first(path.parent)
    # Dataclasses and pickles look a class up in its module.
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = code
    try:
        spec.loader.exec_module(code)
    except Exception as error:
        sys.modules.pop(path.stem)
        if before is not None:
            sys.modules[path.stem] = before
        _refuse("in a file that can be imported", f"{place!r}, which raised", error)
    return code


def _from_package(place: str) -> ModuleType:
    _search_first(Path.cwd())
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        # Or the module is there, and one that it imports is not.
        missing = place == error.name or place.startswith(f"{error.name}.")
        rule = "in a module that is installed or in this folder, or in a FILE.py"
        require(not missing, "model", rule, place)
        _refuse("in a module that can be imported", f"{place!r}, which raised", error)
    except Exception as error:
        _refuse("in a module that can be imported", f"{place!r}, which raised", error)
    raise AssertionError("it was returned or refused")


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _refuse(rule: str, value: str, error: Exception) -> Any:
    raise BadInput(
        f"`model` must be {rule}, but got {value} {type(error).__name__}: {error} "
        "(--debug shows where)."
    ) from error
