"""Rows of one split: those to train on and those to test on.

The protocols:

- `standard`: the 20 splits of Hernández-Lobato and Adams (2015), a tenth of the rows tests;
- `gap`: those of Foong et al. (2019), the middle third of one feature tests, each feature in turn;
- `bde`: `train_test_split(test_size=0.2, random_state=0)`, everything standardised by moments of
  the training rows. There is one split, so that the number of a split is the seed of the method;
- `stratified`: a fifth of the rows tests, drawn by `train_test_split` with the classes' shares and
  the split's number as its seed.

Targets are in their own units but for `bde`.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np
from sklearn.model_selection import train_test_split

from sbmc.checks import require
from sbmc.datasets.locate import locate
from sbmc_studies.data.archive import read_arrays
from sbmc_studies.tables.sets import CLASSIFICATION, TableSet

FILES = {"regression": "uci_regression.npz", CLASSIFICATION: "uci_classification.npz"}
ABOUT = "Small tables of the UCI repository, with their usual splits."
TEST_SHARE = 0.2


@dataclass(frozen=True)
class Split:
    """One split of a set.

    Attributes:
        table_set: which set.
        number: of the split; the seed of every method on it too.
        train_inputs: `(rows, features)` float64.
        train_targets: `(rows,)`, float64 numbers or int64 classes from 0.
        test_inputs: `(test rows, features)` float64.
        test_targets: `(test rows,)`.
    """

    table_set: TableSet
    number: int
    train_inputs: np.ndarray
    train_targets: np.ndarray
    test_inputs: np.ndarray
    test_targets: np.ndarray

    @property
    def is_classification(self) -> bool:
        """Whether targets are classes."""
        return self.table_set.kind == CLASSIFICATION

    @property
    def classes(self) -> int:
        """How many classes there are in both parts."""
        return int(max(self.train_targets.max(), self.test_targets.max())) + 1


def load_split(
    table_set: TableSet, number: int, data_dir: str | PathLike[str] | None = None
) -> Split:
    """Load one split of a set.

    Args:
        table_set: which set.
        number: of the split, from 0.
        data_dir: where to look first for files.

    Returns:
        Its rows.

    Raises:
        BadInput: there is no such split.
        DataNotFound: the file is missing; the message says where it was looked for.
    """
    rule = f"from 0 to {table_set.splits - 1} for {table_set.name}"
    require(0 <= number < table_set.splits, "splits", rule, number)
    path = locate(FILES[table_set.kind], data_dir, about=ABOUT)
    part = {"standard": "test", "gap": "gap"}.get(table_set.protocol)
    listed = [] if part is None else [f"{table_set.data}__{part}{number}"]
    arrays = read_arrays(path, [f"{table_set.data}__X", f"{table_set.data}__y", *listed])
    inputs, targets, *test = arrays.values()
    inputs = inputs.astype(np.float64)
    if table_set.kind != CLASSIFICATION:
        targets = targets.astype(np.float64)
    everything = np.arange(len(targets))
    if test:
        test_rows = np.sort(test[0])
        train_rows = np.setdiff1d(everything, test_rows)
    elif table_set.protocol == "bde":
        train_rows, test_rows = train_test_split(everything, test_size=TEST_SHARE, random_state=0)
        inputs = _standardised(inputs, train_rows)
        targets = _standardised(targets, train_rows)
    else:
        train_rows, test_rows = train_test_split(
            everything, test_size=TEST_SHARE, random_state=number, stratify=targets
        )
    return Split(
        table_set,
        number,
        inputs[train_rows],
        targets[train_rows],
        inputs[test_rows],
        targets[test_rows],
    )


def _standardised(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Values in units of the standard deviation of some rows, from their mean."""
    spread = values[rows].std(0)
    return (values - values[rows].mean(0)) / np.where(spread > 0, spread, 1.0)
