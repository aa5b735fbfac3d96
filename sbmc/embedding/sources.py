"""Reads raw data: folders of texts or pictures, JSON lines, CSV."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from sbmc.checks import BadInput, require, require_count, require_path

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".tif", ".tiff")
TABLES = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz")


@dataclass(frozen=True)
class Source:
    """Items in the order in which they were read.

    Attributes:
        items: texts, or paths of pictures.
        names: name of each item: its file inside the folder, or its row.
        labels: index of each item's class, or None where there are no classes.
        class_names: the classes.
        stamps: distinguish an item from another of the same name.
    """

    items: tuple[Any, ...]
    names: tuple[str, ...]
    labels: tuple[int, ...] | None
    class_names: tuple[str, ...]
    stamps: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.items)


def read_texts(
    path: str | PathLike[str],
    *,
    text_column: str = "text",
    label_column: str = "label",
    limit: int | None = None,
) -> Source:
    """Read texts and their classes. HTML line breaks, `<br />`, become spaces.

    Args:
        path: a folder with a subfolder of `.txt` files for each class, or such files alone, without
            classes; or a file of JSON lines or CSV, perhaps with `.gz`.
        text_column: key or column of the text.
        label_column: key or column of the class; if no row has it, there are no classes.
        limit: the most items to read: the first rows or, from a folder, of each class in turn.

    Returns:
        The texts.

    Raises:
        BadInput: there is nothing to read, or a row lacks its text or its label.
    """
    source_path = _existing(path, limit)
    if source_path.is_dir():
        files = _limited(_walk(source_path, (".txt",), "texts"), limit)
        texts = tuple(_clean(_read_text(source_path / name)) for name in files.names)
        return replace(files, items=texts, stamps=texts)
    rule = f"a folder, or a file that ends in {', '.join(TABLES)}"
    require(source_path.name.lower().endswith(TABLES), "source", rule, str(path))
    texts_found, labels, names = [], [], []
    for number, row in enumerate(_rows(source_path), 1):
        if limit is not None and number > limit:
            break
        text = row.get(text_column)
        where = f"row {number} of {source_path.name}"
        rule = f"a column of texts that every row has ({where} has {', '.join(map(str, row))})"
        require(isinstance(text, str), "text_column", rule, text_column)
        texts_found.append(_clean(str(text)))
        labels.append(row.get(label_column))
        names.append(f"{source_path.name}:{number}")
    require(bool(texts_found), "source", "a file with at least one row", str(path))
    return _labelled(tuple(texts_found), tuple(names), labels, label_column, source_path)


def read_pictures(path: str | PathLike[str], *, limit: int | None = None) -> Source:
    """Find pictures and their classes; none is opened yet.

    Args:
        path: a folder with a subfolder of pictures for each class, or pictures alone.
        limit: the most pictures, of each class in turn.

    Returns:
        The pictures' paths.

    Raises:
        BadInput: there is no such folder, or no picture in it.
    """
    return find_pictures(path, limit)


def find_pictures(
    path: str | PathLike[str], limit: int | None = None, name: str = "source"
) -> Source:
    """The same as `read_pictures`, for a folder that error messages call by another name."""
    source_path = _existing(path, limit, name)
    require(source_path.is_dir(), name, "a folder", str(path))
    files = _limited(_walk(source_path, PICTURES, "pictures", name), limit)
    paths = tuple(source_path / file for file in files.names)
    # Size and time of change instead of the content, since pictures are read only once.
    stamps = tuple(f"{stat.st_size}-{stat.st_mtime_ns}" for stat in (p.stat() for p in paths))
    return replace(files, items=paths, stamps=stamps)


def _existing(path: str | PathLike[str], limit: int | None, name: str = "source") -> Path:
    require_count("limit", limit, optional=True)
    source_path = require_path(name, path).expanduser()
    require(source_path.exists(), name, "a folder or a file that exists", str(path))
    return source_path


def _walk(folder: Path, suffixes: tuple[str, ...], what: str, argument: str = "source") -> Source:
    """Find files by class; the subfolders are the classes."""
    classes = sorted(each.name for each in folder.iterdir() if each.is_dir() and _shown(each))
    names: list[str] = []
    labels: list[int] = []
    for index, name in enumerate(classes):
        class_files = sorted(_files(folder / name, suffixes))
        require(bool(class_files), argument, f"a folder whose subfolders all have {what}", name)
        names += [each.relative_to(folder).as_posix() for each in class_files]
        labels += [index] * len(class_files)
    if not classes:
        names = [each.name for each in sorted(_files(folder, suffixes))]
    require(bool(names), argument, f"a folder of {what}", str(folder))
    return Source((), tuple(names), tuple(labels) if classes else None, tuple(classes), ())


def _files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    for each in folder.rglob("*"):
        if each.suffix.lower() in suffixes and each.is_file() and _shown(each):
            yield each


def _shown(path: Path) -> bool:
    return not path.name.startswith(".")


def _limited(source: Source, limit: int | None) -> Source:
    """The first items, of each class in turn."""
    count = len(source.names)
    if limit is None or limit >= count:
        return source
    labels = source.labels or (0,) * count
    counts: dict[int, int] = {}
    turns = []
    for index, label in enumerate(labels):
        turns.append((counts.get(label, 0), label, index))
        counts[label] = counts.get(label, 0) + 1
    chosen = sorted(index for _, _, index in sorted(turns)[:limit])
    return replace(
        source,
        names=tuple(source.names[index] for index in chosen),
        labels=None if source.labels is None else tuple(source.labels[index] for index in chosen),
    )


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with _open(path) as file:
        if ".csv" in "".join(path.suffixes[-2:]).lower():
            # Reviews can be longer than the 128 kB that a field may have by default.
            csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
            yield from csv.DictReader(file)
            return
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            rule = f"a file of JSON objects, one a line (see line {number})"
            require(isinstance(row, dict), "source", rule, line.strip()[:60])
            yield row


def _open(path: Path) -> TextIO:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _labelled(
    texts: tuple[str, ...],
    names: tuple[str, ...],
    labels: list[Any],
    column: str,
    path: Path,
) -> Source:
    missing = [number for number, label in enumerate(labels, 1) if label in (None, "")]
    if len(missing) == len(labels):
        return Source(texts, names, None, (), texts)
    if missing:
        raise BadInput(
            f"`label_column` must be a column that every row has, or none, "
            f"but got {column!r}, which row {missing[0]} of {path.name} lacks."
        )
    texts_of_labels = [str(label) for label in labels]
    integers = all(text.lstrip("-").isdecimal() for text in texts_of_labels)
    classes = sorted(set(texts_of_labels), key=int) if integers else sorted(set(texts_of_labels))
    index = {name: number for number, name in enumerate(classes)}
    return Source(
        texts, names, tuple(index[text] for text in texts_of_labels), tuple(classes), texts
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"`source` must be texts in UTF-8, but got {path.name}: {error}.") from None


def _clean(text: str) -> str:
    """Replace HTML line breaks by spaces."""
    for tag in ("<br />", "<br/>", "<br>"):
        text = text.replace(tag, " ")
    return text
