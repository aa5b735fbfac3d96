"""C code compiled when it is first used, with the compiler that is there, and kept for next time.

Nothing is asked of the user. Without a compiler, or where one fails, there is no library, and the
caller does the same work in torch. `SBMC_NATIVE=0` says not to look for one; `SBMC_LOG=debug` shows
what was chosen and why.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sbmc.log import logger

FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC", "-w")
# For this processor, by its name in gcc and in clang; else for any of its kind.
TUNINGS = (("-march=native",), ("-mcpu=native",), ())
SECONDS = 60
HEADERS = Path(__file__).parent  # what sources include


class NoLibrary(Exception):
    """There is no compiled code, and why."""


def load(source: Path) -> ctypes.CDLL:
    """The compiled source, from the user's cache or made now.

    A library's name is a hash of its source, the headers, the flags and what the compiler says of
    itself and of the processor, so that machines may share a cache. It is made elsewhere and
    renamed: processes that do this at once all find it whole.

    Args:
        source: one C file that needs nothing but the standard library and the headers here.

    Returns:
        The library, whose functions run without Python's lock.

    Raises:
        NoLibrary: no compiler, or none that succeeds.
    """
    reasons = []
    for compiler in _compilers():
        for tuning in TUNINGS:
            command = [*compiler, *FLAGS, *tuning]
            try:
                return _cached(command, source)
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


def _cached(command: list[str], source: Path) -> ctypes.CDLL:
    # All that the compiler defines: its version, and each extension of the processor.
    described = _run([*command, "-E", "-dM", "-x", "c", os.devnull])
    headers = [header.read_bytes() for header in sorted(HEADERS.glob("*.h"))]
    parts = [source.read_bytes(), *headers, shlex.join(command).encode(), described]
    name = f"{source.stem}-{hashlib.sha256(b'|'.join(parts)).hexdigest()[:32]}.so"
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / name
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as scratch:
                made = _compile(command, source, Path(scratch) / name)
                os.replace(made, kept)
            logger.debug("native code: compiled %s by %s", kept, command[0])
    except (OSError, RuntimeError) as error:  # no home, or one that cannot be written to
        logger.debug("native code: nothing is kept (%s)", error)
        # A loaded library stays in memory when its file is gone.
        with tempfile.TemporaryDirectory(prefix="sbmc-") as scratch:
            return ctypes.CDLL(str(_compile(command, source, Path(scratch) / name)))
    try:
        return ctypes.CDLL(str(kept))
    except OSError:
        kept.unlink(missing_ok=True)  # damaged: made anew next time
        raise


def cache_folder() -> Path:
    """Where compiled code is kept: `XDG_CACHE_HOME`, or `.cache` in the user's home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    return base / "sbmc" / "native"


def _compile(command: list[str], source: Path, to: Path) -> Path:
    _run([*command, "-I", str(HEADERS), str(source), "-o", str(to), "-lm"])
    return to


def _run(command: list[str]) -> bytes:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoLibrary(lines[0] if lines else f"exit status {done.returncode}")
    return done.stdout
