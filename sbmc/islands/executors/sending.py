"""Work on its way to other processes, and how it fared there on its way back."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle

from sbmc.checks import BadInput
from sbmc.islands.checkpoints import CheckpointFiles, Stopped
from sbmc.islands.executors.contract import Done, Tell, WorkerLost, run_in_worker
from sbmc.islands.work import Batch

if TYPE_CHECKING:
    from sbmc.islands.work import Work

# Packed work, or whatever fetches it.
Payload = bytes | Callable[[], bytes]


def pack_work(work: Work, checkpoint_files: CheckpointFiles | None) -> bytes:
    """Work as bytes. What was defined in a script, a notebook or a lambda is sent whole.

    Raises:
        BadInput: something in it cannot be pickled.
    """
    try:
        packed = cloudpickle.dumps((work, checkpoint_files), protocol=pickle.HIGHEST_PROTOCOL)
        # Apart: other processes must look where this one did before they unpack the work.
        return pickle.dumps(([path or os.getcwd() for path in sys.path], packed))
    except Exception as error:
        raise BadInput(
            "`executor` must be 'in-process' for this model, data and likelihood, which cannot be "
            f"sent to other processes: {type(error).__name__}: {error}"
        ) from error


def digest_of(payload: bytes) -> str:
    """What a payload is known by."""
    return hashlib.sha256(payload).hexdigest()


class _Unpacked(NamedTuple):
    digest: str
    work: Work
    checkpoint_files: CheckpointFiles | None
    turn: contextlib.AbstractContextManager[Any]


_newest: _Unpacked | None = None
_unpacking = threading.Lock()


def _unpack(payload: Payload, digest: str) -> _Unpacked:
    """What `pack_work` was given; unpacked once in every process.

    Raises:
        BadInput: something in it cannot be made here.
    """
    global _newest
    # Threads of one process wait for the first of them: building a target traces the model, which
    # bears no company.
    with _unpacking:
        if _newest is None or _newest.digest != digest:
            data = _fetched(payload)
            try:
                paths, packed = pickle.loads(data)
                # Last: what is found here already stays what it is.
                sys.path += [path for path in paths if path not in sys.path]
                work, checkpoint_files = pickle.loads(packed)
            except Exception as error:
                raise BadInput(
                    "`executor` must be one whose workers can import what the model, data and "
                    f"likelihood need, but got {type(error).__name__}: {error}"
                ) from error
            _newest = _Unpacked(digest, work, checkpoint_files, _turn(work))
        return _newest


def _fetched(payload: Payload) -> bytes:
    try:
        return payload() if callable(payload) else payload
    except Exception as error:
        raise WorkerLost(f"the work did not arrive: {type(error).__name__}: {error}") from error


def _turn(work: Work) -> contextlib.AbstractContextManager[Any]:
    """Threads of one process take turns with a model that holds a particle's weights meanwhile."""
    return contextlib.nullcontext() if work.engine.shareable else threading.Lock()


def attempt(
    payload: Payload, digest: str, batch: Batch, tell: Tell, stop: Callable[[], bool]
) -> bytes:
    """Run a batch of packed work; whatever becomes of it is returned, and nothing raised.

    Returns:
        Bytes for `as_done`.
    """
    try:
        own = _unpack(payload, digest)
        with own.turn:
            islands = run_in_worker(own.work, batch, own.checkpoint_files, tell, stop)
        said: tuple[str, Any] = ("islands", islands)
    except Stopped as error:
        said = ("error", error)
    except BaseException as error:  # a model that calls sys.exit() ends its island, not the worker
        said = ("error", _sendable(error))
    return cloudpickle.dumps(said, protocol=pickle.HIGHEST_PROTOCOL)


def as_done(batch: Batch, answer: bytes) -> Done:
    """What `attempt` has returned for a batch."""
    try:
        kind, value = pickle.loads(answer)
    except Exception as error:  # such as an error of a class that only the worker can import
        return Done(batch, error=error)
    if kind == "islands":
        return Done(batch, islands=value)
    return Done(batch, error=value, lost=isinstance(value, WorkerLost))


def _sendable(error: BaseException) -> BaseException:
    """The error, or its words where it does not survive being sent."""
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
        # These would end the driver, if they were raised there.
        return RuntimeError(words)
    try:
        again = pickle.loads(cloudpickle.dumps(error))
        whole = type(again) is type(error) and str(again) == str(error)
    except Exception:
        whole = False
    return error if whole else RuntimeError(words)
