"""Sends jobs to other processes and their results back, as pickled bytes."""

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
from sbmc.islands.executors.contract import Done, ProgressCallback, WorkerLost, run_in_worker
from sbmc.islands.job import Batch
from sbmc.target.shards import RankLost

if TYPE_CHECKING:
    from sbmc.islands.job import Job

# A packed job, or a function that fetches it.
Payload = bytes | Callable[[], bytes]


def pack_job(job: Job, checkpoint_files: CheckpointFiles | None) -> bytes:
    """Pack a job as bytes, with the code that was defined in a script, a notebook or a lambda.

    Raises:
        BadInput: a part of it cannot be pickled.
    """
    try:
        packed = cloudpickle.dumps((job, checkpoint_files), protocol=pickle.HIGHEST_PROTOCOL)
        # The search path is packed separately: a worker has to set it before it unpacks the job.
        return pickle.dumps(([path or os.getcwd() for path in sys.path], packed))
    except Exception as error:
        raise BadInput(
            "`executor` must be 'in-process' for this model, data and likelihood, which cannot be "
            f"sent to other processes: {type(error).__name__}: {error}"
        ) from error


def digest_of(payload: bytes) -> str:
    """The digest that identifies a payload."""
    return hashlib.sha256(payload).hexdigest()


class _Unpacked(NamedTuple):
    digest: str
    job: Job
    checkpoint_files: CheckpointFiles | None
    turn: contextlib.AbstractContextManager[Any]


_newest: _Unpacked | None = None
_unpacking = threading.Lock()


def _unpack(payload: Payload, digest: str) -> _Unpacked:
    """Unpack what `pack_job` packed, once in every process.

    Raises:
        BadInput: a part of it cannot be unpickled in this process.
    """
    global _newest
    # Threads of one process wait for the first of them: building a target traces the model, and
    # tracing is not safe in two threads at a time.
    with _unpacking:
        if _newest is None or _newest.digest != digest:
            data = _fetched(payload)
            try:
                paths, packed = pickle.loads(data)
                # At the end, so that modules of this machine come first.
                sys.path += [path for path in paths if path not in sys.path]
                job, checkpoint_files = pickle.loads(packed)
            except Exception as error:
                raise BadInput(
                    "`executor` must be one whose workers can import what the model, data and "
                    f"likelihood need, but got {type(error).__name__}: {error}"
                ) from error
            _newest = _Unpacked(digest, job, checkpoint_files, _turn(job))
        return _newest


def _fetched(payload: Payload) -> bytes:
    try:
        return payload() if callable(payload) else payload
    except Exception as error:
        raise WorkerLost(f"the job did not arrive: {type(error).__name__}: {error}") from error


def _turn(job: Job) -> contextlib.AbstractContextManager[Any]:
    """A lock for models that hold a particle's weights during an evaluation."""
    return contextlib.nullcontext() if job.engine.shareable else threading.Lock()


def attempt(
    payload: Payload,
    digest: str,
    batch: Batch,
    report_progress: ProgressCallback,
    stop: Callable[[], bool],
) -> bytes:
    """Run a batch of a packed job. Errors are returned, not raised.

    Returns:
        Islands or an error, as bytes for `as_done`.
    """
    try:
        unpacked = _unpack(payload, digest)
        with unpacked.turn:
            islands = run_in_worker(
                unpacked.job, batch, unpacked.checkpoint_files, report_progress, stop
            )
        answer: tuple[str, Any] = ("islands", islands)
    except Stopped as error:
        answer = ("error", error)
    except BaseException as error:  # a model that calls sys.exit() ends its island, not the worker
        answer = ("error", _sendable(error))
    return cloudpickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)


def as_done(batch: Batch, answer: bytes) -> Done:
    """Unpack what `attempt` has returned for a batch."""
    try:
        kind, value = pickle.loads(answer)
    except Exception as error:  # such as an error of a class that only the worker can import
        return Done(batch, error=error)
    if kind == "islands":
        return Done(batch, islands=value)
    return Done(batch, error=value, lost=isinstance(value, WorkerLost | RankLost))


def _sendable(error: BaseException) -> BaseException:
    """The error itself, or its text as a RuntimeError if it cannot be pickled."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
        # These would end the parent process, if they were raised there.
        return RuntimeError(text)
    try:
        copy = pickle.loads(cloudpickle.dumps(error))
        survives = type(copy) is type(error) and str(copy) == str(error)
    except Exception:
        survives = False
    return error if survives else RuntimeError(text)
