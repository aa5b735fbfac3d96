"""Atomic writes of files, and checks of JSON that may have been edited by hand."""

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
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file under a temporary name, and rename it when its bytes are on the disk.

    The temporary name is unique, so that two processes can write to one path at once: afterwards
    one of the two files is there, and it is complete.

    Args:
        path: the final name of the file.

    Yields:
        The temporary path, in the same folder. If the body raises an error, the file that had the
        name before is unchanged, and the temporary file is removed.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_write(f"{folder}/a.txt") as temporary:
        ...         _ = temporary.write_text("all of it")
        ...     os.listdir(folder)
        ['a.txt']
    """
    final = Path(path)
    temporary = final.with_name(f".{final.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        move_into_place(temporary, final)
    finally:
        # Also after Ctrl-C.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_json(path: Path, content: object) -> None:
    """Write a JSON file atomically, in a folder that is made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary, open(temporary, "x", encoding="utf-8") as file:
        json.dump(content, file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def move_into_place(temporary: str | os.PathLike[str], final: str | os.PathLike[str]) -> None:
    """Rename a file once its bytes are on the disk, in the same folder.

    Args:
        temporary: the file, written and closed.
        final: its new name; a file of that name is replaced.
    """
    # Otherwise, after a power cut, the file could have its name but not its contents.
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
    """Parse a JSON text that may have been edited by hand.

    Args:
        text: the text.

    Returns:
        The value.

    Raises:
        ValueError: it is not JSON, or its lists and objects are nested too deeply.

    Examples:
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


def mismatch(kind: type, content: Any) -> str:
    """Describe why plain values cannot be the fields of a dataclass.

    Args:
        kind: the dataclass. Fields with a default may be missing, and fields whose types JSON
            does not have are not checked.
        content: what was read.

    Returns:
        A text such as "seed is 'first'"; empty if the values fit.

    Examples:
        >>> from sbmc.islands.island import IslandReport
        >>> mismatch(IslandReport, {"index": 0, "outcome": "completed"})
        ''
        >>> mismatch(IslandReport, {"index": "first", "outcome": "completed"})
        "index is 'first'"
    """
    if not isinstance(content, dict):
        return f"a {type(content).__name__} instead of an object"
    by_name = {field.name: field for field in dataclasses.fields(kind)}
    unknown = [name for name in content if name not in by_name]
    if unknown:
        return f"there is also {unknown[0]!r}, which this version of sbmc does not know"
    for name, field in by_name.items():
        required = field.default is field.default_factory is dataclasses.MISSING
        if name not in content and required:
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
