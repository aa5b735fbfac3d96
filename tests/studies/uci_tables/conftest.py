"""Made-up tables in the form of the data files, and splits of them."""

import numpy as np
import pytest

from sbmc_studies.tables.data import load_split
from sbmc_studies.tables.recipe import Prepared, prepare
from sbmc_studies.tables.sets import find_sets

ROWS = 60


def regression(features, seed):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(ROWS, features)).astype(np.float32)
    targets = 100 + 5 * inputs[:, 0] - 3 * inputs[:, 1] + rng.normal(size=ROWS)
    return inputs, targets.astype(np.float32)


@pytest.fixture(scope="session")
def made_up(tmp_path_factory):
    """A folder with files of the names of the real ones, with sixty rows a set."""
    folder = tmp_path_factory.mktemp("tables")
    arrays = {}
    for number, name in enumerate(("yacht", "airfoil")):
        arrays[f"{name}__X"], arrays[f"{name}__y"] = regression(6, number)
    for split in range(20):
        arrays[f"yacht__test{split}"] = np.arange(split, ROWS, 10, dtype=np.int32)
    order = np.argsort(arrays["yacht__X"][:, 0])
    arrays["yacht__gap0"] = order[20:40].astype(np.int32)
    np.savez(folder / "uci_regression.npz", **arrays)
    rng = np.random.default_rng(2)
    labels = np.arange(ROWS) % 3
    inputs = (rng.normal(size=(ROWS, 9)) + 3 * labels[:, None]).astype(np.float32)
    np.savez(folder / "uci_classification.npz", glass__X=inputs, glass__y=labels)
    return folder


@pytest.fixture
def split_of(made_up):
    def load(name, number=0):
        return load_split(find_sets([name])[0], number, made_up)

    return load


@pytest.fixture
def short_training(monkeypatch):
    """Networks are trained for five epochs."""
    options = {"batch_size": 16, "max_epochs": 5, "learning_rate": 3e-3}
    monkeypatch.setattr(Prepared, "training", property(lambda prepared: dict(options)))


@pytest.fixture
def prepared_of(split_of):
    return lambda name, number=0: prepare(split_of(name, number))
