"""Files that appear whole or not at all, and JSON that was edited by hand."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# No file of this library has lists or objects inside each other as deep as this.
DEEPEST = 50


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary name to write to, whose file gets its own name once its bytes are on the disk.

    The name is of this writer alone, so that two processes can write to one path at once: one of
    the two files is there afterwards, and it is whole.

    Args:
        path: what the file is to be called.

    Yields:
        The temporary path, in the same folder. If the body raises, what had the name before is
        still there, and the temporary file is gone.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with written_whole(f"{folder}/a.txt") as temporary:
        ...         _ = temporary.write_text("all of it")
        ...     os.listdir(folder)
        ['a.txt']
    """
    final = Path(path)
    temporary = final.with_name(f".{final.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        put_in_place(temporary, final)
    finally:
        # Also after Ctrl-C.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def put_in_place(temporary: str | os.PathLike[str], final: str | os.PathLike[str]) -> None:
    """Rename a file once its bytes are on the disk, in the same folder.

    Args:
        temporary: the file, written and closed.
        final: its new name; a file of that name is replaced.
    """
    # Without it the name could outlive a power cut that the contents do not.
    _sync(temporary)
    os.replace(temporary, final)
    # Some systems cannot open or sync a folder.
    with contextlib.suppress(OSError):
        _sync(os.path.dirname(os.path.abspath(final)))


def _sync(path: str | os.PathLike[str]) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text that anyone may have edited.

    Args:
        text: the text.

    Returns:
        The value.

    Raises:
        ValueError: it is no JSON, or has lists and objects inside each other so deep that whatever
            looks into them would fail.

    Example:
        >>> parse_json('{"a": [1]}')
        {'a': [1]}
        >>> parse_json("[" * 1000 + "]" * 1000)
        Traceback (most recent call last):
        ...
        ValueError: lists or objects are more than 50 deep in each other
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    if level:
        raise ValueError(_TOO_DEEP)
    return value


_TOO_DEEP = f"lists or objects are more than {DEEPEST} deep in each other"
