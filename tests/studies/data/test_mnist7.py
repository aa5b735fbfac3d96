"""MNIST7 from the real file; files that are not MNIST are refused."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from sbmc.checks import BadInput
from sbmc_studies.data import load_dataset, mnist7

SHARED = os.environ.get("SBMC_DATA", "")
needs_mnist = pytest.mark.skipif(
    not SHARED or not (Path(SHARED) / mnist7.FILE).is_file(),
    reason="mnist.npz is not in the folder that $SBMC_DATA names",
)


@pytest.fixture(scope="module")
def data():
    return load_dataset("mnist7")


@pytest.fixture(scope="module")
def source():
    with np.load(Path(SHARED) / mnist7.FILE) as file:
        return {name: file[name] for name in file.files}


@needs_mnist
def test_sizes_and_types(data):
    sizes = [(tuple(x.shape), len(y)) for x, y in (data.train, data.validation, data.test)]
    assert sizes == [
        ((1000, 1, 28, 28), 1000),
        ((200, 1, 28, 28), 200),
        ((7000, 1, 28, 28), 7000),
    ]
    assert data.train[0].dtype == torch.float32
    assert data.train[1].dtype == torch.int64
    assert (data.name, data.classes, data.checksum) == ("mnist7", 8, mnist7.SHA256)


@needs_mnist
def test_splits_are_the_first_images_of_the_domain(data, source):
    inside = source["y_train"] < 8
    images, labels = data.train_and_validation
    expected = source["x_train"][inside][:1200]
    assert np.array_equal((images.squeeze(1) * 255).round().byte().numpy(), expected)
    assert np.array_equal(labels.numpy(), source["y_train"][inside][:1200])
    # The published order of MNIST, 5 0 4 1 9 2 1 3 1 4, without its 9.
    assert labels[:9].tolist() == [5, 0, 4, 1, 2, 1, 3, 1, 4]
    assert data.test[1][:8].tolist() == [7, 2, 1, 0, 4, 1, 4, 5]
    assert images.min() == 0.0
    assert images.max() == 1.0


@needs_mnist
def test_groups(data, source):
    assert [(name, len(inputs)) for name, inputs in data.ood.items()] == [
        ("8", 500),
        ("9", 500),
        ("white_noise", 500),
        ("perturbed", 500),
    ]
    for digit in (8, 9):
        found = (data.ood[str(digit)].squeeze(1) * 255).round().byte().numpy()
        assert np.array_equal(found, source["x_test"][source["y_test"] == digit][:500])
    noise = data.ood["perturbed"] - data.test[0][:500]
    # 392,000 pixels: five standard errors, false alarms below 1 in a million.
    assert abs(noise.mean()) < 5 * 0.5 / noise.numel() ** 0.5
    assert abs(noise.std() - 0.5) < 5 * 0.5 / (2 * noise.numel()) ** 0.5


@needs_mnist
def test_another_compression_is_the_same_data(source, tmp_path):
    np.savez(tmp_path / mnist7.FILE, **dict(reversed(source.items())))
    _, found = mnist7.read(tmp_path / mnist7.FILE)
    assert found == mnist7.SHA256


@needs_mnist
def test_one_changed_pixel_is_refused(source, tmp_path):
    changed = {**source, "x_test": source["x_test"].copy()}
    changed["x_test"][9999, 14, 14] ^= 1
    np.savez(tmp_path / mnist7.FILE, **changed)
    with pytest.raises(BadInput, match="must be MNIST in its original order") as refused:
        load_dataset("mnist7", data_dir=tmp_path)
    assert str(tmp_path / mnist7.FILE) in str(refused.value)


def test_a_file_without_the_arrays_is_refused(tmp_path):
    np.savez(tmp_path / mnist7.FILE, x_train=np.zeros(3, np.uint8), y_test=np.zeros(3, np.uint8))
    with pytest.raises(
        BadInput, match=r"must have the arrays .* but lacks \['y_train', 'x_test'\]"
    ):
        load_dataset("mnist7", data_dir=tmp_path)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut short"])
def test_a_file_that_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / mnist7.FILE).write_bytes(content)
    with pytest.raises(
        BadInput, match=r"must be an \.npz archive, but reading failed: it is not a zip file"
    ):
        load_dataset("mnist7", data_dir=tmp_path)


def test_a_plain_array_is_refused(tmp_path):
    with (tmp_path / mnist7.FILE).open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(BadInput, match=r"must be an \.npz archive, but .* not a zip file"):
        load_dataset("mnist7", data_dir=tmp_path)


def test_a_damaged_archive_is_refused(tmp_path):
    path = tmp_path / mnist7.FILE
    arrays = {name: np.arange(200, dtype=np.uint8) for name in mnist7._ARRAYS}
    np.savez_compressed(path, **arrays)
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"must be an \.npz archive, but reading failed"):
        load_dataset("mnist7", data_dir=tmp_path)


def test_a_fetched_copy_is_kept_in_the_cache(tmp_path, monkeypatch):
    arrays = {name: np.arange(4, dtype=np.uint8) for name in mnist7._ARRAYS}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(mnist7, "_from_openml", lambda: arrays)
    # As if torchvision were not installed, whether it is or not.
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    path = mnist7.fetch()
    assert path == tmp_path / "sbmc" / "mnist.npz"
    with np.load(path) as kept:
        assert kept.files == list(arrays)
        assert np.array_equal(kept["x_train"], arrays["x_train"])
    assert [file.name for file in path.parent.iterdir()] == ["mnist.npz"]
