"""Ray imported, connected and ended without its messages, which are not for users of sbmc."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator

# By default Ray uses the address that other machines see, and listens to all of them. With this
# variable it does not. The name is Ray's; it works on every system.
_ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def import_ray() -> None:
    """Import Ray without its messages, or name the extra that brings it."""
    # Ray raises a FutureWarning about later changes unless this is set.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with quietly():
        try:
            import ray  # noqa: F401
        except ImportError as error:
            raise ImportError("the executor 'ray' needs Ray: pip install 'sbmc[ray]'") from error


def shutdown() -> None:
    """End the connection, and the cluster if it was started for it."""
    import ray

    with quietly():
        ray.shutdown()


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppress the messages of Ray, which are not meant for users of sbmc."""
    log = logging.getLogger("ray")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


@contextlib.contextmanager
def one_machine() -> Iterator[None]:
    """Make Ray listen on the loopback interface only."""
    from ray._private import ray_constants

    had, environment = ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(_ONE_MACHINE)
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[_ONE_MACHINE] = "0"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = had
        del os.environ[_ONE_MACHINE]
        if environment is not None:
            os.environ[_ONE_MACHINE] = environment
