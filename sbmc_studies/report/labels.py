"""Names of settings, as short as they can be while no two are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sbmc.report.markup import cut
from sbmc_studies.experiments.experiment import Row
from sbmc_studies.experiments.methods import method_label
from sbmc_studies.records.record import Record

MOST_LETTERS = 90
_SHORT = {"islands": "P", "particles": "N", "prior_variance": "v", "mutations": "M"}
# These are named last: they follow from the others, or matter least.
_LAST = ("draws", "thinning", "step_size", "adapt", "warmup", "jitter", "launch")


def name_settings(settings: Sequence[tuple[Record, tuple[Row, ...]]]) -> list[str]:
    """Name some settings of one experiment.

    Args:
        settings: a record of each, and the rows of tables that show it.

    Returns:
        A different name for each: the table's name or the method's, with P if that differs, and
        with as many settings as it takes to tell it from others of the same name.
    """
    counts = {repr(record.settings.get("islands")) for record, _ in settings}
    names = [_base(record, rows, len(counts) > 1) for record, rows in settings]
    for base in dict.fromkeys(names):
        alike = [index for index, name in enumerate(names) if name == base]
        if len(alike) > 1:
            some = [settings[index][0] for index in alike]
            for index, text in zip(alike, differing_settings(some), strict=True):
                names[index] = f"{base}, {text}" if text else base
    # A line must not break inside "P = 8".
    names = [cut(name, MOST_LETTERS).replace(" = ", "\u00a0=\u00a0") for name in names]
    for base in dict.fromkeys(names):
        alike = [index for index, name in enumerate(names) if name == base]
        for index in alike if len(alike) > 1 else ():
            record = settings[index][0]
            names[index] = f"{cut(base, MOST_LETTERS - 15)} ({record.hash})"
    return names


def _base(record: Record, rows: tuple[Row, ...], several: bool) -> str:
    # "by evidence" and "equal weights" are two ways to combine the islands of one setting.
    ways = (", by evidence", ", equal weights")
    name = method_label(record.method)
    if rows:
        name = rows[0].label
        for way in ways if len({row.weighting for row in rows}) > 1 else ():
            name = name.removesuffix(way)
    islands = record.settings.get("islands")
    single = record.method in ("map", "swa") or islands is None
    return name if single or not several or "P = " in name else f"{name}, P = {cut(islands, 12)}"


def differing_settings(records: Sequence[Record], ignoring: Sequence[str] = ()) -> list[str]:
    """Settings in which records differ, in words.

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
