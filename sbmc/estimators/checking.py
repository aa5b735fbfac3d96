"""Checks of an estimator's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from sbmc.checks import BadInput, describe_value, is_whole, nearest, require

MOST_THREADS = 10_000


def checked_options(
    options: Mapping[str, Any] | None, name: str, function: Callable[..., Any]
) -> dict[str, Any]:
    """Options for a function, all of which it knows.

    Args:
        options: by name; None for none.
        name: the argument.
        function: what they are handed to.

    Returns:
        The options.

    Raises:
        BadInput: they are no dict, or the function has no such argument.
    """
    rule = f"a dict of options of sbmc.{function.__name__}, or None"
    require(options is None or isinstance(options, Mapping), name, rule, options)
    known = list(signature(function).parameters)
    for option in options or {}:
        if option not in known:
            shown, hint = describe_value(option), nearest(str(option), known)
            raise BadInput(f"`{name}` must be {rule}, but got the option {shown}.{hint}")
    return dict(options or {})


def as_random_state(value: Any) -> np.random.RandomState:
    """The random state of an estimator.

    Raises:
        BadInput: it is neither None, nor an integer, nor a `RandomState`.
    """
    try:
        return check_random_state(int(value) if is_whole(value) else value)
    except (TypeError, ValueError) as error:
        rule = "None, an integer from 0 to 2**32 - 1, or a numpy.random.RandomState"
        raise BadInput(
            f"`random_state` must be {rule}, but got {describe_value(value)}."
        ) from error


def thread_count(n_jobs: int | None) -> int | None:
    """Threads to compute with; None leaves the choice to torch.

    Raises:
        BadInput: it is neither None nor an integer other than 0.
    """
    if n_jobs is None:
        return None
    good = is_whole(n_jobs) and n_jobs != 0 and abs(n_jobs) <= MOST_THREADS
    require(good, "n_jobs", "an integer such as 2, -1 for all cores, or None", n_jobs)
    return effective_n_jobs(int(n_jobs))
