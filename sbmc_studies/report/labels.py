"""Names for settings: as short as tells them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sbmc.report.markup import cut
from sbmc_studies.experiments.experiment import Row
from sbmc_studies.experiments.methods import METHODS
from sbmc_studies.records.record import Record

MOST_LETTERS = 90
# Names of classes that data sets have as numbers.
CLASSES = {
    "imdb": ("negative", "positive"),
    "cifar10": (
        *("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    ),
}
_SHORT = {"islands": "P", "particles": "N", "prior_variance": "v", "mutations": "M"}
# What a long chain keeps says nothing that its length does not.
_LAST = ("draws", "thinning", "step_size", "adapt", "warmup", "jitter", "launch")


def method_label(method: str) -> str:
    """The name of a method in tables; a method that this version does not know keeps its own."""
    return METHODS[method].label if method in METHODS else cut(method, 40)


def class_name(data: str, label: str | int) -> str | None:
    """The name of a class.

    Args:
        data: the data set.
        label: its number.

    Returns:
        Its name; None where a class has no name but its number.

    Example:
        >>> class_name("imdb", 1), class_name("cifar10", "3"), class_name("digits", 3)
        ('positive', 'cat', None)
    """
    known = CLASSES.get(data, ())
    number = int(label) if str(label).isdecimal() else -1
    return known[number] if 0 <= number < len(known) else None


def name_settings(settings: Sequence[tuple[Record, tuple[Row, ...]]]) -> list[str]:
    """Name some settings of one experiment.

    Args:
        settings: a record of each, and the rows of tables that show it.

    Returns:
        A different name for each: the table's, or the method's, with P if that differs, and with
        whatever settings it takes to tell it from those that would be called the same.
    """
    counts = {repr(record.settings.get("islands")) for record, _ in settings}
    names = [_base(record, rows, len(counts) > 1) for record, rows in settings]
    for base in dict.fromkeys(names):
        alike = [index for index, name in enumerate(names) if name == base]
        if len(alike) > 1:
            some = [settings[index][0] for index in alike]
            for index, words in zip(alike, tell_apart(some), strict=True):
                names[index] = f"{base}, {words}" if words else base
    # A line must not break inside "P = 8".
    names = [cut(name, MOST_LETTERS).replace(" = ", "\u00a0=\u00a0") for name in names]
    for base in dict.fromkeys(names):
        alike = [index for index, name in enumerate(names) if name == base]
        for index in alike if len(alike) > 1 else ():
            record = settings[index][0]
            names[index] = f"{cut(base, MOST_LETTERS - 15)} ({record.hash})"
    return names


def _base(record: Record, rows: tuple[Row, ...], several: bool) -> str:
    # "by evidence" and "equal weights" are two ways to read one setting: its name has neither.
    ways = (", by evidence", ", equal weights")
    name = method_label(record.method)
    if rows:
        name = rows[0].label
        for way in ways if len({row.weighting for row in rows}) > 1 else ():
            name = name.removesuffix(way)
    islands = record.settings.get("islands")
    single = record.method in ("map", "swa") or islands is None
    return name if single or not several or "P = " in name else f"{name}, P = {cut(islands, 12)}"


def tell_apart(records: Sequence[Record], ignoring: Sequence[str] = ()) -> list[str]:
    """Words that tell records apart.

    Args:
        records: with different settings.
        ignoring: settings that are not to be named.

    Returns:
        For each record its values of the settings in which they differ, of as few as it takes.
    """
    names = dict.fromkeys(name for record in records for name in record.settings)
    varied = [
        name
        for name in names
        if name not in ignoring and len({_value(r.settings, name) for r in records}) > 1
    ]
    varied.sort(key=lambda name: (name in _LAST, name == "islands"))
    chosen: list[str] = []
    for name in varied:
        if len({_key(record, chosen) for record in records}) == len(records):
            break
        more = {_key(record, [*chosen, name]) for record in records}
        if len(more) > len({_key(record, chosen) for record in records}):
            chosen.append(name)
    return [
        ", ".join(
            f"{_SHORT.get(name, cut(name.replace('_', ' '), 30))} = {_value(record.settings, name)}"
            for name in chosen
            if record.settings.get(name) is not None
        )
        for record in records
    ]


def _key(record: Record, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(_value(record.settings, name) for name in names)


def _value(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    return f"{value:.6g}" if isinstance(value, float) else cut(value, 40)
