"""What `sbmc doctor` looks at: versions, compiled code, threads, memory, extras."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import numpy
import torch

from sbmc import __version__
from sbmc.islands.executors.contract import available_cores
from sbmc.islands.process_memory import format_bytes, resident_bytes
from sbmc.model.kernels.native import (
    adam,
    build,
    chain,
    chain_batches,
    head,
    head_batches,
    planes,
    sgd,
    steps,
)

# What each extra brings, by the names of the packages.
EXTRAS = {
    "ray": ("ray",),
    "arviz": ("arviz",),
    "laplace": ("laplace-torch",),
    "nuts": ("nutpie", "arviz"),
    "text": ("sentence-transformers",),
    "language": ("transformers", "gguf", "accelerate"),
    "vision": ("torchvision", "pillow"),
    "plots": ("matplotlib",),
    "pandas": ("pandas",),
    "conformal": ("mapie",),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "tables": ("catboost", "xgboost-cpu"),
}
VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

Sections = dict[str, dict[str, str]]


def examine() -> Sections:
    """Look at everything that decides how fast, and whether, the library runs here.

    Returns:
        Lines by section and name. The user's home folder is written as `~`.
    """
    sections = {
        "versions": _versions(),
        "compiled code": _compiled(),
        "threads": _threads(),
        "memory": _memory(),
        "extras": _extras(),
    }
    return {
        heading: {name: _without_home(line) for name, line in lines.items()}
        for heading, lines in sections.items()
    }


def _without_home(text: str) -> str:
    try:
        home = str(Path.home())
    except RuntimeError:  # there is none
        return text
    return text if home in ("", "/") else text.replace(home, "~")


def _versions() -> dict[str, str]:
    return {
        "sbmc": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "torch": f"{torch.__version__}, CUDA {'yes' if torch.cuda.is_available() else 'no'}",
        "numpy": numpy.__version__,
        "system": platform.platform(),
    }


def _compiled() -> dict[str, str]:
    off = os.environ.get("SBMC_NATIVE", "").strip() == "0"
    lines = {"compiler": _compiler()}
    libraries = {
        "chains of layers": (chain.SOURCE, chain.FUNCTIONS),
        "linear heads": (head.SOURCE, head.FUNCTIONS),
        "first convolution": (planes.SOURCE, planes.FUNCTIONS),
        "mini-batches of chains": (chain_batches.SOURCE, chain_batches.FUNCTIONS),
        "mini-batches of heads": (head_batches.SOURCE, head_batches.FUNCTIONS),
        "steps on mini-batches": (steps.SOURCE, steps.FUNCTIONS),
        "training by Adam": (adam.SOURCE, adam.FUNCTIONS),
        "training by SGD": (sgd.SOURCE, sgd.FUNCTIONS),
    }
    for name, (source, functions) in libraries.items():
        try:
            build.load(source, functions)
            lines[name] = "C code, compiled and loaded"
        except build.NoLibrary as error:
            lines[name] = f"torch, since there is no C code ({error})"
        if off:
            lines[name] = "torch, since SBMC_NATIVE=0"
    lines["cache"] = _cache()
    return lines


def _compiler() -> str:
    commands = build._compilers()
    if not commands:
        return "none; install gcc or clang, or set CC, for faster kernels"
    try:
        lines = build._run([*commands[0], "--version"]).decode(errors="replace").splitlines()
    except (build.NoLibrary, OSError) as error:
        return f"{' '.join(commands[0])} ({error})"
    return f"{' '.join(commands[0])} ({lines[0] if lines else 'no version'})"


def _cache() -> str:
    try:
        folder = build.cache_folder()
    except RuntimeError as error:
        return f"none ({error})"
    if not folder.is_dir():
        return f"{folder} (not there)"
    fault = build.why_unsafe(folder)
    count = len(list(folder.glob("*.so")))
    return f"{folder} ({f'not used, since {fault}' if fault else f'{count} libraries'})"


def _threads() -> dict[str, str]:
    lines = {
        "cores": str(available_cores()),
        "torch": str(torch.get_num_threads()),
    }
    return lines | {name: os.environ.get(name, "not set") for name in VARIABLES}


def _memory() -> dict[str, str]:
    lines = {"this process": format_bytes(resident_bytes())}
    names = {"machine": "SC_PHYS_PAGES", "free": "SC_AVPHYS_PAGES"}
    for name, setting in names.items():
        if setting in getattr(os, "sysconf_names", {}):
            lines[name] = format_bytes(os.sysconf(setting) * os.sysconf("SC_PAGE_SIZE"))
    return lines


def _extras() -> dict[str, str]:
    return {extra: _extra(extra, packages) for extra, packages in EXTRAS.items()}


def _extra(extra: str, packages: tuple[str, ...]) -> str:
    versions, missing = [], []
    for package in packages:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            missing.append(package)
    if not missing:
        return ", ".join(versions)
    return f"{', '.join(missing)} missing: pip install 'sbmc[{extra}]'"
