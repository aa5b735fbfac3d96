"""A user's own network, named on the command line.

It is `FILE.py:NAME` or `package.module:NAME`; where it is said, also a `.pt2` file.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from sbmc.checks import BadInput, Phrase, nearest, require
from sbmc.posterior.recipe import open_exported
from sbmc.storage.digests import DIGITS

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
    refuse_script(found, reference)
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


def source_digest(reference: str) -> str | None:
    """A digest of the file in which a network is written.

    Args:
        reference: `FILE.py:NAME` or `package.module:NAME`. Nothing of it is run, but for the
            packages around a module.

    Returns:
        Hexadecimal digits; None if there is no such file.
    """
    place = reference.rpartition(":")[0]
    path: Path | None = Path(place).expanduser()
    if not place.endswith(".py"):
        _search_first(Path.cwd())
        try:
            spec = importlib.util.find_spec(place)
        except (ImportError, ValueError):
            return None
        path = Path(spec.origin) if spec is not None and spec.origin else None
    if path is None or not path.is_file():
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]


def read_exported(path: Path) -> tuple[nn.Module, bytes]:
    """The network in a `.pt2` file of `torch.export.save`, and the bytes of the file.

    Raises:
        BadInput: there is no such file, or it is something else.
    """
    require(path.is_file(), "model", "a file that exists", str(path))
    content = path.read_bytes()
    try:
        return open_exported(content), content
    # torch raises errors of many kinds for files of other kinds.
    except Exception as error:
        rule = "a file that torch.export.save wrote"
        raise BadInput(f"`model` must be {rule}, but got {str(path)!r}.") from error


def refuse_script(model: object, shown: str) -> None:
    """Refuse TorchScript, whose weights cannot be replaced by those of particles.

    Args:
        model: a network, or the path of a file.
        shown: what the user called it.

    Raises:
        BadInput: it is TorchScript; the message says how to export the network instead.
    """
    script = isinstance(model, torch.jit.ScriptModule) or (
        isinstance(model, Path) and model.suffix.lower() in (".pt", ".pth", ".ts", ".jit")
    )
    if script:
        raise BadInput(
            f"`model` must be {FORM}, or a .pt2 file of torch.export, but got {shown!r}, which is "
            "TorchScript or weights alone. Export the network where its code is: "
            "torch.export.save(torch.export.export(net, (x,), dynamic_shapes=({0: "
            "torch.export.Dim('rows')},)), 'net.pt2')."
        )


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
