"""`sbmc.CheckpointAt`: where a run saves checkpoints, and how often."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sbmc.checks import is_number, require

EVERY = 60.0


@dataclass(frozen=True)
class CheckpointAt:
    """A folder for the checkpoint of a run, and how often it is written.

    Args:
        path: a folder, which is made if it is missing; or a URL that fsspec reaches, such as
            "s3://bucket/run".
        every: seconds between two writes of a batch of islands; 0 writes every snapshot.

    Raises:
        BadInput: `path` is not a path, or `every` is negative.

    Examples:
        >>> CheckpointAt("runs/first", every=5)
        CheckpointAt(path='runs/first', every=5)
        >>> CheckpointAt("runs/first", every=-1)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `every` must be a number of seconds from 0, but got -1.
    """

    path: str | os.PathLike[str]
    every: float = EVERY

    def __post_init__(self) -> None:
        text = os.fspath(self.path) if isinstance(self.path, (str, os.PathLike)) else None
        good = isinstance(text, str) and text.strip() != ""
        require(good, "checkpoint", "a folder's path or a URL", self.path)
        # Written so that NaN is refused as well.
        good = is_number(self.every) and self.every >= 0
        require(good, "every", "a number of seconds from 0", self.every)


def as_checkpoint(value: str | os.PathLike[str] | CheckpointAt | None) -> CheckpointAt | None:
    """The settings that the argument `checkpoint` stands for; a path gets the default interval.

    Raises:
        BadInput: it is neither a path, nor settings, nor None.

    Examples:
        >>> as_checkpoint("runs/first")
        CheckpointAt(path='runs/first', every=60.0)
        >>> as_checkpoint(None) is None
        True
    """
    if value is None or isinstance(value, CheckpointAt):
        return value
    good = isinstance(value, (str, os.PathLike))
    require(good, "checkpoint", "a folder's path, a URL, a CheckpointAt or None", value)
    return CheckpointAt(value)
