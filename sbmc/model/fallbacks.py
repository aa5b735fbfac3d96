"""Keeps warnings of `vmap` about slow operations from users, who can do nothing about them.

For an operation without a batching rule, such as an LSTM, torch goes through the particles one by
one and asks on standard error to file an issue. The warning comes from C++ and passes by Python's
filters.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
_inside = 0


@contextmanager
def without_fallback_warnings() -> Iterator[None]:
    """Switch the warnings off for the calls inside, and on again after the last of all threads.

    The switch is one for all threads, and torch does not say how it stands: a user who has switched
    the warnings off by hand gets them back.
    """
    global _inside
    switch = getattr(torch._C._functorch, "_set_vmap_fallback_warning_enabled", None)
    if switch is None:  # it is no public function, and may go
        yield
        return
    with _lock:
        _inside += 1
        switch(False)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                switch(True)
