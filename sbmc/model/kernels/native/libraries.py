"""All libraries of compiled code, and how to forget which of them were loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sbmc.model.kernels.native import (
    adam,
    chain,
    chain_batches,
    head,
    head_batches,
    planes,
    sgd,
    steps,
)

# The modules that load one each, by what their code does.
_MODULES: dict[str, Any] = {
    "chains of layers": chain,
    "linear heads": head,
    "first convolution": planes,
    "mini-batches of chains": chain_batches,
    "mini-batches of heads": head_batches,
    "steps on mini-batches": steps,
    "training by Adam": adam,
    "training by SGD": sgd,
}

# Their source, and the functions in it.
LIBRARIES: dict[str, tuple[Path, Sequence[Any]]] = {
    name: (module.SOURCE, module.FUNCTIONS) for name, module in _MODULES.items()
}


def forget_loaded() -> None:
    """Let the next use of a library load it anew, such as after a change of `SBMC_NATIVE`."""
    for module in _MODULES.values():
        if module is not planes:
            module._load.cache_clear()
    planes._found = planes._Found()
