"""Fetches the files of a repository of the Hugging Face Hub, by huggingface_hub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sbmc.checks import BadInput, describe_value
from sbmc.storage.optional import load_hub

# An id of the Hub: a name, or a name behind its owner's.
_ID = re.compile(r"\w[\w.-]{0,95}(?:/\w[\w.-]{0,95})?", re.ASCII)


def fetch(source: str, files: Sequence[str], revision: str | None, local_files_only: bool) -> Path:
    """Fetch some files of a repository, or find them in the cache of huggingface_hub.

    Nothing but these files is fetched: whatever else a repository holds stays there.

    Args:
        source: the id of the repository.
        files: their names.
        revision: a branch, a tag or a commit; None for the newest state.
        local_files_only: whether only the cache is looked at.

    Returns:
        The folder with the files.

    Raises:
        BadInput: it is no id, or the files cannot be fetched.
        ImportError: huggingface_hub is not installed.
    """
    if not _ID.fullmatch(source):
        raise BadInput(
            "`source` must be an existing folder, or an id of the Hub such as 'owner/name', but "
            f"got {describe_value(source)}."
        )
    hub = load_hub()
    try:
        folder = hub.snapshot_download(
            source,
            revision=revision,
            allow_patterns=list(files),
            local_files_only=local_files_only,
        )
    # Whatever goes wrong on the way, the user can only look at the id and at the connection.
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no reason is given"])[0][:200]
        raise BadInput(
            "`source` must be an existing folder, or a repository of the Hub that can be fetched, "
            f"but got {describe_value(source)} ({reason})."
        ) from error
    return Path(folder)
