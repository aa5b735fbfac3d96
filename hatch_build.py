"""Puts compiled kernels into a wheel if SBMC_BUILD_KERNELS=1; else the wheel is for all systems.

The C code in sbmc/model/kernels/native is compiled for each instruction set of `SETS`, all of it
into one library a set, with the zig compiler (which is a clang that knows old versions of glibc).
The library needs no Python and nothing but the C library, so one wheel serves every Python 3. It is
tagged linux_MACHINE, which no index takes: `auditwheel repair` looks at the symbols and gives it
the tag of a manylinux (`make wheel`). `SBMC_BUILD_CC` names another compiler than zig.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH, COMPILER = "SBMC_BUILD_KERNELS", "SBMC_BUILD_CC"
ZIG = "ziglang==0.17.0"
GLIBC = "2.17"  # the oldest that the libraries run with
FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC", "-w")
# By machine, from the oldest processors on: the set's name for the user and for gcc, its name for
# zig, and the least answer of `sbmc_level` in processor.c for which it runs.
SETS = {
    "x86_64": (
        ("x86-64", "x86_64", 1),
        ("x86-64-v3", "x86_64_v3", 3),
        ("x86-64-v4", "x86_64_v4", 4),
    ),
    "aarch64": (("armv8-a", "generic", 1),),
}
NATIVE = "sbmc/model/kernels/native"


class CompiledKernels(BuildHookInterface):
    """Compiles, and adds what it has compiled to the wheel."""

    def dependencies(self) -> list[str]:
        """The compiler, as a package that pip gets for the build alone."""
        return [ZIG] if os.environ.get(SWITCH) == "1" and not os.environ.get(COMPILER) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless this is an editable installation or nobody asked for it."""
        self._folder: str | None = None
        if version == "editable" or os.environ.get(SWITCH) != "1":
            return
        machine = platform.machine()
        if sys.platform != "linux" or machine not in SETS:
            known = ", ".join(SETS)
            raise SystemExit(
                f"{SWITCH}=1 is for Linux on {known}, not {sys.platform} on {machine}."
            )
        self._folder = tempfile.mkdtemp(prefix="sbmc-kernels-")
        for file in compile_kernels(Path(self.root) / NATIVE, Path(self._folder), machine):
            build_data["force_include"][str(file)] = f"{NATIVE}/libraries/{file.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{machine}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel by now."""
        if self._folder is not None:
            shutil.rmtree(self._folder)


def compile_kernels(
    sources: Path, folder: Path, machine: str, flags: tuple[str, ...] = FLAGS
) -> list[Path]:
    """Compile all C code for each instruction set, and describe what was made.

    Args:
        sources: the folder of the C code.
        folder: where the libraries and `kernels.json` go.
        machine: a key of `SETS`.
        flags: of the compiler.

    Returns:
        The files.
    """
    code = sorted(sources.glob("*.c"))
    made = []
    sets = []
    for name, zig_name, level in SETS[machine]:
        library = folder / f"kernels-{name}.so"
        command = [*_compiler(machine, name, zig_name), *flags, "-s", "-I", str(sources)]
        subprocess.run([*command, *map(str, code), "-o", str(library), "-lm"], check=True)
        made.append(library)
        sets.append({"name": name, "level": level, "file": library.name})
    description = {
        "sources": source_digest(sources),
        "compiler": _compiler_version(),
        "flags": list(flags),
        "sets": sets,
    }
    written = folder / "kernels.json"
    written.write_text(json.dumps(description, indent=1) + "\n", "utf-8")
    return [*made, written]


def source_digest(folder: Path) -> str:
    """The digest of the C code, as `sbmc.model.kernels.native.shipped` computes it."""
    files = sorted([*folder.glob("*.c"), *folder.glob("*.h")], key=lambda path: path.name)
    parts = [part for path in files for part in (path.name.encode(), path.read_bytes())]
    return hashlib.sha256(b"|".join(parts)).hexdigest()


def _compiler(machine: str, name: str, zig_name: str) -> list[str]:
    chosen = shlex.split(os.environ.get(COMPILER, ""))
    if chosen:
        return [*chosen, f"-march={name}"]
    zig = [sys.executable, "-m", "ziglang", "cc"]
    return [*zig, "-target", f"{machine}-linux-gnu.{GLIBC}", f"-mcpu={zig_name}"]


def _compiler_version() -> str:
    chosen = shlex.split(os.environ.get(COMPILER, ""))
    command = [*chosen, "-dumpversion"] if chosen else [sys.executable, "-m", "ziglang", "version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return f"{Path(chosen[0]).name if chosen else 'zig'} {answer}"
