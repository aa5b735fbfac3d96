"""Folders of files as data: read a file at a time, each row once, in another order each pass."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import sbmc
from sbmc.checks import BadInput
from sbmc.datasets import ShardedFiles, sharded_files

INPUTS = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
TARGETS = (INPUTS[:, 0] > 0).astype(np.int64)
BOUNDS = [0, 7, 20, 41, 50]


def write_npz(folder):
    for k in range(4):
        part = slice(BOUNDS[k], BOUNDS[k + 1])
        np.savez(folder / f"{k}.npz", inputs=INPUTS[part], targets=TARGETS[part])
    return folder


def write_parquet(folder):
    import pandas as pd

    for k in range(4):
        part = slice(BOUNDS[k], BOUNDS[k + 1])
        frame = pd.DataFrame(INPUTS[part], columns=["a", "b", "c"])
        frame.assign(targets=TARGETS[part]).to_parquet(folder / f"{k}.parquet")
    return folder


def rows_of(blocks):
    inputs, targets = zip(*blocks, strict=True)
    return torch.cat(inputs), torch.cat(targets)


@pytest.mark.parametrize("write", [write_npz, write_parquet])
def test_each_row_is_read_once_in_any_order(tmp_path, monkeypatch, write):
    monkeypatch.setattr(sharded_files, "BLOCK_ROWS", 4)
    data = ShardedFiles(write(tmp_path))
    assert len(data) == 50
    inputs, targets = data.load()
    assert torch.equal(inputs, torch.tensor(INPUTS))
    assert torch.equal(targets, torch.tensor(TARGETS))
    torch.manual_seed(0)
    one, other = (rows_of(data)[0] for _ in range(2))
    assert not torch.equal(one, other)
    for each in (one, other):
        assert torch.equal(each[each[:, 0].argsort()], inputs[inputs[:, 0].argsort()])
    assert max(len(block[0]) for block in data) <= 4


def test_workers_read_files_of_their_own(tmp_path):
    data = ShardedFiles(write_npz(tmp_path))
    read, _ = rows_of(DataLoader(data, batch_size=None, num_workers=2))
    assert torch.equal(read[:, 0].sort().values, torch.tensor(INPUTS)[:, 0].sort().values)


@pytest.mark.parametrize("write", [write_npz, write_parquet])
def test_they_are_sampled_and_predicted(tmp_path, write):
    torch.manual_seed(0)
    network, data = nn.Linear(3, 2), ShardedFiles(write(tmp_path))
    sampler = sbmc.SGHMC(epochs=4, step_size=0.01, batch_size=10)

    def fitted(given):
        return sbmc.fit(network, given, s=0.1, sampler=sampler, particles=2, progress=False)

    posterior = fitted(data)
    assert posterior.settings["streaming"]
    assert posterior.islands[0].steps == 20
    assert torch.equal(posterior.positions, fitted(data).positions)
    rows = torch.tensor(INPUTS)
    torch.testing.assert_close(posterior.predict(data).mean, posterior.predict(rows).mean)
    words = "`inputs` must be tensors or arrays: a DataLoader may give other rows"
    with pytest.raises(BadInput, match=words):
        posterior.samples(data)


def test_several_arrays_are_several_inputs_and_columns_are_chosen(tmp_path):
    np.savez(tmp_path / "0.npz", x=INPUTS, z=TARGETS)
    inputs = ShardedFiles(tmp_path, inputs=["x", "z"], targets=None).load()
    assert [part.dtype for part in inputs] == [torch.float32, torch.int64]
    (tmp_path / "0.npz").unlink()
    data = ShardedFiles(write_parquet(tmp_path), inputs=["c", "a"], dtype=torch.float64)
    assert torch.equal(data.load()[0], torch.tensor(INPUTS[:, [2, 0]]).double())


def test_folders_that_are_no_shards_are_refused(tmp_path, monkeypatch):
    def refused(words, folder=tmp_path, **options):
        with pytest.raises(BadInput, match=re.escape(words)):
            ShardedFiles(folder, **options)

    refused("`folder` must be a folder that exists", tmp_path / "nowhere")
    refused("`folder` must be a folder with files *.npz or *.parquet, of one kind, but got none in")
    refused("`folder` must be the path of a file or folder, as text, but got 3", 3)
    write_npz(tmp_path)
    refused("`folder` must be files with 'x', 'targets', which '0.npz' has not all", inputs="x")
    refused("`inputs` must be the name of an array or column", inputs=[])
    refused("`targets` must be the name of an array or column, or None", targets=2)
    refused("`dtype` must be a floating-point torch.dtype", dtype=torch.long)
    refused("`shuffle` must be", shuffle="yes")
    (tmp_path / "4.npz").write_bytes(b"not an archive")
    refused("`folder` must have files that numpy can read, but got '4.npz'. The error is above.")
    (tmp_path / "4.npz").unlink()
    write_parquet(tmp_path)
    refused("of one kind, but got .npz and .parquet")
    for file in tmp_path.glob("*.npz"):
        file.unlink()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)  # as if it were not installed
    with pytest.raises(ImportError, match=re.escape("pip install 'sbmc[parquet]'")):
        ShardedFiles(tmp_path)


def test_arrays_of_unequal_length_are_refused_when_they_are_read(tmp_path):
    np.savez(tmp_path / "0.npz", inputs=INPUTS[:3], targets=TARGETS[:4])
    with pytest.raises(BadInput, match="arrays are of one length"):
        ShardedFiles(tmp_path).load()
