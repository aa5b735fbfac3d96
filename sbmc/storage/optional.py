"""Imports packages that may not be installed, when they are first needed; errors name the extra.

Some give warnings when they are imported. ArviZ 0.23 warns at its first import of a day that it
will be refactored, and remembers the day by a file in the user's cache. nutpie needs that ArviZ and
imports it by itself. A user of `fit` or of a diagnostic can do nothing about it, so this one
warning is suppressed during the import.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

ANNOUNCEMENT = r"\s*ArviZ is undergoing a major refactor"


def load_arviz() -> Any:
    """The package arviz, imported when it is first needed.

    Raises:
        ImportError: it is not installed; the message names the extra.
    """
    try:
        return _import_arviz()
    except ImportError as error:
        raise ImportError(
            "These diagnostics are computed by ArviZ, which is not installed: "
            "pip install 'sbmc[arviz]'"
        ) from error


def load_nutpie() -> tuple[Any, Any]:
    """The package nutpie, and its function that makes a model of Python functions.

    Raises:
        ImportError: nutpie, or the ArviZ that it imports, is not installed.
    """
    _import_arviz()
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    return nutpie, from_pyfunc


def load_laplace() -> Any:
    """The package laplace-torch, imported when it is first needed.

    Raises:
        ImportError: it is not installed; the message names the extra.
    """
    try:
        with without_script_warning():
            import laplace
    except ImportError as error:
        raise ImportError(
            "`laplace-torch` must be installed for the Laplace approximation: "
            "pip install 'sbmc[laplace]'."
        ) from error
    return laplace


class OnnxPackages(NamedTuple):
    """The packages that write and run ONNX files."""

    onnx: Any
    runtime: Any  # onnxruntime


def load_onnx() -> OnnxPackages:
    """The packages of the extra `onnx`, imported when they are first needed.

    Raises:
        ImportError: one of them is not installed; the message names the extra.
    """
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  (torch.onnx imports it)
    except ImportError as error:
        raise ImportError(
            f"ONNX files are written by onnx and onnxscript and tried in ONNX Runtime, and "
            f"{error.name} is not installed: pip install 'sbmc[onnx]'. A .pt2 file needs none "
            "of them."
        ) from error
    return OnnxPackages(onnx, onnxruntime)


def load_hub() -> Any:
    """The package huggingface_hub, imported when it is first needed.

    Raises:
        ImportError: it is not installed; the message names the extra.
    """
    return _load(
        "huggingface_hub",
        "Repositories of the Hugging Face Hub are fetched by huggingface_hub, which is not "
        "installed: pip install 'sbmc[hub]'. A local folder needs no package.",
    )


def load_pandas() -> Any:
    """The package pandas, imported when it is first needed.

    Raises:
        ImportError: it is not installed; the message names the extra.
    """
    return _load(
        "pandas",
        "Tables are made by pandas: pip install 'sbmc[pandas]'.",
    )


def load_parquet() -> Any:
    """The module pyarrow.parquet, imported when it is first needed.

    Raises:
        ImportError: pyarrow is not installed; the message names the extra.
    """
    return _load(
        "pyarrow.parquet",
        "Folders of Parquet files are read by pyarrow: pip install 'sbmc[parquet]'.",
    )


def load_peft() -> Any:
    """The package peft, imported when it is first needed.

    Raises:
        ImportError: it is not installed; the message names the extra.
    """
    return _load(
        "peft",
        "Adapters are written by peft, which is not installed: pip install 'sbmc[language]'.",
    )


def load_pillow() -> Any:
    """The module PIL.Image, imported when it is first needed.

    Raises:
        ImportError: Pillow is not installed; the message names the extra.
    """
    return _load(
        "PIL.Image",
        "Reading pictures needs Pillow: pip install 'sbmc[vision]'",
    )


def load_pyplot() -> Any:
    """The module matplotlib.pyplot, imported when it is first needed.

    Raises:
        ImportError: matplotlib is not installed; the message names the extra.
    """
    return _load(
        "matplotlib.pyplot",
        "Figures are drawn by matplotlib: pip install 'sbmc[plots]'.",
    )


def _load(module: str, sentence: str) -> Any:
    """Import a module, or say in a sentence what it is for and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(sentence) from error


@contextmanager
def without_script_warning() -> Iterator[None]:
    """Silence one warning of packages that laplace-torch uses, about which users can do nothing."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.script` is ", DeprecationWarning)
        yield


def _import_arviz() -> Any:
    # `catch_warnings` changes the filters of all threads: only where there is an import to be made.
    if "arviz" in sys.modules:
        import arviz

        return arviz
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ANNOUNCEMENT, FutureWarning)
        try:
            import arviz
        except FileNotFoundError:
            # Processes that import it at once write its file under one temporary name, and rename
            # it. Those that come too late to rename it find the file itself the second time.
            import arviz
    return arviz
