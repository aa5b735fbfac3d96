"""Arrays from `.npz` files, with words for files that are none."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sbmc.checks import BadInput


def read_arrays(
    path: Path, names: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Read arrays of a `.npz` file; what else it holds is not unpacked.

    Args:
        path: of the file.
        names: arrays that have to be there.
        optional: arrays that may be there.

    Returns:
        The arrays by name, in the order asked for.

    Raises:
        BadInput: if the file cannot be read, or lacks an array.
    """
    try:
        with path.open("rb") as file:
            # np.load would take anything else for a plain array or a pickle, and speak of those.
            if not zipfile.is_zipfile(file):
                raise zipfile.BadZipFile("it is not a zip file")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                wanted = [name for name in (*names, *optional) if name in archive.files]
                arrays = {name: archive[name] for name in wanted}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"`{path}` must be an .npz archive, but reading failed: {error}.") from error
    missing = [name for name in names if name not in arrays]
    if missing:
        raise BadInput(f"`{path}` must have the arrays {', '.join(names)}, but lacks {missing}.")
    return arrays
