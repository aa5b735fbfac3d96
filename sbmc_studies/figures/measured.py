"""What the figures of the meta-classifier are drawn from: records, and the arrays beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sbmc.checks import BadInput, nearest, require
from sbmc.confidence.protocols import check_protocol
from sbmc.confidence.report import load_arrays
from sbmc_studies.experiments.experiment import Experiment
from sbmc_studies.paper.tables.confidence import confidence_rows, row_islands
from sbmc_studies.records.pooling import SEEDS, Pooled, find_records, pool
from sbmc_studies.records.record import record_path
from sbmc_studies.runs.confidence import arrays_file, has_confidence


@dataclass(frozen=True, eq=False)
class Measured:
    """One method with its P: what its seeds measured.

    Attributes:
        name: of the method and its P, without seeds.
        method: the method's name.
        islands: its P.
        pooled: the metrics of the records.
        arrays: of each seed, as `sbmc.confidence` wrote them.
        in_paper: whether the paper has numbers of this very row.
    """

    name: str
    method: str
    islands: int
    pooled: Pooled
    arrays: tuple[Mapping[str, np.ndarray], ...]
    in_paper: bool = False

    @property
    def label(self) -> str:
        """For legends: the name, and how many seeds if some are missing."""
        count = len(self.arrays)
        return self.name if count == len(SEEDS) else f"{self.name} ({_seeds(count)})"

    def stack(self, name: str) -> np.ndarray:
        """An array of all seeds, `(seeds, ...)`."""
        return np.stack([each[name] for each in self.arrays])

    def mean(self, name: str) -> np.ndarray:
        """Its mean over the seeds that have a number there; NaN where none has."""
        return seed_mean(self.stack(name))


@dataclass(frozen=True, eq=False)
class Measurements:
    """What one figure shows.

    Attributes:
        experiment: the experiment's name.
        protocol: `"paper"` or `"clean"`.
        rows: the methods, in the order of the experiment's table.
    """

    experiment: str
    protocol: str
    rows: tuple[Measured, ...]

    def metric(self, row: Measured, name: str) -> float:
        """Mean of a metric of the meta-classifier; `name` is as in the paper's protocol."""
        return row.pooled.values[self._named(name)]

    def error(self, row: Measured, name: str) -> float:
        """Its standard error."""
        return row.pooled.errors[self._named(name)]

    def _named(self, name: str) -> str:
        kind, _, rest = name.partition(".")
        in_both = self.protocol == "paper" or kind not in ("confidence", "ood")
        return name if in_both else f"{kind}.{self.protocol}.{rest}"

    def title(self, words: str) -> str:
        """The title of a figure: what it shows, of what, and what was averaged."""
        protocol = "the paper's" if self.protocol == "paper" else f"the {self.protocol}"
        counts = {len(row.arrays) for row in self.rows}
        if counts == {1}:
            averaged = "one seed"
        elif len(counts) == 1:
            averaged = f"mean over {_seeds(counts.pop())}"
        else:
            averaged = "mean over the seeds of each"
        return f"{self.experiment}: {words}\n{protocol} protocol, {averaged}"


def read(
    experiment: Experiment,
    records: Path,
    protocol: str = "paper",
    methods: Sequence[str] | None = None,
) -> Measurements:
    """Read what the meta-classifier left behind for each method of an experiment.

    Args:
        experiment: whose figures.
        records: the folder of all records.
        protocol: `"paper"` or `"clean"`.
        methods: names of methods; all of the experiment's confidence rows if not given.

    Returns:
        The rows that have records with arrays beside them; others are left out.

    Raises:
        BadInput: no such protocol or method, or no such record.
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
    found: dict[tuple[str, str], Measured] = {}
    for row in rows:
        if methods and row.method not in methods:
            continue
        seeds = [each for each in find_records(records, experiment, row) if has_confidence(each)]
        files = {
            each.seed: arrays_file(
                record_path(records, each.experiment, each.method, each.hash, each.seed).parent,
                protocol,
            )
            for each in seeds
        }
        seeds = [each for each in seeds if files[each.seed].exists()]
        if not seeds:
            continue
        islands = row_islands(experiment, row)
        name = row.label if row.method == "map" else f"{row.label}, P = {islands}"
        arrays = tuple(load_arrays(files[each.seed]) for each in seeds)
        # Two rows of a table may show the same records; a figure shows them once.
        key = row.method, seeds[0].hash
        printed = row.paper is not None
        found.setdefault(key, Measured(name, row.method, islands, pool(seeds), arrays, printed))
    what = "runs made with --confidence" + (f" of {', '.join(methods)}" if methods else "")
    require(bool(found), "records", f"a folder with {experiment.name} {what}", str(records))
    return Measurements(experiment.name, protocol, tuple(found.values()))


def seed_mean(stack: np.ndarray) -> np.ndarray:
    """Mean over the first axis of what is not NaN; NaN where all is.

    Args:
        stack: `(seeds, ...)`.

    Returns:
        `(...)`.

    Example:
        >>> seed_mean(np.array([[1.0, np.nan, np.nan], [3.0, 4.0, np.nan]])).tolist()
        [2.0, 4.0, nan]
    """
    known = ~np.isnan(stack)
    count = known.sum(axis=0)
    total = np.where(known, stack, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"
