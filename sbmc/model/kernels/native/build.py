"""Loads C code: what a wheel brings along, else compiled when it is first used and kept.

Nothing is asked of the user. Without either, there is no library, and the caller does the same work
in torch. `SBMC_NATIVE` chooses (see `shipped.py`); `SBMC_LOG=info` shows what was chosen and why.

A library is code, and loading it runs it. It is loaded only if the folder and the file are the
user's, nobody else may write to them, and the file has the digest that was noted when it was made.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sbmc.log import logger
from sbmc.model.kernels.native.shipped import (
    COMPILE,
    DIGITS,
    OFF,
    SOURCES,
    VARIABLE,
    NotShipped,
    find_shipped,
    wanted,
)

FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC", "-w")
# For this processor, by its name in gcc and in clang; else for any of its kind.
TUNINGS = (("-march=native",), ("-mcpu=native",), ())
SECONDS = 60

PRIVATE = 0o700


class NoLibrary(Exception):
    """There is no compiled code, and why."""


class UnsafeCache(RuntimeError):
    """The cache is not the user's alone, and why."""


# Which code was loaded, by the source's name.
_loaded: dict[str, str] = {}


def code_of(source: str) -> str | None:
    """Which compiled code this process has loaded for a source: the same code, the same bits.

    Args:
        source: its name, such as "chain".

    Returns:
        Where it comes from, its instruction set, its compiler and a digest; None if none is loaded.
    """
    return _loaded.get(source)


def load(source: Path, functions: Sequence[str] = ()) -> ctypes.CDLL:
    """The compiled source: what was brought along, or from the user's cache, or made now.

    In the cache, a library's name is a hash of its source, the headers, the flags and what the
    compiler says of itself and of the processor, so that machines may share a cache. It is made
    elsewhere and renamed: processes that do this at once all find it whole.

    Args:
        source: one C file that needs nothing but the standard library and the headers here.
        functions: names that the library must have.

    Returns:
        The library, whose functions run without Python's lock.

    Raises:
        NoLibrary: no compiler, or none that succeeds, or a library without these functions, or
            `SBMC_NATIVE=0`.
        BadInput: `SBMC_NATIVE` asks for an instruction set that is not there.
    """
    reasons = []
    wish = wanted()
    if wish == OFF:
        raise NoLibrary(f"{VARIABLE}={OFF}")
    if wish != COMPILE and source.parent == SOURCES:
        try:
            shipped = find_shipped(wish)
            library = _with_functions(ctypes.CDLL(str(shipped.path)), functions)
            _loaded[source.stem] = shipped.code
            return library
        except (NotShipped, NoLibrary, OSError) as error:
            logger.debug("native code: none is shipped (%s)", error)
            if wish:  # for this very code
                raise NoLibrary(str(error)) from error
    for compiler in _compilers():
        for tuning in TUNINGS:
            command = [*compiler, *FLAGS, *tuning]
            try:
                # All that the compiler defines: its version, and each extension of the processor.
                defined = _run([*command, "-E", "-dM", "-x", "c", os.devnull])
                digest = _digest(command, source, defined)
                library = _with_functions(_cached(command, source, digest), functions)
                set_by = " ".join(tuning) or "for any processor"
                _loaded[source.stem] = f"compiled {set_by}, {_version(defined)}, {digest[:DIGITS]}"
                return library
            except (NoLibrary, OSError, subprocess.SubprocessError) as error:
                reasons.append(f"{shlex.join(compiler)}: {error}")
    raise NoLibrary("; ".join(reasons) or "there is no C compiler")


def _compilers() -> list[list[str]]:
    """Commands of the compilers that there are: the user's own choice, then the usual names."""
    if os.name != "posix":
        return []
    if (
        sys.platform == "darwin"
        and subprocess.run(["xcode-select", "-p"], capture_output=True).returncode
    ):
        return []  # The `cc` of a Mac without developer tools is a window that offers them.
    commands = [shlex.split(os.environ.get("CC", "")), ["cc"], ["gcc"], ["clang"]]
    found = [(shutil.which(command[0]), command[1:]) for command in commands if command]
    unique = {os.path.realpath(path): [path, *rest] for path, rest in reversed(found) if path}
    return list(reversed(unique.values()))


