"""Methods side by side: their records, and the arrays that the meta-classifier left beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sbmc.checks import BadInput, nearest, require
from sbmc.confidence.protocols import check_protocol
from sbmc.confidence.report import load_arrays
from sbmc.report.charts.style import Style
from sbmc.report.numbers import count
from sbmc_studies.experiments.experiment import Experiment
from sbmc_studies.figures.method_styles import StyledRow, method_styles
from sbmc_studies.paper.tables.confidence import confidence_rows, row_islands
from sbmc_studies.records.finding import RunsInFolder
from sbmc_studies.records.pooling import SEEDS, Pooled, pool
from sbmc_studies.runs.confidence import arrays_file, has_confidence

PAPER = "paper"


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What the seeds of one method with one P measured.

    Attributes:
        style: its label and what it looks like.
        method: the method's name.
        islands: P.
        pooled: the metrics of the records.
        arrays: of each seed, as `sbmc.confidence` wrote them.
        in_paper: whether the paper has numbers of this very row.
    """

    style: Style
    method: str
    islands: int
    pooled: Pooled
    arrays: tuple[Mapping[str, np.ndarray], ...]
    in_paper: bool = False

    def stack(self, name: str) -> np.ndarray:
        """An array of all seeds, `(seeds, ...)`."""
        return np.stack([each[name] for each in self.arrays])

    def mean(self, name: str) -> np.ndarray:
        """The mean of an array over the seeds that have a number there; NaN where none has."""
        return seed_mean(self.stack(name))


@dataclass(frozen=True, eq=False)
class Comparison:
    """What the figures of the meta-classifier show.

    Attributes:
        experiment: the experiment's name.
        protocol: of the meta-classifier, `"paper"` or `"clean"`.
        rows: the methods, in the order of the experiment's table.
    """

    experiment: str
    protocol: str
    rows: tuple[MethodResult, ...]

    def metric(self, row: MethodResult, name: str) -> float:
        """Mean of a metric of the meta-classifier; `name` is as in the paper's protocol."""
        return row.pooled.values[self._in_protocol(name)]

    def error(self, row: MethodResult, name: str) -> float:
        """The standard error of a metric."""
        return row.pooled.errors[self._in_protocol(name)]

    def _in_protocol(self, name: str) -> str:
        kind, _, rest = name.partition(".")
        in_both = self.protocol == PAPER or kind not in ("confidence", "ood")
        return name if in_both else f"{kind}.{self.protocol}.{rest}"

    def heading(self) -> str:
        """What a picture is about: the experiment, the protocol, and what was averaged."""
        protocol = "the paper's" if self.protocol == PAPER else f"the {self.protocol}"
        counts = {len(row.arrays) for row in self.rows}
        if counts == {1}:
            averaged = "one seed"
        elif len(counts) == 1:
            averaged = f"mean over {count(counts.pop(), 'seed')}"
        else:
            averaged = "mean over the seeds of each"
        return f"{self.experiment}: {protocol} protocol, {averaged}"


def read_comparison(
    experiment: Experiment,
    records: Path,
    protocol: str = PAPER,
    methods: Sequence[str] | None = None,
) -> Comparison:
    """Read what the meta-classifier left behind for each method of an experiment.

    Args:
        experiment: whose figures.
        records: the folder of all records.
        protocol: `"paper"` or `"clean"`.
        methods: names of methods; all of the experiment's confidence rows if not given.

    Returns:
        The rows that have records with arrays beside them; others are left out.

    Raises:
        BadInput: if there is no such protocol, method or record.
    """
    check_protocol(protocol)
    rows = confidence_rows(experiment)
    known = list(dict.fromkeys(row.method for row in rows))
    for method in methods or ():
        if method not in known:
            raise BadInput(
                f"`methods` must be of {', '.join(known)}, but got {method!r}."
                + nearest(method, known)
            )
    runs = RunsInFolder(records, experiment.name)
    # Two rows of a table may show the same records; a figure shows them once.
    results: dict[tuple[str, str], tuple[StyledRow, Pooled, tuple, bool]] = {}
    for row in rows:
        if methods and row.method not in methods:
            continue
        seeds = [
            (record, file)
            for record in runs.records_of(row)
            if has_confidence(record)
            and (file := arrays_file(runs.folder_of(record), protocol)).exists()
        ]
        if not seeds:
            continue
        islands = row_islands(experiment, row)
        label = row.label if row.method == "map" else f"{row.label}, P = {islands}"
        if len(seeds) < len(SEEDS):
            label += f" ({count(len(seeds), 'seed')})"
        styled = StyledRow(label, row.method, islands)
        arrays = tuple(load_arrays(file) for _, file in seeds)
        pooled = pool([record for record, _ in seeds])
        key = row.method, seeds[0][0].hash
        results.setdefault(key, (styled, pooled, arrays, row.paper is not None))
    what = "runs made with --confidence" + (f" of {', '.join(methods)}" if methods else "")
    require(bool(results), "records", f"a folder with {experiment.name} {what}", str(records))
    styles = method_styles(experiment, [styled for styled, *_ in results.values()])
    compared = tuple(
        MethodResult(style, styled.method, styled.islands, pooled, arrays, in_paper)
        for style, (styled, pooled, arrays, in_paper) in zip(styles, results.values(), strict=True)
    )
    return Comparison(experiment.name, protocol, compared)


def seed_mean(stack: np.ndarray) -> np.ndarray:
    """Mean over the first axis of what is not NaN; NaN where all is.

    Args:
        stack: `(seeds, ...)`.

    Returns:
        `(...)`.

    Examples:
        >>> seed_mean(np.array([[1.0, np.nan, np.nan], [3.0, 4.0, np.nan]])).tolist()
        [2.0, 4.0, nan]
    """
    known = ~np.isnan(stack)
    counts = known.sum(axis=0)
    total = np.where(known, stack, 0.0).sum(axis=0)
    return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)
