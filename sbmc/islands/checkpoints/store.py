"""A folder of small files, on a disk or behind a URL, that are written completely or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sbmc.checks import Phrase, require
from sbmc.storage.files import CheckpointError, move_into_place

ARGUMENT = "checkpoint"
WRITABLE = "a folder that can be written to"
# The file that excludes a second run: see `lock.py`.
LOCK = ".lock"
# Writing takes seconds: an older temporary file was left by a process that died.
LEFT_BEHIND = 3600.0


class Store(ABC):
    """A folder, as a value that can be sent to other processes."""

    def read(self, name: str) -> bytes | None:
        """A file's contents; None if there is no such file.

        Raises:
            CheckpointError: it exists and cannot be read.
        """
        try:
            return self._read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            cause = f"{self.where(name)!r} could not be read ({error})"
            raise CheckpointError(f"The checkpoint's file {cause}.") from error

    def write(self, name: str, data: bytes) -> None:
        """Write a file under a temporary name and rename it: readers see the old one or the new.

        Raises:
            CheckpointError: it could not be written. The file that had that name is unchanged.
        """
        temporary = f".{name}.{os.getpid()}.{secrets.token_hex(4)}.part"
        try:
            self._put(temporary, name, data)
        except BaseException as error:
            with contextlib.suppress(Exception):
                self.remove(temporary)
            if not isinstance(error, Exception):
                raise
            raise CheckpointError(
                f"The checkpoint's file {self.where(name)!r} could not be written ({error}). "
                "Everything written before is intact, and the run can be resumed from there."
            ) from error

    def names(self, prefix: str = "") -> list[str]:
        """The names of the files, sorted, without temporary ones."""
        return sorted(
            name
            for name in self._listed()
            if name.startswith(prefix) and not _is_temporary(name) and name != LOCK
        )

    def sweep(self, age: float = LEFT_BEHIND) -> None:
        """Remove temporary files that were written more than `age` seconds ago."""
        for name in filter(_is_temporary, self._listed()):
            # Another run may have removed it meanwhile, and not every store has times of files.
            with contextlib.suppress(OSError, NotImplementedError):
                if time.time() - self._changed(name) > age:
                    self.remove(name)

    def probe(self, needed: int = 0, staying: Collection[str] = ()) -> None:
        """Check before a run that it can write: make the folder, write a file, and remove it.

        Args:
            needed: bytes that the run will need, including files that it will write again.
                This is checked on local disks only.
            staying: names of files that the run will not change; `needed` does not include them.

        Raises:
            BadInput: the folder cannot be made or written to, or has too little space.
        """
        try:
            self._make()
            # It has the name of a temporary file, so that a run that is killed here leaves an empty
            # folder.
            name = f".probe.{secrets.token_hex(4)}.part"
            self.write(name, b"sbmc")
            self.remove(name)
        except Exception as error:
            cause = error.__cause__ if isinstance(error, CheckpointError) else error
            require(False, ARGUMENT, WRITABLE, Phrase(f"{self.where()!r} ({cause})"))
        space = self._space(staying)
        if space is not None and space < needed:
            rule = f"a folder with {_size(needed)} of space"
            require(False, ARGUMENT, rule, Phrase(f"{self.where()!r} with {_size(space)}"))

    @abstractmethod
    def where(self, name: str = "") -> str:
        """The path or URL of a file, or of the folder."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def _read(self, name: str) -> bytes: ...

    @abstractmethod
    def _put(self, temporary: str, name: str, data: bytes) -> None: ...

    @abstractmethod
    def _listed(self) -> Iterator[str]: ...

    @abstractmethod
    def _changed(self, name: str) -> float: ...

    @abstractmethod
    def _make(self) -> None: ...

    def _space(self, staying: Collection[str]) -> int | None:
        return None


