"""The verdict on a run, read from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sbmc.islands.health import Health
from sbmc.report.numbers import MISSING
from sbmc_studies.records.record import Record


def health_of(record: Record) -> Health:
    """The verdict that a record has; one without is of a training, or of an earlier version.

    Args:
        record: of any method.

    Returns:
        The verdict; not checked, where the record says nothing that can be read.
    """
    found: Any = record.details.get("health")
    if not isinstance(found, Mapping) or found.get("ok") not in (True, False):
        return Health(None)
    figures = found.get("figures")
    return Health(
        found["ok"],
        _sentences(found.get("reasons")),
        _sentences(found.get("remedies")),
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


def _sentences(found: Any) -> tuple[str, ...]:
    if not isinstance(found, Sequence) or isinstance(found, str):
        return ()
    return tuple(str(each) for each in found)
