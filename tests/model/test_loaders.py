"""What the samplers of a loader say about the data: understood, or refused with the remedy."""

from __future__ import annotations

import re

import pytest
import torch
from torch.utils.data import (
    DataLoader,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from sbmc.checks import BadInput
from sbmc.model.loaders import chosen_rows

DATA = TensorDataset(torch.arange(6.0), torch.arange(6))


def test_an_order_is_no_choice_and_a_subset_is_one():
    every = WeightedRandomSampler([1.0] * 6, 6, replacement=False)
    alone = DistributedSampler(DATA, num_replicas=1, rank=0)
    for loader in (
        DataLoader(DATA, 4, shuffle=True),
        DataLoader(DATA, 4, sampler=every),
        DataLoader(DATA, 4, sampler=alone),
        DataLoader(DATA, batch_sampler=[[5, 1], [0, 4, 2], [3]]),
    ):
        assert list(chosen_rows(loader, "data")) == list(range(6))
    subset = DataLoader(DATA, 2, sampler=SubsetRandomSampler([4, 1]))
    assert chosen_rows(subset, "data") == [1, 4]


def test_drop_last_is_left_aside_and_said(caplog):
    with caplog.at_level("INFO", "sbmc"):
        assert len(chosen_rows(DataLoader(DATA, 4, drop_last=True), "data")) == 6
    assert "drop_last is for training; all rows of the loader are data" in caplog.text


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        (
            DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 6, 6)),
            "fit(..., weights=...) gives rows weights, but got a WeightedRandomSampler",
        ),
        (
            DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 6, 3, replacement=False)),
            "fit(..., weights=...) gives rows weights, but got a WeightedRandomSampler",
        ),
        (
            DataLoader(DATA, sampler=DistributedSampler(DATA, num_replicas=2, rank=1)),
            "leave the sampler out, but got a DistributedSampler with a part of 2",
        ),
        (DataLoader(DATA, batch_sampler=[[0, 1], [1]]), "visits no example twice"),
        (DataLoader(DATA, batch_size=None), "makes batches (with a batch_size or a batch_sampler)"),
    ],
)
def test_samplers_of_other_targets_are_refused(loader, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        chosen_rows(loader, "data")
