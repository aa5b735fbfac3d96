"""Reserves a folder for one run at a time, by a lock that ends with its process."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from typing import IO

from sbmc.checks import BadInput
from sbmc.islands.checkpoints.options import CheckpointAt
from sbmc.islands.checkpoints.store import ARGUMENT, LOCK, LocalStore, open_store
from sbmc.log import logger

try:
    import fcntl
except ImportError:  # a system without such locks: only threads of this process exclude each other
    fcntl = None  # type: ignore[assignment]

RULE = "one that no other process is at"
_REMEDY = "Wait until it has ended, or stop it; or give another folder"
_TRIES = 20
# The locks that this process holds. A lock of the operating system does not exclude other threads
# of the same process. A fork of the process does not hold them, hence the process number in the
# key.
_held: dict[tuple[int, str], object] = {}


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str], argument: str = ARGUMENT) -> Iterator[None]:
    """Lock a folder, which is made if it is missing.

    The lock belongs to the process. Its workers write into the folder and need no lock. After a
    kill the file `.lock` may remain, but it locks nothing. Folders that were made here and are
    empty at the end are removed.

    Args:
        folder: on a disk of this machine, or one that it has mounted.
        argument: the name of the argument, for error messages.

    Raises:
        BadInput: another process, or another thread of this one, has locked it.
    """
    real = os.path.realpath(folder)
    key, token = (os.getpid(), real), object()
    if _held.setdefault(key, token) is not token:
        holder = f"this process ({os.getpid()}) is at in another thread"
        raise BadInput(_refusal(argument, folder, holder))
    created: list[str] = []
    try:
        file = _lock_file(real, created, argument, folder)
        try:
            yield
        finally:
            if file is not None:
                # It is removed while it is locked: see `_is_there`.
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(real, LOCK))
                file.close()
    finally:
        # The innermost first. A folder that is not empty stays, and so do those around it.
        with contextlib.suppress(OSError):
            for each in reversed(created):
                os.rmdir(each)
        del _held[key]


@contextlib.contextmanager
def locked_checkpoint(location: CheckpointAt | None) -> Iterator[None]:
    """Lock a checkpoint, if there is one.

    A URL cannot be locked in a way that ends with the process. Two runs of the same call at one URL
    write complete files with the same bits.

    Args:
        location: where the checkpoint is; None for no checkpoint.

    Raises:
        BadInput: another process, or another thread of this one, has locked it.
    """
    store = None if location is None else open_store(location.path)
    if isinstance(store, LocalStore):
        with locked(store.folder):
            yield
        return
    if store is not None:
        logger.info("%s cannot be locked: make sure that only one run uses it", store.where())
    yield


def refuse_if_locked(location: CheckpointAt | None) -> None:
    """Refuse a checkpoint that another run uses, before anything is computed.

    Args:
        location: where the checkpoint is; None for no checkpoint.

    Raises:
        BadInput: another process, or another thread of this one, has locked it.
    """
    store = None if location is None else open_store(location.path)
    if isinstance(store, LocalStore) and os.path.exists(store.where(LOCK)):
        with locked(store.folder):
            pass


def _lock_file(
    real: str, created: list[str], argument: str, folder: str | os.PathLike[str]
) -> IO[bytes] | None:
    """The file of the lock, open and locked; None where files cannot be locked.

    A full or read-only disk is no reason to refuse a run that has ended. A run that has to write
    reports that itself.
    """
    path = os.path.join(real, LOCK)
    for _ in range(_TRIES):
        try:
            _make(real, created)
            file = open(path, "a+b")  # noqa: SIM115
        except FileNotFoundError:
            continue  # another run has just removed the folder
        except OSError as error:
            logger.info("%s cannot be locked (%s)", folder, error)
            return None
        try:
            state = _try(file, path)
            if state == "locked":
                return file
            holder = _holder(file)
        except BaseException:
            file.close()
            raise
        file.close()
        if state == "unlockable":
            return None
        if state == "held":
            raise BadInput(_refusal(argument, folder, holder))
    raise BadInput(_refusal(argument, folder, "other processes begin and leave"))


def _make(folder: str, created: list[str]) -> None:
    """Make a folder and those around it, and add those that were missing to `created`."""
    missing = []
    at = folder
    while not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(each)
            if each not in created:
                created.append(each)


def _try(file: IO[bytes], path: str) -> str:
    """Lock an open file; return `locked`, `held`, `gone` or `unlockable`."""
    if fcntl is None:
        return "unlockable"
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return "held"
    except OSError as error:  # a file system without locks
        logger.info("%s cannot be locked (%s)", path, error)
        return "unlockable"
    if not _is_there(file, path):
        return "gone"
    # This text is for the error messages of other processes.
    with contextlib.suppress(OSError):
        file.truncate(0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"process {os.getpid()} on {platform.node()}, since {since}".encode())
        file.flush()
    return "locked"


def _is_there(file: IO[bytes], path: str) -> bool:
    """Whether the file still has its name: another process may have removed it meanwhile."""
    try:
        return os.fstat(file.fileno()).st_ino == os.stat(path).st_ino
    except FileNotFoundError:
        return False


def _holder(file: IO[bytes]) -> str:
    with contextlib.suppress(OSError):
        file.seek(0)
        text = file.read(200).decode("utf-8", "replace").strip()
        if text.isprintable() and text.startswith("process "):
            who, _, since = text.partition(", since ")
            return f"{who} has been at since {since}" if since else f"{who} is at"
    return "another process is at"


def _refusal(argument: str, folder: str | os.PathLike[str], holder: str) -> str:
    where = os.fspath(folder)
    return f"`{argument}` must be {RULE}, but got {where!r}, which {holder}. {_REMEDY}."
