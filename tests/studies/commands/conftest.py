"""What tests of the command line share; see also stopping.py."""

import pytest

from sbmc_studies.data import load_dataset
from sbmc_studies.experiments.networks import build_network


@pytest.fixture
def single(monkeypatch):
    """Every island is a batch of its own, as in processes: its bits do not depend on the others."""
    monkeypatch.setattr("sbmc.islands.job.FOLD_PARTICLES", 1)


@pytest.fixture(scope="module")
def network():
    data = load_dataset("digits")
    return build_network("cnn", tuple(data.train[0].shape[1:]), data.classes)