@dataclass(frozen=True)
class LocalStore(Store):
    """A folder on a disk of this machine, or one that it has mounted."""

    folder: str  # absolute, since workers may run in another folder

    def where(self, name: str = "") -> str:  # noqa: D102
        return os.path.join(self.folder, name) if name else self.folder

    def remove(self, name: str) -> None:  # noqa: D102
        Path(self.where(name)).unlink(missing_ok=True)

    def _read(self, name: str) -> bytes:
        return Path(self.where(name)).read_bytes()

    def _put(self, temporary: str, name: str, data: bytes) -> None:
        with open(self.where(temporary), "xb") as file:
            file.write(data)
        move_into_place(self.where(temporary), self.where(name))

    def _listed(self) -> Iterator[str]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            yield from os.listdir(self.folder)

    def _changed(self, name: str) -> float:
        return os.stat(self.where(name)).st_mtime

    def _make(self) -> None:
        os.makedirs(self.folder, exist_ok=True)

    def _space(self, staying: Collection[str]) -> int:
        """Bytes that are free, and those of files in this folder that may be written again."""
        rewritable = 0
        for entry in os.scandir(self.folder):
            with contextlib.suppress(FileNotFoundError):
                counts = entry.is_file() and entry.name not in staying
                rewritable += entry.stat().st_size if counts else 0
        return shutil.disk_usage(self.folder).free + rewritable


@dataclass(frozen=True)
class FsspecStore(Store):
    """A folder behind a URL, by fsspec: S3, Google Cloud, SFTP, HDFS and others.

    The remote file system renames a file. Object stores do that by a copy, which becomes visible
    when it is complete.
    """

    url: str

    def where(self, name: str = "") -> str:  # noqa: D102
        return f"{self.url.rstrip('/')}/{name}" if name else self.url

    def remove(self, name: str) -> None:  # noqa: D102
        system, path = self._at(name)
        with contextlib.suppress(FileNotFoundError):
            system.rm_file(path)

    def _at(self, name: str) -> tuple[Any, str]:
        """The file system, which fsspec makes once for each process, and a path in it."""
        system, folder = _file_system(self.url)
        return system, f"{folder.rstrip('/')}/{name}".rstrip("/")

    def _read(self, name: str) -> bytes:
        system, path = self._at(name)
        return system.cat_file(path)

    def _put(self, temporary: str, name: str, data: bytes) -> None:
        system, path = self._at(temporary)
        system.pipe_file(path, data)
        system.mv(path, self._at(name)[1])

    def _listed(self) -> Iterator[str]:
        system, folder = self._at("")
        system.invalidate_cache(folder)  # other processes may have written files
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for path in system.ls(folder, detail=False):
                yield path.rstrip("/").rpartition("/")[2]

    def _changed(self, name: str) -> float:
        system, path = self._at(name)
        return system.modified(path).timestamp()

    def _make(self) -> None:
        system, folder = self._at("")
        system.makedirs(folder, exist_ok=True)


def open_store(path: str | os.PathLike[str]) -> Store:
    """The store at a path, or at a URL if it has "://"; nothing is read or written yet.

    Raises:
        BadInput: fsspec does not know the URL's protocol, or lacks the package for it.

    Examples:
        >>> store = open_store("memory://runs/first")
        >>> store.write("a", b"bytes")
        >>> store.names(), store.read("a"), store.read("b")
        (['a'], b'bytes', None)
    """
    text = os.fspath(path)
    if "://" not in text:
        return LocalStore(os.path.abspath(text))
    require(not set("*[") & set(text), ARGUMENT, "a URL without `*` and `[`", text)
    try:
        system, folder = _file_system(text)
    except (ImportError, ValueError) as error:
        rule = "a path, or a URL of a file system that fsspec reaches"
        require(False, ARGUMENT, rule, Phrase(f"{text!r} ({error})"))
    protocol = system.protocol
    # `LocalStore` also waits until the bytes are on the disk.
    if "file" in ((protocol,) if isinstance(protocol, str) else protocol):
        return LocalStore(os.path.abspath(folder))
    return FsspecStore(text)


def _file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    from fsspec.core import url_to_fs

    return url_to_fs(url)


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(".part")


def _size(count: int) -> str:
    """Format a number of bytes for people to read.

    Examples:
        >>> _size(999), _size(1_234_000), _size(25_000_000_000)
        ('999 bytes', '1.2 MB', '25.0 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"
