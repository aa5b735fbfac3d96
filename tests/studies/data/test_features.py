"""Data sets of features: decoding, the split, one copy, and files that are refused."""

import logging

import numpy as np
import pytest
import torch
from feature_files import arrays, write

from sbmc.checks import BadInput
from sbmc_studies.data import DataNotFound, load_dataset
from sbmc_studies.data.cifar10 import SOURCE as CIFAR10
from sbmc_studies.data.cifar10 import UNIT
from sbmc_studies.data.features import split_order
from sbmc_studies.data.imdb import SOURCE as IMDB

SOURCES = [IMDB, CIFAR10]


def features(source, found, name):
    """What the description of the files says, in float64."""
    x, scale = found[name].astype(np.float64), found["scale"].astype(np.float64)
    return x * scale if source.name == "imdb" else (x / 255) ** 2 * scale / UNIT


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_array_is_decoded_and_in_its_place(tmp_path, source):
    found = write(tmp_path, source)
    data = load_dataset(source.name, tmp_path)
    order = split_order(200)
    parts = {
        "x_train": (data.train_and_validation[0], order),
        "x_test": (data.test[0], slice(None)),
        **{f"ood_{name}": (data.ood[name], slice(None)) for name in source.groups},
    }
    for name, (ours, rows) in parts.items():
        assert ours.dtype == torch.float32
        assert np.allclose(ours.numpy(), features(source, found, name)[rows], rtol=1e-6), name
    assert data.train_and_validation[1].tolist() == found["y_train"][order].tolist()
    assert data.test[1].tolist() == found["y_test"].tolist()
    assert list(data.ood) == list(source.groups)
    assert (data.name, data.classes) == (source.name, source.classes)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_tenth_validates_whatever_the_seed(tmp_path, source):
    write(tmp_path, source)
    data, other = (load_dataset(source.name, tmp_path, seed) for seed in (0, 7))
    assert (len(data.train[1]), len(data.validation[1])) == (180, 20)
    assert torch.equal(data.validation[0], other.validation[0])
    assert torch.equal(data.train[1], other.train[1])
    # Shuffled: the last tenth of the file is not what validates.
    assert set(split_order(200)[180:]) != set(range(180, 200))
    assert sorted(split_order(200)) == list(range(200))


def test_training_and_validation_examples_are_one_tensor(tmp_path):
    write(tmp_path, IMDB)
    data = load_dataset("imdb", tmp_path)
    inputs, labels = data.train_and_validation
    assert inputs.data_ptr() == data.train[0].data_ptr()
    assert torch.equal(inputs, torch.cat([data.train[0], data.validation[0]]))
    assert torch.equal(labels, torch.cat([data.train[1], data.validation[1]]))


def test_floats_without_a_scale_are_taken_as_they_are(tmp_path):
    rng = np.random.default_rng(1)
    found = {
        name: rng.normal(size=array.shape).astype(np.float32)
        for name, array in arrays(CIFAR10).items()
        if array.ndim == 2
    }
    write(tmp_path, CIFAR10, scale=None, **found)
    data = load_dataset("cifar10", tmp_path)
    assert np.array_equal(data.test[0].numpy(), found["x_test"])


def test_the_checksum_is_that_of_the_content(tmp_path, caplog):
    found = write(tmp_path, IMDB)
    first = load_dataset("imdb", tmp_path).checksum
    assert load_dataset("imdb", tmp_path).checksum == first
    changed = found["x_test"].copy()
    changed[0, 0] ^= 1
    write(tmp_path, IMDB, x_test=changed)
    with caplog.at_level(logging.INFO, logger="sbmc"):
        assert load_dataset("imdb", tmp_path).checksum != first
    assert "not the file that our records were made with" in caplog.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x_test": None}, "lacks ['x_test']"),
        ({"x_test": np.zeros((5, 7), np.int8)}, "x_test as rows of 768 features"),
        ({"x_train": np.zeros((200, 768), np.float32)}, "a byte each"),
        ({"scale": np.zeros(5, np.float32)}, "scale as float32 (768,)"),
        ({"scale": None}, "floats, since there is no array scale"),
        ({"y_train": np.full(200, 2, np.uint8)}, "labels below 2"),
        (
            {"y_test": np.zeros(119, np.uint8)},
            "a label for each row of x_test, but got 120 and 119",
        ),
    ],
)
def test_files_of_another_form_are_refused(tmp_path, changes, words):
    write(tmp_path, IMDB, **changes)
    with pytest.raises(BadInput) as refused:
        load_dataset("imdb", tmp_path)
    assert words in str(refused.value)


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / IMDB.file).write_bytes(b"embeddings")
    with pytest.raises(BadInput, match=r"must be an \.npz archive"):
        load_dataset("imdb", tmp_path)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_missing_file_is_described(tmp_path, monkeypatch, source):
    monkeypatch.setenv("SBMC_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataNotFound) as missing:
        load_dataset(source.name)
    message = str(missing.value)
    assert message.startswith(f"`{source.file}` was not found.")
    assert "cannot be fetched" in message
    assert "sbmc embed" in message
    assert all(name in message for name in source.arrays)
    assert "\n" not in message
