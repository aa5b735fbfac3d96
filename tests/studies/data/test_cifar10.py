"""CIFAR-10 from the real file."""

import os
from pathlib import Path

import pytest

from sbmc_studies.data import cifar10, load_dataset

SHARED = os.environ.get("SBMC_DATA", "")
pytestmark = pytest.mark.skipif(
    not SHARED or not (Path(SHARED) / cifar10.FILE).is_file(),
    reason=f"{cifar10.FILE} is not in the folder that $SBMC_DATA names",
)


@pytest.fixture(scope="module")
def data():
    return load_dataset("cifar10")


def test_sizes(data):
    assert [len(y) for _, y in (data.train, data.validation, data.test)] == [45000, 5000, 10000]
    sizes = {name: len(x) for name, x in data.ood.items()}
    assert sizes == {"close": 3000, "corrupt": 2600, "far": 3000}
    assert data.checksum == cifar10.SOURCE.sha256


def test_the_official_order(data):
    # The published labels of CIFAR-10's test pictures begin cat, ship, ship, airplane, frog.
    assert data.test[1][:5].tolist() == [3, 8, 8, 0, 6]
    assert data.train_and_validation[1].bincount().tolist() == [5000] * 10


def test_features_are_those_after_a_relu(data):
    inputs = data.test[0]
    assert inputs.shape == (10000, 2048)
    assert inputs.min() == 0
    assert 0.02 < (inputs**2).mean() < 0.1
