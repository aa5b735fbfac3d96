"""A folder for one run at a time, by a lock that ends with its process, however that ends."""

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
except ImportError:  # a system without such locks: only threads are kept apart
    fcntl = None  # type: ignore[assignment]

RULE = "one that no other process is at"
_REMEDY = "Wait until it has ended, or stop it; or give another folder"
_TRIES = 20
# What this process holds. A lock of the operating system does not tell the threads of one process
# apart. A fork of the process holds nothing of it, hence the process's number.
_held: dict[tuple[int, str], object] = {}


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str], argument: str = ARGUMENT) -> Iterator[None]:
    """Have a folder to oneself; one that is not there is made.

    The lock belongs to the process. Its workers write into the folder and need none. After a kill
    the file `.lock` may stay, which locks nobody out. Folders that were made and are empty at the
    end are removed again.

    Args:
        folder: on a disk of this machine, or one that it has mounted.
        argument: what error messages call it.

    Raises:
        BadInput: another process, or another thread of this one, has it.
    """
    real = os.path.realpath(folder)
    key, own = (os.getpid(), real), object()
    if _held.setdefault(key, own) is not own:
        holder = f"this process ({os.getpid()}) is at in another thread"
        raise BadInput(_words(argument, folder, holder))
    made: list[str] = []
    try:
        file = _lock_file(real, made, argument, folder)
        try:
            yield
        finally:
            if file is not None:
                # Removed while it is locked: see `_is_there`.
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(real, LOCK))
                file.close()
    finally:
        # From the innermost; one that holds something stays, and those around it.
        with contextlib.suppress(OSError):
            for each in reversed(made):
                os.rmdir(each)
        del _held[key]


@contextlib.contextmanager
def locked_checkpoint(location: CheckpointAt | None) -> Iterator[None]:
    """Have a checkpoint to oneself; nothing is done where there is none.

    A URL cannot be locked by any means that ends with the process. Two runs at one URL, of the same
    call, write files of the same bits, each of them whole.

    Args:
        location: the checkpoint.

    Raises:
        BadInput: another process, or another thread of this one, has it.
    """
    store = None if location is None else open_store(location.path)
    if isinstance(store, LocalStore):
        with locked(store.folder):
            yield
        return
    if store is not None:
        logger.info("%s has no lock: see that one run alone is at it", store.where())
    yield


def refuse_if_locked(location: CheckpointAt | None) -> None:
    """Refuse a checkpoint that a run is at, before anything is computed.

    Args:
        location: the checkpoint, if there is to be one.

    Raises:
        BadInput: another process, or another thread of this one, has it.
    """
    store = None if location is None else open_store(location.path)
    if isinstance(store, LocalStore) and os.path.exists(store.where(LOCK)):
        with locked(store.folder):
            pass


def _lock_file(
    real: str, made: list[str], argument: str, folder: str | os.PathLike[str]
) -> IO[bytes] | None:
    """The file of the lock, open and locked; None where there is no such thing.

    A disk that is full or can only be read is no reason to refuse a run that has ended; whoever
    has to write says so in words.
    """
    path = os.path.join(real, LOCK)
    for _ in range(_TRIES):
        try:
            _make(real, made)
            file = open(path, "a+b")  # noqa: SIM115
        except FileNotFoundError:
            continue  # a run that was refused has just removed the folder
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
            raise BadInput(_words(argument, folder, holder))
    raise BadInput(_words(argument, folder, "other processes begin and leave"))


def _make(folder: str, made: list[str]) -> None:
    """Make a folder and those around it, and note which were not there."""
    missing = []
    at = folder
    while not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(each)
            if each not in made:
                made.append(each)


def _try(file: IO[bytes], path: str) -> str:
    """Lock a file that is open: `locked`, `held`, `gone` or `unlockable`."""
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
    # Only to be read by those who are refused.
    with contextlib.suppress(OSError):
        file.truncate(0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"process {os.getpid()} on {platform.node()}, since {since}".encode())
        file.flush()
    return "locked"


def _is_there(file: IO[bytes], path: str) -> bool:
    """Whether the file has its name still: who had it may have removed it after we opened it."""
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


def _words(argument: str, folder: str | os.PathLike[str], holder: str) -> str:
    where = os.fspath(folder)
    return f"`{argument}` must be {RULE}, but got {where!r}, which {holder}. {_REMEDY}."
