"""The provenance of results: versions of the software, and the machine."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import sbmc


def software_versions() -> dict[str, str]:
    """The versions of Python and of the packages that decide the last bits."""
    packages = {name: metadata.version(name) for name in ("torch", "numpy", "scikit-learn")}
    return {"python": platform.python_version(), "sbmc": sbmc.__version__, **packages}


def hardware_summary() -> dict[str, Any]:
    """Describe the machine as far as it explains a wall time, without identifying it."""
    import torch

    return {
        "machine": platform.machine(),
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
    }


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
