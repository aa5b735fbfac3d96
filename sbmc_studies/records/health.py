"""The verdict on a run, read from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sbmc.islands.health import Health
from sbmc.report.numbers import MISSING
from sbmc_studies.records.record import Record


def health_of(record: Record) -> Health:
    """The verdict in a record; a training has none, nor has a record of an earlier version.

    Args:
        record: of any method.

    Returns:
        The verdict; one that says "not checked" if the record has none that can be read.
    """
    content: Any = record.details.get("health")
    if not isinstance(content, Mapping) or content.get("ok") not in (True, False):
        return Health(None)
    figures = content.get("figures")
    return Health(
        content["ok"],
        _sentences(content.get("reasons")),
        _sentences(content.get("remedies")),
        figures if isinstance(figures, Mapping) else {},
    )


def pooled_verdict(records: Sequence[Record]) -> str:
    """The verdict on runs of one setting with several seeds, in a few words.

    Args:
        records: of one setting.

    Returns:
        A dash if none was checked.
    """
    verdicts = [health_of(record).ok for record in records]
    bad, known = verdicts.count(False), len(verdicts) - verdicts.count(None)
    if not known:
        return MISSING
    if not bad:
        return "ok" if known == len(verdicts) else f"ok in the {known} checked"
    return "not ok" if bad == len(verdicts) else f"not ok in {bad} of {len(verdicts)}"


def _sentences(content: Any) -> tuple[str, ...]:
    if not isinstance(content, Sequence) or isinstance(content, str):
        return ()
    return tuple(str(each) for each in content)
