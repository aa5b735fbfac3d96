"""Compiled code that a wheel brings along, for the best instruction set that this machine runs.

A wheel for Linux has the C code of this folder compiled for several instruction sets, each in one
library, with a file that describes them; `hatch_build.py` makes both. Nothing is there in a clone,
in an editable installation, or in the wheel for all systems.

`SBMC_NATIVE` chooses: `0` for no compiled code at all, `compile` for the compiler of this machine,
the name of a shipped instruction set for that one. Not set, or `1`: the best set that is shipped,
and the compiler where none is.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sbmc.checks import require

VARIABLE = "SBMC_NATIVE"
OFF, COMPILE = "0", "compile"
SOURCES = Path(__file__).parent
FOLDER = SOURCES / "libraries"
DESCRIPTION = "kernels.json"
DIGITS = 12


class NotShipped(Exception):
    """No compiled code was brought along that can be used here, and why."""


class Shipped(NamedTuple):
    """The library for one instruction set, and which code it is."""

    path: Path
    instructions: str
    code: str


def wanted() -> str:
    """What `SBMC_NATIVE` asks for: `0`, `compile`, the name of an instruction set, or nothing."""
    value = os.environ.get(VARIABLE, "").strip()
    return "" if value == "1" else value


def source_digest(folder: Path = SOURCES) -> str:
    """The digest of the C code, by which compiled code is known to be that of these sources."""
    files = sorted([*folder.glob("*.c"), *folder.glob("*.h")], key=lambda path: path.name)
    parts = [part for path in files for part in (path.name.encode(), path.read_bytes())]
    return hashlib.sha256(b"|".join(parts)).hexdigest()


def find_shipped(wish: str = "") -> Shipped:
    """The library for an instruction set, or for the best one that this processor runs.

    Args:
        wish: the name of an instruction set; empty for the best one.

    Raises:
        NotShipped: there is none, and why.
        BadInput: a wish that is not among those that are shipped and that run here.
    """
    usable, reason = _usable()
    if wish:
        names = [each.instructions for each in usable]
        note = f"instruction sets that are shipped and run here; {reason or 'there are no others'}"
        rule = f"one of {', '.join([OFF, '1', COMPILE, *names])} ({note})"
        require(wish in names, VARIABLE, rule, wish)
        return usable[names.index(wish)]
    if not usable:
        raise NotShipped(reason)
    return usable[-1]


def shipped_sets() -> list[str]:
    """The names of the instruction sets that are shipped and that run here, the best one last."""
    return [each.instructions for each in _usable()[0]]


def how_to_have(code: str | None) -> str:
    """How to go on with the compiled code that a run was begun with.

    Args:
        code: from `sbmc.model.kernels.native.build.code_of`; None for torch alone.

    Returns:
        What to do, in words.

    Examples:
        >>> how_to_have(None)
        'set SBMC_NATIVE=0 to go on with the code that it was begun with'
    """
    sets = {each.code: each.instructions for each in _usable()[0]}
    choice = None
    if code is None:
        choice = OFF
    elif code in sets:
        choice = sets[code]
    elif code.startswith("compiled") and wanted() != COMPILE and (sets or wanted() == OFF):
        choice = COMPILE
    if choice is None:
        return "go on with the installation, the compiler and the processor that it was begun with"
    return f"set {VARIABLE}={choice} to go on with the code that it was begun with"


def _usable() -> tuple[Sequence[Shipped], str]:
    """The libraries that this processor runs, the best one last; and why there are none."""
    try:
        description = json.loads((FOLDER / DESCRIPTION).read_text("utf-8"))
    except FileNotFoundError:
        return [], "this installation brings none along"
    if description["sources"] != source_digest():
        return [], "what this installation brings along was compiled from other sources"
    sets = description["sets"]
    try:
        level = ctypes.CDLL(str(FOLDER / sets[0]["file"])).sbmc_level()
    except OSError as error:
        return [], f"what this installation brings along cannot be loaded ({error})"
    made_by = f"{description['compiler']}, {description['sources'][:DIGITS]}"
    return [
        Shipped(FOLDER / each["file"], each["name"], f"shipped {each['name']}, {made_by}")
        for each in sets
        if each["level"] <= level
    ], ""
