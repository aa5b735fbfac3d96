"""The compiled code that a kernel needs, or why there is none."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from sbmc.log import logger
from sbmc.model.kernels.native.build import NoLibrary
from sbmc.model.kernels.native.plan import NotAChain
from sbmc.model.kernels.native.shipped import OFF, VARIABLE, wanted


def is_available(load: Callable[[], ctypes.CDLL]) -> bool:
    """Whether `library_of` gives a library; it is looked for on the first call."""
    try:
        library_of(load)
    except NotAChain:
        return False
    return True


def library_of(load: Callable[[], ctypes.CDLL]) -> ctypes.CDLL:
    """The library that a kernel needs.

    Args:
        load: finds it, or raises `NoLibrary`.

    Raises:
        NotAChain: there is none, or `SBMC_NATIVE=0` says not to use it.
    """
    if wanted() == OFF:
        raise NotAChain(f"{VARIABLE}={OFF}")
    try:
        return load()
    except NoLibrary as error:
        logger.debug("native code: %s", error)
        raise NotAChain(str(error)) from error
