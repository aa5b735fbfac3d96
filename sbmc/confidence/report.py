"""The report of an evaluation: flat metrics for a record, small arrays for figures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from sbmc.checks import BadInput, require, require_path


@dataclass(frozen=True, eq=False, repr=False)
class ConfidenceReport:
    """Metrics and curves of the confidence meta-classifier for one posterior and one protocol.

    Attributes:
        protocol: `"paper"` or `"clean"`.
        metrics: flat, with dotted names.
        arrays: small ones for figures, with dotted names.
    """

    protocol: str
    metrics: dict[str, float]
    arrays: dict[str, np.ndarray]

    def save(self, path: str | Path) -> Path:
        """Write the arrays as one `.npz` file, atomically.

        Args:
            path: ends in `.npz`; its folder exists.

        Returns:
            The path.

        Raises:
            BadInput: another ending, or no such folder.
        """
        final = require_path("path", path)
        require(final.suffix == ".npz", "path", "one that ends in .npz", str(path))
        require(final.parent.is_dir(), "path", "in an existing folder", str(path))
        unfinished = final.with_name(f".{final.stem}.{os.getpid()}.npz")
        try:
            np.savez_compressed(unfinished, **self.arrays)  # type: ignore[arg-type]
            unfinished.replace(final)
        finally:
            unfinished.unlink(missing_ok=True)
        return final

    def __repr__(self) -> str:
        return f"ConfidenceReport({self.protocol!r}, metrics={len(self.metrics)})"


def load_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Read the arrays that `ConfidenceReport.save` wrote."""
    file_path = require_path("path", path)
    require(file_path.is_file(), "path", "an existing file", str(path))
    try:
        with np.load(file_path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, AttributeError, BadZipFile) as error:
        # NumPy's own words, which are above, speak of arguments of `numpy.load`.
        rule = "a file of arrays (.npz)"
        raise BadInput(f"`path` must be {rule}, but got {str(file_path)!r}.") from error
