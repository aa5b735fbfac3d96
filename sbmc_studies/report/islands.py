"""What records say about their islands. Values that are not finite numbers are left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sbmc_studies.report.collect import Setting, StoredRun


@dataclass(frozen=True)
class Convergence:
    """The diagnostics of one kind of quantity; None for what the draws were too few for."""

    name: str
    nested_rhat: float | None
    expected: float | None
    rhat: float | None
    ess: float | None
    iact: float | None


@dataclass(frozen=True, eq=False)
class Islands:
    """All islands of a setting.

    Attributes:
        reports: seed, and what the record has of an island.
        summaries: of the first seed that has some.
    """

    reports: tuple[tuple[int, Mapping[str, Any]], ...]
    summaries: tuple[Convergence, ...]

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.reports)

    @property
    def completed(self) -> int:
        """How many completed."""
        return sum(report.get("outcome") == "completed" for _, report in self.reports)

    @property
    def sampled(self) -> bool:
        """Whether a sampler ran, and not only training."""
        return bool(self.acceptance or self.temperature_counts)

    @property
    def acceptance(self) -> list[float]:
        """The value of each island that has one."""
        return self._all("acceptance")

    @property
    def step_size(self) -> list[float]:
        """The value of each island that has one."""
        return self._all("step_size")

    @property
    def log_evidence(self) -> list[float]:
        """The value of each island that has one."""
        return self._all("log_evidence")

    @property
    def temperature_counts(self) -> list[int]:
        """How many temperatures each island of SMC went through."""
        return [len(path) for path in self.paths("temperature")]

    @property
    def last_ess(self) -> list[float]:
        """Effective sample size before the last resampling, of each island of SMC."""
        return [path[-1] for path in self.paths("ess") if path]

    @property
    def collapsed(self) -> int:
        """How many islands of SMC say that their particles descend from one draw."""
        return sum(bool(report.get("collapsed")) for _, report in self.reports)

    def paths(self, name: str) -> list[list[float]]:
        """A column of the temperatures of each island that has it."""
        paths = []
        for _, report in self.reports:
            columns = report.get("temperatures")
            column = columns.get(name) if isinstance(columns, Mapping) else None
            if isinstance(column, Sequence) and not isinstance(column, str):
                paths.append([value for each in column if (value := finite(each)) is not None])
        return [path for path in paths if path]

    def by_island(self, name: str, most: int) -> list[tuple[str, float]]:
        """A number of each island, named by seed and island; at most so many islands a seed."""
        values = []
        for seed, report in self.reports:
            value, index = finite(report.get(name)), finite(report.get("index"))
            if value is not None and (index is None or index < most):
                island = "?" if index is None else f"{index:.0f}"
                values.append((f"seed {seed}, island {island}", value))
        return values[: 5 * most]

    def _all(self, name: str) -> list[float]:
        values = (finite(report.get(name)) for _, report in self.reports)
        return [value for value in values if value is not None]


def finite(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def islands_of_setting(setting: Setting) -> Islands:
    """The islands of all seeds of a setting."""
    return islands_of_runs(setting.runs)


def islands_of_runs(runs: Sequence[StoredRun]) -> Islands:
    """The islands of some runs.

    Args:
        runs: with records.

    Returns:
        Their islands in order, and the diagnostics of the first run that has any.
    """
    reports = tuple(
        (run.record.seed, report)
        for run in runs
        for report in run.record.islands
        if isinstance(report, Mapping)
    )
    summaries: tuple[Convergence, ...] = ()
    for run in runs:
        summaries = _summaries(run.record.details.get("diagnostics"))
        if summaries:
            break
    return Islands(reports, summaries)


def _summaries(diagnostics: Any) -> tuple[Convergence, ...]:
    known = isinstance(diagnostics, Mapping)
    if not known or not isinstance(diagnostics.get("summaries"), Sequence):
        return ()
    summaries = []
    for each in diagnostics["summaries"]:
        if not isinstance(each, Mapping):
            continue

        def worst(name: str, each: Mapping[str, Any] = each) -> float | None:
            extent = each.get(name)
            return finite(extent.get("worst")) if isinstance(extent, Mapping) else None

        summaries.append(
            Convergence(
                name=str(each.get("name"))[:60],
                nested_rhat=worst("nested_rhat"),
                expected=finite(diagnostics.get("nested_expected")),
                rhat=worst("rhat"),
                ess=worst("effective_sample_size"),
                iact=worst("integrated_autocorrelation_time"),
            )
        )
    return tuple(summaries)
