"""Files that appear whole or not at all, and JSON that was edited by hand."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sbmc.checks import is_number, is_whole

# No file of this library has lists or objects inside each other as deep as this.
DEEPEST = 50


class CheckpointError(RuntimeError):
    """A file of a checkpoint could not be written or read; those that were written are intact."""


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


def write_json(path: Path, content: object) -> None:
    """Write a JSON file, whole or not at all, in a folder that is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as temporary, open(temporary, "x", encoding="utf-8") as file:
        json.dump(content, file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")


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


def misfit(kind: type, content: Any) -> str:
    """Say what keeps plain values from being the fields of a dataclass.

    Args:
        kind: the dataclass. Fields with a default may be missing, and fields whose types are none
            that JSON has are not looked at.
        content: what was read.

    Returns:
        Words such as "seed is 'first'"; nothing if the values fit.

    Example:
        >>> from sbmc.islands.island import IslandReport
        >>> misfit(IslandReport, {"index": 0, "outcome": "completed"})
        ''
        >>> misfit(IslandReport, {"index": "first", "outcome": "completed"})
        "index is 'first'"
    """
    if not isinstance(content, dict):
        return f"a {type(content).__name__} stands for an object"
    known = {field.name: field for field in dataclasses.fields(kind)}
    more = [name for name in content if name not in known]
    if more:
        return f"there is also {more[0]!r}, which this version of sbmc does not know"
    for name, field in known.items():
        bare = field.default is field.default_factory is dataclasses.MISSING
        if name not in content and bare:
            return f"{name} is missing"
        if name not in content:
            continue
        kinds = [str(field.type)] if "[" in str(field.type) else str(field.type).split(" | ")
        tests = [_KINDS.get(part) for part in kinds]
        if None not in tests and not any(test(content[name]) for test in tests if test):
            text = repr(content[name])
            return f"{name} is {text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + '…'}"
    return ""


def _all(kind: type | tuple[type, ...], test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def every(value: Any) -> bool:
        inner = value.values() if isinstance(value, dict) else value
        return isinstance(value, kind) and all(map(test, inner))

    return every


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_TOO_DEEP = f"lists or objects are more than {DEEPEST} deep in each other"
_MOST_LETTERS = 60
_KINDS: dict[str, Callable[[Any], bool]] = {
    "None": lambda value: value is None,
    "bool": lambda value: isinstance(value, bool),
    "int": is_whole,
    "float": is_number,
    "str": _is_text,
    "list[int]": _all(list, is_whole),
    "list[dict[str, Any]]": _all(list, lambda value: isinstance(value, dict)),
    "dict[str, Any]": lambda value: isinstance(value, dict),
    "dict[str, str]": _all(dict, _is_text),
    "dict[str, float | None]": _all(dict, lambda value: value is None or is_number(value)),
}
