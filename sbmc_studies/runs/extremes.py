"""Which inputs a run is most and least certain about: a small file beside its record.

The file has indices, not inputs: a report looks pictures and texts up in the data set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from sbmc.datasets import DataBundle
    from sbmc.posterior.posterior import Posterior

FILE = "extremes.json"
FORMAT, VERSION = "sbmc-extremes", 1
COUNT = 8
TEST = "test"
# The file has the probabilities of this many classes for an input.
MOST_LIKELY = 3
# Data sets of embeddings: test inputs whose texts can be looked up, the first so many.
TEXT_ROWS = {"imdb": 2_000}


@dataclass(frozen=True)
class Extreme:
    """An input, and what the ensemble says of it.

    Attributes:
        group: `test`, or the name of an out-of-domain group.
        index: of the input in its group.
        truth: its label; None out of domain.
        label: what the ensemble takes it for.
        probabilities: of the likeliest classes, likeliest first: `[class, probability]`.
        total: entropy of the prediction, in nats.
        epistemic: the part of it that is disagreement.
    """

    group: str
    index: int
    truth: int | None
    label: int
    probabilities: list[list[float]]
    total: float
    epistemic: float


def find_extremes(posterior: Posterior, data: DataBundle) -> dict[str, Any]:
    """Find what the ensemble is most and least certain about.

    By entropy alone, all certain inputs could be of one class, and all uncertain ones noise. So the
    certain ones are, for each label that the ensemble gives, the input of least entropy. The
    uncertain ones take turns among the test set and the out-of-domain groups: each turn takes the
    input of most entropy that is left.

    Args:
        posterior: the ensemble.
        data: test set and out-of-domain groups.

    Returns:
        The content of the file: by which entropy (epistemic, or total if members never disagree),
        and `certain` and `uncertain`, at most `COUNT` of each.
    """
    inputs, truths = data.test
    texts = TEXT_ROWS.get(data.name)
    pools = [_pool(posterior, TEST, inputs[:texts], truths[:texts])]
    if texts is None:
        pools += [_pool(posterior, group, each) for group, each in data.ood.items()]
    by = "epistemic" if any(p.epistemic.max(initial=0) > 1e-9 for p in pools) else "total"
    scores = [np.asarray(getattr(pool, by)) for pool in pools]

    positions = [(i, j) for i, pool in enumerate(pools) for j in range(len(pool.labels))]
    order = np.argsort(np.concatenate(scores), kind="stable")
    labels = np.concatenate([pool.labels for pool in pools])
    _, firsts = np.unique(labels[order], return_index=True)
    certain = [positions[order[k]] for k in np.sort(firsts)[:COUNT]]

    ranked = [np.argsort(-score, kind="stable") for score in scores]
    turns = [(rank, i) for rank in range(COUNT) for i, r in enumerate(ranked) if rank < len(r)]
    uncertain = [(i, int(ranked[i][rank])) for rank, i in turns[:COUNT]]
    uncertain.sort(key=lambda position: -scores[position[0]][position[1]])
    return {
        "format": FORMAT,
        "version": VERSION,
        "by": by,
        "data": data.name,
        "certain": [asdict(pools[i].at(j)) for i, j in certain],
        "uncertain": [asdict(pools[i].at(j)) for i, j in uncertain],
    }


def write_extremes(folder: Path, posterior: Posterior, data: DataBundle) -> Path:
    """Write the file beside a record.

    Args:
        folder: the record's.
        posterior: the ensemble.
        data: the data set.

    Returns:
        The file's path.
    """
    path = Path(folder) / FILE
    path.write_text(json.dumps(find_extremes(posterior, data), indent=1) + "\n", "utf-8")
    return path


def read_extremes(folder: Path) -> tuple[str, list[Extreme], list[Extreme]] | None:
    """Read the file beside a record.

    Args:
        folder: the record's.

    Returns:
        By which entropy, the certain inputs and the uncertain ones; None if there is no such file,
        or another's.
    """
    try:
        content = json.loads((Path(folder) / FILE).read_text("utf-8"))
        if content["format"] != FORMAT or content["version"] != VERSION:
            return None
        extremes = [[_read(each) for each in content[name]] for name in ("certain", "uncertain")]
        return str(content["by"]), extremes[0], extremes[1]
    except (OSError, ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, eq=False)
class _Pool:
    group: str
    probabilities: np.ndarray
    total: np.ndarray
    epistemic: np.ndarray
    truths: np.ndarray | None

    @property
    def labels(self) -> np.ndarray:
        return self.probabilities.argmax(1)

    def at(self, index: int) -> Extreme:
        probabilities = self.probabilities[index]
        likeliest = np.argsort(-probabilities, kind="stable")[:MOST_LIKELY]
        return Extreme(
            group=self.group,
            index=index,
            truth=None if self.truths is None else int(self.truths[index]),
            label=int(likeliest[0]),
            probabilities=[[int(k), float(f"{probabilities[k]:.6g}")] for k in likeliest],
            total=float(f"{self.total[index]:.6g}"),
            epistemic=float(f"{self.epistemic[index]:.6g}"),
        )


def _pool(posterior: Posterior, group: str, inputs: Tensor, truths: Tensor | None = None) -> _Pool:
    prediction: Any = posterior.predict(inputs)
    return _Pool(
        group,
        prediction.probs.numpy(),
        prediction.total.numpy(),
        prediction.epistemic.numpy(),
        None if truths is None else truths.numpy(),
    )


def _read(entry: Mapping[str, Any]) -> Extreme:
    truth = entry["truth"]
    return Extreme(
        group=str(entry["group"]),
        index=int(entry["index"]),
        truth=None if truth is None else int(truth),
        label=int(entry["label"]),
        probabilities=[[int(k), float(p)] for k, p in entry["probabilities"][:MOST_LIKELY]],
        total=float(entry["total"]),
        epistemic=float(entry["epistemic"]),
    )
