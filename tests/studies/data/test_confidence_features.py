"""The meta-classifier's sets of features: nothing twice, and as many inside as outside."""

import numpy as np
import pytest
import torch
from feature_files import arrays

from sbmc.checks import BadInput
from sbmc_studies.data import load_dataset
from sbmc_studies.data.confidence_features import SIZES, SOURCES, feature_parts
from sbmc_studies.data.confidence_sets import confidence_sets

# What the real files have.
COUNTS = {
    "imdb": (25000, 25000, [3000, 485, 1000, 1000, 485]),
    "cifar10": (50000, 10000, [3000, 2600, 3000]),
}


def parts(name, protocol):
    train, test, sizes = COUNTS[name]
    groups = dict(zip(SOURCES[name].groups, sizes, strict=True))
    return feature_parts(protocol, SIZES[name][protocol], train, test, groups)


@pytest.mark.parametrize("protocol", ["paper", "clean"])
@pytest.mark.parametrize("name", list(COUNTS))
def test_no_row_is_in_two_parts(name, protocol):
    found = parts(name, protocol)
    for split in ("train", "test"):
        rows = [part.inside for part in found.values() if part.split == split]
        together = np.concatenate(rows) if rows else np.array([])
        assert len(set(together)) == len(together)
    for group in SOURCES[name].groups:
        together = np.concatenate([part.outside[group] for part in found.values()])
        assert len(set(together)) == len(together)
    assert set(found) == set(SIZES[name][protocol])


@pytest.mark.parametrize("protocol", ["paper", "clean"])
@pytest.mark.parametrize("name", list(COUNTS))
def test_as_many_are_in_domain_as_out_of_it(name, protocol):
    for part in parts(name, protocol).values():
        sizes = [len(rows) for rows in part.outside.values()]
        assert len(set(sizes)) == 1
        assert len(part.inside) == sum(sizes)


def test_only_the_papers_meta_training_is_on_what_the_sampler_saw():
    for name in COUNTS:
        found = parts(name, "paper")
        seen = {part: each.split for part, each in found.items()}
        assert seen == {"meta_train": "train", "threshold": "test", "test": "test"}
        assert {each.split for each in parts(name, "clean").values()} == {"test"}


def test_products_stay_together_in_both_their_groups():
    for protocol in ("paper", "clean"):
        for part in parts("imdb", protocol).values():
            assert np.array_equal(part.outside["meta"], part.outside["full_meta"])
            assert not np.array_equal(part.outside["meta"], part.outside["reviews"])


def test_the_whole_of_the_smallest_group_is_used():
    for name, (_, _, sizes) in COUNTS.items():
        for protocol in ("paper", "clean"):
            assert sum(SIZES[name][protocol].values()) == min(sizes)


def test_too_few_examples_are_refused():
    with pytest.raises(BadInput, match="which remain of the group a"):
        feature_parts("paper", {"meta_train": 6, "test": 6}, 50, 50, {"a": 10})
    with pytest.raises(BadInput, match="protocol"):
        feature_parts("other", {"test": 1}, 50, 50, {"a": 10})


def test_the_sets_hold_what_the_data_set_holds(tmp_path, monkeypatch):
    source = SOURCES["imdb"]
    small = {"meta_train": 10, "threshold": 4, "test": 20}
    monkeypatch.setitem(SIZES["imdb"], "paper", small)
    np.savez(tmp_path / source.file, **arrays(source))
    sets = confidence_sets("imdb", "paper", tmp_path, seed=3)
    data = load_dataset("imdb", tmp_path)
    assert torch.equal(sets["meta_train"].inputs, data.train[0][:50])
    assert torch.equal(sets["meta_train"].labels, data.train[1][:50])
    assert torch.equal(sets["threshold"].inputs, data.test[0][:20])
    assert torch.equal(sets["test"].inputs, data.test[0][20:120])
    for group, inputs in sets["test"].ood.items():
        assert len(inputs) == 20
        known = {tuple(row) for row in data.ood[group].tolist()}
        assert all(tuple(row) in known for row in inputs.tolist())
