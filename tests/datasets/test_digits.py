"""The embedded digits: splits, groups, and what depends on the seed."""

import forked
import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from sbmc.checks import BadInput
from sbmc.datasets.groups import perturbed, white_noise
from sbmc_studies.data import DATASETS, digits, load_dataset


@pytest.fixture(scope="module")
def data():
    return load_dataset("digits")


def test_sizes_and_types(data):
    sizes = [(tuple(x.shape), len(y)) for x, y in (data.train, data.validation, data.test)]
    assert sizes == [((800, 1, 8, 8), 800), ((200, 1, 8, 8), 200), ((443, 1, 8, 8), 443)]
    assert data.train[0].dtype == torch.float32
    assert data.train[1].dtype == torch.int64
    assert (data.name, data.classes, data.checksum) == ("digits", 8, digits.SHA256)


def test_splits_are_in_file_order(data):
    source = load_digits()
    inside = source.target < 8
    parts = (data.train, data.validation, data.test)
    images = torch.cat([inputs for inputs, _ in parts])
    labels = torch.cat([targets for _, targets in parts])
    assert np.array_equal(images.squeeze(1).numpy() * 16, source.images[inside])
    assert np.array_equal(labels.numpy(), source.target[inside])


def test_pixels_are_in_the_unit_interval_and_classes_are_all_there(data):
    for inputs, labels in (data.train, data.validation, data.test):
        assert inputs.min() == 0.0
        assert inputs.max() == 1.0
        assert labels.unique().tolist() == list(range(8))


def test_train_and_validation_is_both_in_order(data):
    inputs, labels = data.train_and_validation
    assert torch.equal(inputs[:800], data.train[0])
    assert torch.equal(inputs[800:], data.validation[0])
    assert torch.equal(labels, torch.cat([data.train[1], data.validation[1]]))


def test_groups_and_their_order(data):
    sizes = [(name, tuple(inputs.shape)) for name, inputs in data.ood.items()]
    assert sizes == [
        ("8", (174, 1, 8, 8)),
        ("9", (180, 1, 8, 8)),
        ("white_noise", (180, 1, 8, 8)),
        ("perturbed", (180, 1, 8, 8)),
    ]
    source = load_digits()
    assert np.array_equal(data.ood["9"].squeeze(1).numpy() * 16, source.images[source.target == 9])


def test_white_noise_is_uniform(data):
    noise = data.ood["white_noise"]
    assert noise.min() >= 0
    assert noise.max() < 1
    # 11,520 pixels: five standard errors of mean and variance, false alarms below 1 in 500,000.
    assert abs(noise.mean() - 1 / 2) < 5 * (1 / 12 / noise.numel()) ** 0.5
    assert abs(noise.var() - 1 / 12) < 5 * (1 / 180 / noise.numel()) ** 0.5


def test_perturbed_digits_are_the_first_test_digits_with_noise(data):
    noise = data.ood["perturbed"] - data.test[0][:180]
    assert abs(noise.mean()) < 5 * 0.5 / noise.numel() ** 0.5
    assert abs(noise.std() - 0.5) < 5 * 0.5 / (2 * noise.numel()) ** 0.5
    # Not clipped: about half of the black pixels are below zero.
    assert data.ood["perturbed"].min() < -1
    assert data.ood["perturbed"].max() > 2


def test_the_seed_moves_the_made_groups_and_nothing_else(data):
    same, other = load_dataset("digits", seed=0), load_dataset("digits", seed=1)
    for name, inputs in data.ood.items():
        assert torch.equal(inputs, same.ood[name])
        assert torch.equal(inputs, other.ood[name]) == (name in ("8", "9"))
    for part in ("train", "validation", "test"):
        assert torch.equal(getattr(data, part)[0], getattr(other, part)[0])


def test_made_groups_do_not_share_their_noise():
    flat = white_noise(10, (64,), seed=0), perturbed(torch.zeros(10, 64), seed=0)
    # The normal scores of uniforms from the same stream would correlate; ±5 standard errors.
    correlation = torch.corrcoef(torch.stack([part.flatten() for part in flat]))[0, 1]
    assert abs(correlation) < 5 / 640**0.5


def test_a_larger_group_begins_with_the_smaller_one():
    assert torch.equal(white_noise(3, (1, 8, 8), seed=4), white_noise(9, (1, 8, 8), seed=4)[:3])


def test_perturbing_leaves_the_originals(data):
    before = data.test[0].clone()
    perturbed(data.test[0], seed=0)
    assert torch.equal(data.test[0], before)


def test_other_digits_are_refused(monkeypatch):
    monkeypatch.setattr(digits, "SHA256", "0" * 64)
    with pytest.raises(BadInput, match="`digits` must be scikit-learn's own, of SHA-256 0000"):
        load_dataset("digits")


def test_unknown_names_are_refused():
    with pytest.raises(BadInput) as refused:
        load_dataset("mnits7")
    assert str(refused.value) == (
        f"`name` must be one of {', '.join(map(repr, DATASETS))}, but got 'mnits7'. "
        "Did you mean 'mnist7'?"
    )


def test_every_data_set_has_a_line():
    assert {"digits", "mnist7", "imdb", "cifar10"} <= set(DATASETS)
    assert all(line and "\n" not in line for line in DATASETS.values())


def test_repr_is_short(data):
    assert repr(data) == (
        "DataBundle('digits', classes=8, train=800, validation=200, test=443, "
        "ood={'8': 174, '9': 180, 'white_noise': 180, 'perturbed': 180})"
    )


def test_importing_the_page_does_not_import_scikit_learn():
    code = "import sbmc.datasets, sys; sys.exit('sklearn' in sys.modules)"
    assert forked.run(["-c", code]).returncode == 0
