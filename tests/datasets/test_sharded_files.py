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


def test_columns_are_found_by_their_names_and_not_by_their_order(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(INPUTS, columns=["a", "b", "c"]).assign(targets=TARGETS)
    frame.to_parquet(tmp_path / "0.parquet")
    frame[["targets", "c", "a", "b"]].to_parquet(tmp_path / "1.parquet")
    inputs, targets = ShardedFiles(tmp_path).load()
    assert torch.equal(inputs, torch.tensor(INPUTS).repeat(2, 1))
    assert torch.equal(targets, torch.tensor(TARGETS).repeat(2))
    frame.rename(columns={"b": "d"}).to_parquet(tmp_path / "2.parquet")
    words = "like '0.parquet', with a, b, c, targets, but got '2.parquet' with a, c, d, targets"
    with pytest.raises(BadInput, match=re.escape(words)):
        ShardedFiles(tmp_path)


def test_files_without_rows_are_left_out(tmp_path):
    write_npz(tmp_path)
    np.savez(tmp_path / "2a.npz", inputs=np.zeros(0), targets=np.zeros(0))
    assert torch.equal(ShardedFiles(tmp_path).load()[0], torch.tensor(INPUTS))
    assert all(len(inputs) > 0 for inputs, _ in ShardedFiles(tmp_path))
    for file in tmp_path.glob("[0-9].npz"):
        file.unlink()
    with pytest.raises(BadInput, match="`folder` must be a folder with rows"):
        ShardedFiles(tmp_path)


@pytest.mark.parametrize("name", ["4.npz", "4.parquet"])
@pytest.mark.parametrize("content", [b"", b"neither of both"])
def test_a_broken_file_is_named(tmp_path, name, content):
    (write_npz if name.endswith("npz") else write_parquet)(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=rf"can read, but got '{name}'. The error is above."):
        ShardedFiles(tmp_path)


@pytest.mark.parametrize(
    ("inputs", "targets", "words"),
    [
        (INPUTS[:, :2], TARGETS, "but got '9.npz' with 'inputs' of numbers and shape (rows, 2)"),
        (INPUTS.astype(int), TARGETS, "but got '9.npz' with 'inputs' of int64"),
        (INPUTS, TARGETS.astype(float), "and shape (rows, 3), 'targets' of float64"),
        (INPUTS, TARGETS[0], "files whose arrays have rows, as '9.npz' has not"),
        (INPUTS[:3], TARGETS[:4], "files whose arrays are of one length, as '9.npz' is not"),
    ],
)
def test_a_file_that_is_unlike_the_first_is_refused_before_rows_are_read(
    tmp_path, inputs, targets, words
):
    np.savez(write_npz(tmp_path) / "9.npz", inputs=inputs, targets=targets)
    with pytest.raises(BadInput, match=re.escape(words)):
        ShardedFiles(tmp_path)


def test_numbers_of_any_size_and_byte_order_are_converted(tmp_path):
    write_npz(tmp_path)
    np.savez(tmp_path / "4.npz", inputs=INPUTS.astype(">f8"), targets=TARGETS.astype(">i8"))
    assert torch.equal(ShardedFiles(tmp_path).load()[0], torch.tensor(INPUTS).repeat(2, 1))


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_texts_are_refused_by_the_name_of_their_file(tmp_path, kind):
    import pandas as pd

    labels = np.array(["cat", "dog"])
    if kind == "npz":
        np.savez(tmp_path / "0.npz", inputs=INPUTS[:2], targets=labels)
    else:
        pd.DataFrame({"a": [0.5, 1.0], "targets": labels}).to_parquet(tmp_path / "0.parquet")
    with pytest.raises(BadInput, match=rf"`targets of 0.{kind}` must be numeric"):
        ShardedFiles(tmp_path).load()


def test_a_scale_makes_floating_point_numbers_of_pixels(tmp_path):
    pixels = np.arange(12, dtype=np.uint8).reshape(4, 3)
    np.savez(tmp_path / "0.npz", inputs=pixels, targets=TARGETS[:4])
    assert ShardedFiles(tmp_path).load()[0].dtype == torch.uint8
    inputs, targets = ShardedFiles(tmp_path, scale=1 / 255).load()
    torch.testing.assert_close(inputs, torch.tensor(pixels / 255, dtype=torch.float32))
    assert targets.dtype == torch.int64
    for scale in ("big", float("nan")):
        with pytest.raises(BadInput, match="`scale` must be a finite number"):
            ShardedFiles(tmp_path, scale=scale)


def test_batches_of_batches_are_refused(tmp_path):
    loader = DataLoader(ShardedFiles(write_npz(tmp_path)))
    sampler = sbmc.SGHMC(epochs=4, step_size=0.01, batch_size=10)
    posterior = sbmc.fit(
        nn.Linear(3, 2), ShardedFiles(tmp_path), s=0.1, sampler=sampler, progress=False
    )
    words = "must be a DataLoader with batch_size=None, since its data set makes batches itself"
    with pytest.raises(BadInput, match=f"`data` {words}, but got batch_size=1"):
        sbmc.fit(nn.Linear(3, 2), loader, s=0.1, sampler=sampler, progress=False)
    with pytest.raises(BadInput, match=f"`inputs` {words}"):
        posterior.predict(loader)