def _digest(command: list[str], source: Path, defined: bytes) -> str:
    headers = [header.read_bytes() for header in sorted(SOURCES.glob("*.h"))]
    parts = [source.read_bytes(), *headers, shlex.join(command).encode(), defined]
    return hashlib.sha256(b"|".join(parts)).hexdigest()


def _version(defined: bytes) -> str:
    """The compiler's name and version, from what it defines."""
    found = re.search(rb'^#define __VERSION__ "\D*([\d.]+)', defined, re.MULTILINE)
    version = found.group(1).decode() if found else "of unknown version"
    return f"{'clang' if b'#define __clang__ ' in defined else 'gcc'} {version}"


def _cached(command: list[str], source: Path, digest: str) -> ctypes.CDLL:
    name = f"{source.stem}-{digest[:32]}.so"
    try:
        kept = _private_folder() / name
        if not _is_intact(kept):
            _make(command, source, kept)
            logger.debug("native code: compiled %s by %s", kept, command[0])
    except (OSError, RuntimeError) as error:  # no home, or one that cannot be used
        logger.info("native code: nothing is kept (%s)", error)
        # A loaded library stays in memory when its file is gone.
        with tempfile.TemporaryDirectory(prefix="sbmc-") as scratch:
            return ctypes.CDLL(str(_compile(command, source, Path(scratch) / name)))
    try:
        return ctypes.CDLL(str(kept))
    except OSError:
        for file in (kept, _digest_file(kept)):  # made anew next time
            file.unlink(missing_ok=True)
        raise


def _with_functions(library: ctypes.CDLL, functions: Sequence[str]) -> ctypes.CDLL:
    missing = [name for name in functions if not hasattr(library, name)]
    if missing:
        logger.warning("native code: %s has no %s", library._name, ", ".join(missing))
        raise NoLibrary(f"the compiled library has no {', '.join(missing)}")
    return library


def _private_folder() -> Path:
    """The cache, made or checked: a folder of the user's that nobody else can write to.

    Raises:
        UnsafeCache: it is somebody else's, or others may write to it.
        OSError: it cannot be made.
    """
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    fault = why_unsafe(folder)
    if fault:
        logger.warning(
            "native code: %s is not used, since %s; it is compiled anew in every process. Remove "
            "the folder, or set XDG_CACHE_HOME to one of yours",
            folder,
            fault,
        )
        raise UnsafeCache(f"{folder}: {fault}")
    if stat.S_IMODE(folder.stat().st_mode) != PRIVATE:
        folder.chmod(PRIVATE)
    return folder


def why_unsafe(path: Path) -> str:
    """What speaks against code in a file or folder: its owner, or who may write; empty if nothing.

    Args:
        path: the file or folder; it must be there.

    Returns:
        Words that follow "since".
    """
    if not hasattr(os, "geteuid"):
        return ""
    found = path.stat()
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it"
    return ""


def _is_intact(library: Path) -> bool:
    """Whether a library is there, safe to load, and as it was when it was made."""
    if not library.exists():
        return False
    fault = why_unsafe(library)
    try:
        noted = _digest_file(library).read_text().strip()
    except (OSError, UnicodeDecodeError):
        noted = ""
    if not fault and not noted:  # another process is about to write it, or an older version did not
        logger.info("native code: %s is compiled anew, since it has no digest", library.name)
        return False
    if not fault and noted != hashlib.sha256(library.read_bytes()).hexdigest():
        fault = "it is not what was compiled"
    if fault:
        logger.warning("native code: %s is compiled anew, since %s", library.name, fault)
    return not fault


def _make(command: list[str], source: Path, library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".build-") as scratch:
        made = _compile(command, source, Path(scratch) / library.name)
        made.chmod(PRIVATE)
        noted = _digest_file(made)
        noted.write_text(hashlib.sha256(made.read_bytes()).hexdigest() + "\n")
        os.replace(made, library)
        os.replace(noted, _digest_file(library))


def _digest_file(library: Path) -> Path:
    return library.with_name(f"{library.name}.sha256")


def cache_folder() -> Path:
    """Where compiled code is kept: `XDG_CACHE_HOME`, or `.cache` in the user's home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    return base / "sbmc" / "native"


def _compile(command: list[str], source: Path, to: Path) -> Path:
    _run([*command, "-I", str(SOURCES), str(source), "-o", str(to), "-lm"])
    return to


def _run(command: list[str]) -> bytes:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoLibrary(lines[0] if lines else f"exit status {done.returncode}")
    return done.stdout
