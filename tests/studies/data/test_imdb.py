"""IMDb from the real file."""

import os
from pathlib import Path

import pytest
import torch

from sbmc_studies.data import imdb, load_dataset

SHARED = os.environ.get("SBMC_DATA", "")
pytestmark = pytest.mark.skipif(
    not SHARED or not (Path(SHARED) / imdb.FILE).is_file(),
    reason=f"{imdb.FILE} is not in the folder that $SBMC_DATA names",
)


@pytest.fixture(scope="module")
def data():
    return load_dataset("imdb")


def test_sizes(data):
    assert [len(y) for _, y in (data.train, data.validation, data.test)] == [22500, 2500, 25000]
    sizes = {name: len(x) for name, x in data.ood.items()}
    assert sizes == {
        "reviews": 3000,
        "meta": 485,
        "lipsum": 1000,
        "full_reviews": 1000,
        "full_meta": 485,
    }
    assert data.train[0].shape[1:] == (768,)
    assert data.checksum == imdb.SOURCE.sha256


def test_embeddings_have_unit_length(data):
    everything = [data.train_and_validation[0], data.test[0], *data.ood.values()]
    lengths = torch.cat([each.norm(dim=1) for each in everything])
    assert (lengths - 1).abs().max() < 0.02


def test_labels_are_balanced(data):
    for labels in (data.train_and_validation[1], data.test[1]):
        assert labels.double().mean() == 0.5
    assert abs(data.validation[1].double().mean() - 0.5) < 0.04  # four standard errors
