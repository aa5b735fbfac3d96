"""What `sbmc doctor` looks at: versions, compiled code, threads, memory, data, extras."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import numpy
import torch

from sbmc import __version__
from sbmc.cli.kernel_check import check_kernel
from sbmc.datasets.locate import cache_dir
from sbmc.islands.executors.contract import available_cores
from sbmc.islands.process_memory import format_bytes, resident_bytes

# What each extra brings, by the names of the packages.
EXTRAS = {
    "ray": ("ray",),
    "arviz": ("arviz",),
    "laplace": ("laplace-torch",),
    "nuts": ("nutpie", "arviz"),
    "text": ("sentence-transformers",),
    "language": ("transformers", "gguf", "accelerate", "peft"),
    "vision": ("torchvision", "pillow"),
    "plots": ("matplotlib",),
    "pandas": ("pandas",),
    "conformal": ("mapie",),
    "botorch": ("botorch",),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "serve": ("starlette", "uvicorn"),
    "hub": ("huggingface_hub",),
    "parquet": ("pyarrow",),
    "tables": ("catboost", "xgboost-cpu"),
}
VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

Sections = dict[str, dict[str, str]]


def examine() -> tuple[Sections, str]:
    """Look at everything that decides how fast, and whether, the library runs here.

    Returns:
        Lines by section and name, and why compiled code does not run; empty if it does, or if it is
        turned off. The user's home folder is written as `~`.
    """
    kernel = check_kernel()
    sections = {
        "versions": _versions(),
        "compiled code": kernel.lines,
        "threads": _threads(),
        "memory": _memory(),
        "data": _data(),
        "extras": _extras(),
    }
    shown = {
        heading: {name: _without_home(line) for name, line in lines.items()}
        for heading, lines in sections.items()
    }
    return shown, _without_home(kernel.fault)


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


def _data() -> dict[str, str]:
    given = os.environ.get("SBMC_DATA", "").strip()
    lines = {"SBMC_DATA": _folder(Path(given).expanduser()) if given else "not set"}
    try:
        return lines | {"cache": _folder(cache_dir())}
    except RuntimeError as error:  # no home
        return lines | {"cache": f"none ({error})"}


def _folder(path: Path) -> str:
    return str(path) if path.is_dir() else f"{path} (not there)"


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
