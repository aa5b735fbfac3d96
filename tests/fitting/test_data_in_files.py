"""Data in mapped files, sampled and predicted without being held: the numbers of data in memory."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import sbmc
from sbmc.checks import BadInput
from sbmc.datasets import rows_in_place
from sbmc.model import data as model_data
from sbmc.model import dataset_inputs
from sbmc.model.data import Examples, as_examples
from sbmc.storage import arrays, lazy_rows
from sbmc.storage.lazy_rows import LazyRows
from sbmc.target import memory_needs
from sbmc.target.shards import engine as sharded_engine

VALUES = np.random.default_rng(0).normal(size=(90, 4))
LABELS = (VALUES[:, 0] + 0.3 * VALUES[:, 1] > 0).astype(np.int64)


@pytest.fixture
def mapped(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "IN_PLACE_BYTES", 0)
    np.save(tmp_path / "values.npy", VALUES)
    return np.load(tmp_path / "values.npy", mmap_mode="r")


def network(activation=nn.Tanh):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), activation(), nn.Linear(8, 2))


def fitted(inputs, sampler, model=None, **options):
    model = network() if model is None else model
    return sbmc.fit(
        model, (inputs, LABELS), s=0.1, sampler=sampler, particles=3, progress=False, **options
    )


@pytest.mark.parametrize(
    "sampler",
    [
        sbmc.SGLD(epochs=2, step_size=1e-3, batch_size=20),
        sbmc.SGHMC(epochs=2, step_size=0.01, batch_size=20),
        sbmc.UBU(epochs=2, step_size=0.01, batch_size=20),
        sbmc.AutoHMC(epochs=6),
        sbmc.HMC(steps=3),
    ],
)
@pytest.mark.parametrize("activation", [nn.Tanh, nn.GELU])
def test_samples_are_those_of_data_in_memory(mapped, sampler, activation):
    options = {"model": network(activation), "compute": sbmc.Compute(path="fused")}
    in_memory = fitted(VALUES.astype(np.float32), sampler, **options)
    in_file = fitted(mapped, sampler, **options)
    assert torch.equal(in_file.positions, in_memory.positions)
    assert isinstance(in_file.training_data[0], np.memmap)
    expected = in_memory.predict(VALUES.astype(np.float32))
    assert torch.equal(in_file.predict(mapped).mean, expected.mean)
    parts = in_file.predict(mapped, batch_size=7)
    torch.testing.assert_close(parts.mean, expected.mean)


@pytest.mark.integration
def test_workers_open_the_file_again(mapped):
    sampler = sbmc.SGHMC(epochs=2, step_size=0.01, batch_size=20)
    apart = fitted(mapped, sampler, compute=sbmc.Compute(executor=sbmc.Processes(workers=1)))
    assert torch.equal(apart.positions, fitted(mapped, sampler).positions)


@pytest.mark.integration
def test_ranks_open_the_file_again_and_are_sent_no_rows(tmp_path, monkeypatch):
    values = np.random.default_rng(1).normal(size=(12_000, 4)).astype(np.float32)
    labels = (values[:, 0] > values[:, 1]).astype(np.int64)
    np.save(tmp_path / "large.npy", values)
    monkeypatch.setattr(arrays, "IN_PLACE_BYTES", 0)
    # Larger pieces than this are not read at once: a shard of 96,000 bytes stays in the file.
    monkeypatch.setattr(lazy_rows, "MOST_AT_ONCE", 80_000)
    monkeypatch.setattr(memory_needs, "PREPARED_BYTES", 0)
    sent, pack = [], sharded_engine.packed
    monkeypatch.setattr(sharded_engine, "packed", lambda v: sent.append(v) or pack(v))
    options = {
        "s": 0.1,
        "sampler": sbmc.SGHMC(epochs=1, step_size=0.01, batch_size=100),
        "particles": 3,
        "progress": False,
    }
    expected = sbmc.fit(network(), (values, labels), **options)
    array = np.load(tmp_path / "large.npy", mmap_mode="r")
    found = sbmc.fit(network(), (array, labels), compute=sbmc.Compute(shards=2), **options)
    torch.testing.assert_close(found.positions, expected.positions, rtol=1e-3, atol=1e-4)
    ((shard, *_),) = sent
    assert isinstance(shard.examples.inputs, LazyRows)
    assert len(shard.examples) == 6_000
    assert len(pack(shard.examples.inputs)) < 50_000


def test_a_value_that_is_not_finite_ends_the_run_in_words(tmp_path, mapped):
    spoiled = VALUES.copy()
    spoiled[50, 2] = np.nan
    np.save(tmp_path / "spoiled.npy", spoiled)
    array = np.load(tmp_path / "spoiled.npy", mmap_mode="r")
    words = "`data` must be finite numbers, but got 1 that are NaN or infinite among"
    with pytest.raises((BadInput, RuntimeError), match=re.escape(words)):
        fitted(array, sbmc.SGHMC(epochs=2, step_size=0.01))
    posterior = fitted(mapped, sbmc.SGHMC(epochs=2, step_size=0.01))
    with pytest.raises(BadInput, match=re.escape("`inputs` must be finite numbers, but got 1")):
        posterior.predict(array)


def test_integers_are_refused_with_the_way_to_convert_them_as_they_are_read(tmp_path, mapped):
    pixels = np.memmap(tmp_path / "pixels", np.uint8, "w+", shape=(90, 4))
    pixels[:] = np.clip(40 * VALUES + 128, 0, 255)
    sampler = sbmc.SGHMC(epochs=2, step_size=0.01)
    with pytest.raises(BadInput, match=re.escape("sbmc.datasets.rows_in_place(array, dtype=")):
        fitted(pixels, sampler)
    in_file = fitted(rows_in_place(pixels, scale=1 / 256), sampler)
    in_memory = fitted(torch.tensor(pixels).float() / 256, sampler)
    assert torch.equal(in_file.positions, in_memory.positions)


def test_large_tensors_of_another_dtype_are_converted_as_they_are_read(monkeypatch):
    examples = Examples(torch.tensor(VALUES), torch.tensor(LABELS))
    assert type(examples.to(dtype=torch.float32).inputs) is torch.Tensor
    monkeypatch.setattr(model_data, "CONVERTED_BYTES", 100)
    converted = examples.to(dtype=torch.float32)
    assert isinstance(converted.inputs, LazyRows)
    assert torch.equal(converted.inputs[:], examples.inputs.float())
    assert type(examples.to(dtype=torch.float64).inputs) is torch.Tensor
    sampler = sbmc.SGHMC(epochs=2, step_size=0.01)
    lazily = fitted(VALUES, sampler)
    assert torch.equal(lazily.positions, fitted(VALUES.astype(np.float32), sampler).positions)


def test_tensors_in_files_are_used_where_they_are(tmp_path):
    VALUES.astype(np.float32).tofile(tmp_path / "values")
    tensor = torch.from_file(str(tmp_path / "values"), shared=False, size=360).view(90, 4)
    held = as_examples((tensor, LABELS)).to(dtype=torch.float32)
    assert held.inputs.data_ptr() == tensor.data_ptr()


def test_predictions_of_large_data_sets_are_streamed(mapped, monkeypatch):
    posterior = fitted(mapped, sbmc.SGHMC(epochs=2, step_size=0.01))
    rows = torch.tensor(VALUES).float()
    expected = posterior.predict(TensorDataset(rows, torch.tensor(LABELS)))
    monkeypatch.setattr(dataset_inputs, "HELD_BYTES", rows.nbytes - 1)
    found = posterior.predict(TensorDataset(rows, torch.tensor(LABELS)))
    torch.testing.assert_close(found.mean, expected.mean)
    assert expected.particles is not None
    assert found.particles is None


def test_compiled_code_is_never_given_the_address_of_rows_in_a_file(mapped):
    with pytest.raises(BadInput, match="`inputs` must be in memory here, but got rows in a file"):
        rows_in_place(mapped).data_ptr()


def test_a_checkpoint_of_other_data_is_refused(mapped, tmp_path):
    sampler = sbmc.SGHMC(epochs=2, step_size=0.01)
    compute = sbmc.Compute(checkpoint=tmp_path / "run")
    first = fitted(mapped, sampler, compute=compute)
    assert torch.equal(fitted(mapped, sampler, compute=compute).positions, first.positions)
    other = VALUES.copy()
    other[7] += 1
    np.save(tmp_path / "other.npy", other)
    with pytest.raises(ValueError, match="data"):
        fitted(np.load(tmp_path / "other.npy", mmap_mode="r"), sampler, compute=compute)
