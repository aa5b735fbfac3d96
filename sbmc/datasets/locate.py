"""Finds data files, and says where it looked if they are missing."""

from __future__ import annotations

import os
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from sbmc.checks import BadInput, require
from sbmc.log import logger


class DataNotFound(BadInput, FileNotFoundError):
    """A data file is in none of the usual folders. The message lists them."""


def cache_dir() -> Path:
    """The package's folder in the user's cache: `$XDG_CACHE_HOME/sbmc` or `~/.cache/sbmc`."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "sbmc"


def locate(
    name: str,
    data_dir: str | PathLike[str] | None = None,
    fetch: Callable[[], Path] | None = None,
    about: str = "",
) -> Path:
    """Find a data file, or fetch it.

    The first of these that has the file wins: `data_dir`, the folder that the environment variable
    `SBMC_DATA` names, the user's cache. Only then is it fetched.

    Args:
        name: of the file.
        data_dir: an existing folder, or None.
        fetch: downloads the file and returns its path; None if that is not possible.
        about: what the file holds and how it is made, where it cannot be fetched.

    Returns:
        The path of an existing file.

    Raises:
        BadInput: `data_dir` is not a folder.
        DataNotFound: if the file is nowhere, and fetching failed or is not possible. The message
            lists every folder, and how to supply the file.
    """
    folders: list[tuple[str, Path]] = []
    if data_dir is not None:
        is_folder = Path(data_dir).expanduser().is_dir()
        require(is_folder, "data_dir", "an existing folder", os.fspath(data_dir))
        folders.append(("data_dir", Path(data_dir).expanduser()))
    shared = os.environ.get("SBMC_DATA", "").strip()
    if shared:
        folders.append(("$SBMC_DATA", Path(shared).expanduser()))
    folders.append(("the cache", cache_dir()))

    for label, folder in folders:
        path = folder / name
        if path.is_file():
            logger.debug("%s found in %s: %s", name, label, path)
            return path

    looked = [f"{label} ({folder})" for label, folder in folders]
    if not shared:
        looked.insert(len(looked) - 1, "$SBMC_DATA (not set)")
    failure: Exception | None = None
    if fetch is not None:
        logger.info("%s is not on this machine; fetching it", name)
        try:
            return fetch()
        except Exception as error:  # no network, no disk, a changed server: all end in one message
            failure = error
            reason = str(error).strip().splitlines() or [type(error).__name__]
            looked.append(f"a download (failed: {reason[0]})")
    raise DataNotFound(
        f"`{name}` was not found. Looked in: {'; '.join(looked)}. Put the file into one of these "
        "folders, or name its folder with `data_dir` (`--data-dir` in a shell) or $SBMC_DATA."
        + (f" {about}" if about else "")
    ) from failure
