"""Prometheus' text format, version 0.0.4: what `/metrics` is written in."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Sample(NamedTuple):
    """A number with its labels; `suffix` follows the name of the metric."""

    value: float
    labels: Mapping[str, str] = {}
    suffix: str = ""


@dataclass(frozen=True)
class Metric:
    """A metric with all of its samples.

    Attributes:
        name: as Prometheus shows it.
        kind: `counter`, `gauge` or `histogram`.
        help: what it is, in one sentence.
        samples: in the order in which they are written.
    """

    name: str
    kind: str
    help: str
    samples: Sequence[Sample]


@dataclass
class Histogram:
    """Counts of values up to each of some bounds.

    Examples:
        >>> seconds = Histogram((0.1, 1.0))
        >>> seconds.observe(0.1)
        >>> seconds.observe(5.0)
        >>> seconds.counts, seconds.total
        ([1, 0, 1], 5.1)
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def samples(self, labels: Mapping[str, str] | None = None) -> list[Sample]:
        """The samples: counts of values up to each bound, the sum, and the number of values."""
        labels = labels or {}
        found, count = [], 0
        for bound, more in zip((*self.bounds, math.inf), self.counts, strict=True):
            count += more
            found.append(Sample(count, {**labels, "le": _number(bound)}, "_bucket"))
        return [*found, Sample(self.total, labels, "_sum"), Sample(count, labels, "_count")]


def write_metrics(metrics: Iterable[Metric]) -> str:
    r"""Write metrics.

    Args:
        metrics: those without samples are left out.

    Returns:
        The text.

    Examples:
        >>> rows = Metric("rows_total", "counter", "Rows.", [Sample(3, {"model": 'my "own"'})])
        >>> print(write_metrics([rows]), end="")
        # HELP rows_total Rows.
        # TYPE rows_total counter
        rows_total{model="my \"own\""} 3
    """
    lines = []
    for metric in metrics:
        if not metric.samples:
            continue
        help_text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
        lines += [f"# HELP {metric.name} {help_text}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [
            f"{metric.name}{each.suffix}{_labels(each.labels)} {_number(each.value)}"
            for each in metric.samples
        ]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
