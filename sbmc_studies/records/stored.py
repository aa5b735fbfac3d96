"""The records of the repository, as one file of the package: tables work wherever it is installed.

The file has every JSON file of `experiments/records`, byte for byte: all that tables, claims and
the figure `epochs` are made from. Arrays of the meta-classifier, which the other figures draw, are
left out for their size. After records have changed, `make records` writes the file again; a test
compares it with the folder.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from functools import cache
from pathlib import Path

from sbmc.storage.files import atomic_write

ARCHIVE = Path(__file__).with_name("stored.tar.xz")
FOLDER = Path("experiments", "records")
# Of a clone, if the package is installed from it (pip install --editable).
REPOSITORY = Path(__file__).parents[2] / FOLDER


def stored_records() -> Path:
    """The folder of the stored records.

    Returns:
        That of a clone of the repository, if the working folder is one or the package is installed
        from one. Otherwise the file of the package is unpacked into a temporary folder, which is
        removed when the process ends.
    """
    folders = [folder for folder in (FOLDER, REPOSITORY) if folder.is_dir()]
    return folders[0] if folders else unpacked_records()


def unpacked_records() -> Path:
    """A temporary folder with what the file of the package holds."""
    return Path(_unpacked().name)


@cache
def _unpacked() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="sbmc-records-")
    with tarfile.open(ARCHIVE) as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            assert content is not None, "the archive has files alone"
            path = Path(folder.name, entry.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
    return folder


def pack_records(records: Path, target: Path) -> int:
    """Write the JSON files of a folder of records into one compressed file.

    The same records always give the same bytes.

    Args:
        records: the folder.
        target: the file.

    Returns:
        How many files it has.
    """
    paths = sorted(records.rglob("*.json"))
    with atomic_write(target) as temporary, tarfile.open(temporary, "w:xz", preset=9) as archive:
        for path in paths:
            content = path.read_bytes()
            entry = tarfile.TarInfo(path.relative_to(records).as_posix())
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return len(paths)


if __name__ == "__main__":
    print(f"{ARCHIVE}: {pack_records(REPOSITORY, ARCHIVE)} records")
