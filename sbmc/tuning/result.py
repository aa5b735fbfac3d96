"""The result of cross-validation: a score for every value and fold, and the chosen values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, require, require_path
from sbmc.prediction.metrics import mean_and_error

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Cell:
    """One value on one fold.

    Attributes:
        v: prior variance.
        s: scale of the anchored prior; None for the MAP alone, when v is chosen.
        fold: which one was held out.
        scores: on the held-out examples: `nll` and `accuracy`, or `rmse`. Empty if it failed.
        epochs: of training, or of each chain.
        seconds: the time; the time of a batch of trainings is divided among them.
    """

    v: float
    s: float | None
    fold: int
    scores: Mapping[str, float]
    epochs: float
    seconds: float

    @property
    def key(self) -> tuple[float, float | None, int]:
        """The key that identifies the cell."""
        return self.v, self.s, self.fold


@dataclass(frozen=True)
class Point:
    """A value, its scores averaged over folds.

    Attributes:
        value: of v or of s.
        means: by score.
        errors: their standard errors over folds.
        epochs: mean over folds.
        folds: how many were scored.
        failed: how many failed; a value with failures is never chosen.
    """

    value: float
    means: Mapping[str, float]
    errors: Mapping[str, float]
    epochs: float
    folds: int
    failed: int

    @property
    def nll(self) -> float:
        """The mean held-out NLL, which is compared; infinite if a fold failed."""
        return math.inf if self.failed or "nll" not in self.means else self.means["nll"]


@dataclass(frozen=True)
class Tuning:
    """The result of `tune`.

    Attributes:
        settings: all that decides the scores, except the grids, as plain values.
        seed: the seed of folds, training and sampling.
        v_grid: the values of v that were asked for.
        s_grid: the values of s that were asked for.
        extended: values of v that were added because the best one lay at the edge.
        cells: all scores, also those of other grids with the same settings.
        data: name and checksum of the data, where known.
        complete: whether all cells are scored.
        versions: versions of the packages that computed it.
        hardware: processor, cores and threads.
    """

    settings: Mapping[str, Any]
    seed: int
    v_grid: tuple[float, ...]
    s_grid: tuple[float, ...]
    extended: tuple[float, ...] = ()
    cells: tuple[Cell, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folds(self) -> int:
        """How many there are."""
        return int(self.settings["folds"])

    @property
    def v_points(self) -> list[Point]:
        """The MAP's scores, for each v of the grid and its extension."""
        values = sorted({*self.v_grid, *self.extended})
        return self._points({value: self._cells(value, None) for value in values})

    @property
    def s_points(self) -> list[Point]:
        """The sampler's scores at the chosen v, for each s of the grid."""
        return self.at(self.v, self.s_grid) if self.v_points else []

    def at(self, v: float, values: Sequence[float] | None = None) -> list[Point]:
        """The sampler's scores at some v.

        Args:
            v: a prior variance.
            values: of s; all that there are if not given.

        Returns:
            A point for each value that was scored.
        """
        if values is None:
            values = sorted({c.s for c in self.cells if c.v == v and c.s is not None})
        return self._points({value: self._cells(v, value) for value in values})

    @property
    def v(self) -> float:
        """The chosen v: the one with the smallest mean held-out NLL."""
        return best(self.v_points, "v")

    @property
    def s(self) -> float:
        """The chosen s: the one with the smallest mean held-out NLL at that v."""
        return best(self.s_points, "s")

    @property
    def sampled_s(self) -> float:
        """The best s above 0, since s = 0 is the MAP, which has no epistemic uncertainty."""
        return best([point for point in self.s_points if point.value > 0] or self.s_points, "s")

    def _cells(self, v: float, s: float | None) -> list[Cell]:
        return [cell for cell in self.cells if cell.v == v and cell.s == s]

    def _points(self, cells_by_value: Mapping[float, list[Cell]]) -> list[Point]:
        points = []
        for value, cells in cells_by_value.items():
            if not cells:
                continue
            scored = [cell for cell in cells if cell.scores]
            names = list(scored[0].scores) if scored else []
            each = {n: mean_and_error([c.scores[n] for c in scored]) for n in names}
            points.append(
                Point(
                    value,
                    means={name: mean for name, (mean, _) in each.items()},
                    errors={name: error for name, (_, error) in each.items()},
                    epochs=sum(cell.epochs for cell in cells) / len(cells),
                    folds=len(cells),
                    failed=len(cells) - len(scored),
                )
            )
        return points

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON, with the chosen values for readers; `from_dict` ignores these."""
        plain = {**asdict(self), "schema_version": SCHEMA_VERSION, "kind": "tuning"}
        plain["cells"] = [asdict(cell) for cell in sorted(self.cells, key=_order)]
        plain["chosen"] = {"v": self.v, "s": self.s} if self.complete else None
        return plain

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Tuning:
        """Read what `as_dict` returned.

        Raises:
            BadInput: the content is not that of a tuning.
        """
        version = content.get("schema_version") if isinstance(content, Mapping) else None
        require(version == SCHEMA_VERSION, "schema_version", f"{SCHEMA_VERSION}", version)
        fields_given = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
        missing = sorted(set(cls.__dataclass_fields__) - set(fields_given))
        require(not missing, "tuning", "one with all its fields", missing)
        for name in ("v_grid", "s_grid", "extended"):
            fields_given[name] = tuple(fields_given[name])
        fields_given["cells"] = tuple(Cell(**cell) for cell in fields_given["cells"])
        return cls(**fields_given)


def best(points: Sequence[Point], name: str) -> float:
    """The value of the smallest mean NLL.

    Args:
        points: at least one that did not fail.
        name: the name of the value, for the error message.

    Returns:
        The value; the smaller one of equals.

    Raises:
        RuntimeError: all failed.
    """
    lowest = min(points, key=lambda point: point.nll, default=None)
    if lowest is None or not math.isfinite(lowest.nll):
        raise RuntimeError(f"No value of {name} could be scored on every fold.")
    return lowest.value


def within_error(points: Sequence[Point]) -> list[float]:
    """The values whose mean NLL is within one standard error of the smallest.

    Args:
        points: scores.

    Returns:
        The values, the best one among them.

    Examples:
        >>> def point(value, nll):
        ...     return Point(value, {"nll": nll}, {"nll": 0.02}, 1.0, 5, 0)
        >>> within_error([point(0.1, 0.31), point(0.3, 0.30), point(1.0, 0.33)])
        [0.1, 0.3]
    """
    smallest = min(points, key=lambda point: point.nll)
    limit = smallest.nll + smallest.errors.get("nll", 0.0)
    return [point.value for point in points if point.nll <= limit]


def read_tuning(path: Path) -> Tuning:
    """Read a tuning from its file.

    Args:
        path: the path of a `tuning.json`.

    Returns:
        The tuning.

    Raises:
        BadInput: there is no such file, or it is damaged.
    """
    file_path = require_path("path", path)
    try:
        content = json.loads(file_path.read_text("utf-8"))
        return Tuning.from_dict(content)
    except (OSError, ValueError, TypeError, KeyError) as error:
        shown = f"{file_path} ({error})"
        raise BadInput(f"`path` must be a readable tuning, but got {shown}.") from error


def _order(cell: Cell) -> tuple[float, float, int]:
    return cell.v, -1.0 if cell.s is None else cell.s, cell.fold
