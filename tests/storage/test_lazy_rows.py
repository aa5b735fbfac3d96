"""Tensors whose rows are read when they are asked for, beside the array that they are read from."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
import torch

from sbmc.checks import BadInput
from sbmc.datasets import rows_in_place
from sbmc.storage import arrays, lazy_rows, mapped_arrays
from sbmc.storage.arrays import as_tensor
from sbmc.storage.digests import digest
from sbmc.storage.lazy_rows import ArrayReader, LazyRows, TensorReader

VALUES = np.random.default_rng(0).normal(size=(40, 3, 2))


@pytest.fixture
def mapped(tmp_path):
    np.save(tmp_path / "values.npy", VALUES)
    return np.load(tmp_path / "values.npy", mmap_mode="r")


def views(array):
    return array, array[5:], array[::3], array[::-1], array[:, ::2], array.transpose(1, 0, 2)


def test_rows_are_those_of_the_array_whatever_its_strides(mapped):
    for view, expected in zip(views(mapped), views(VALUES), strict=True):
        lazy, whole = LazyRows(ArrayReader(view)), torch.tensor(expected.copy())
        assert lazy.shape == whole.shape
        index = torch.tensor([[0, 2], [-1, 1]])
        for select in (
            lambda t: t[1:3],
            lambda t: t[::2],
            lambda t: t[-2:],
            lambda t: t[0],
            lambda t: t[-1],
            lambda t, index=index: t[index],
            lambda t, index=index: t.index_select(0, index[0]),
            lambda t: t[torch.arange(len(t)) % 2 == 0],
            lambda t: t.split(2)[-1],
            lambda t: t[:, 1],
            lambda t: t.sum(),
        ):
            assert torch.equal(select(lazy), select(whole))
            assert type(select(lazy)) is torch.Tensor


@pytest.mark.parametrize("kind", [np.uint8, np.float16, np.float32, np.float64, ">f4", ">i2"])
def test_rows_are_converted_when_they_are_read(kind):
    array = (10 * np.abs(VALUES)).astype(kind)
    lazy = rows_in_place(array, scale=0.5)
    expected = 0.5 * torch.tensor(array.astype(np.float64)).float()
    assert lazy.dtype == torch.float32
    assert torch.equal(lazy[3:7], expected[3:7])
    assert lazy.to(torch.float64)[:2].dtype == torch.float64


def test_a_tensor_in_memory_is_converted_row_by_row_and_never_written_to():
    tensor = torch.tensor(VALUES)
    lazy = LazyRows(TensorReader(tensor), dtype=torch.float64)
    lazy[:2].zero_()
    assert torch.equal(tensor, torch.tensor(VALUES))


def test_what_is_read_of_a_writable_map_is_a_copy(tmp_path):
    array = np.memmap(tmp_path / "values", np.float32, "w+", shape=(4, 2))
    LazyRows(ArrayReader(array))[:].add_(1)
    assert not array.any()


def test_large_slices_stay_in_the_file_and_other_uses_are_refused(mapped, monkeypatch):
    monkeypatch.setattr(lazy_rows, "MOST_AT_ONCE", 10 * VALUES[0].nbytes)
    lazy = LazyRows(ArrayReader(mapped), "data inputs")
    assert isinstance(lazy[:11], LazyRows)
    assert type(lazy[:10]) is torch.Tensor
    assert torch.equal(lazy[4::2][1:3], torch.tensor(VALUES[6:10:2]))
    assert torch.equal(lazy[4::2][torch.tensor([0])], torch.tensor(VALUES[4:5]))
    words = "`data inputs` must be used in parts, since they are read in place, but got a use of"
    with pytest.raises(BadInput, match=re.escape(words)):
        lazy.sum()


def test_numbers_that_are_not_finite_are_refused_when_they_are_read():
    array = VALUES.copy()
    array[20, 0, 0], array[21, 1, 1] = np.nan, np.inf
    lazy = LazyRows(ArrayReader(array), "data inputs")
    assert torch.isfinite(lazy[:20]).all()
    words = "`data inputs` must be finite numbers, but got 2 that are NaN or infinite among 5 rows"
    with pytest.raises(BadInput, match=words):
        lazy[18:23]


def test_another_process_opens_the_file_again(mapped):
    for view in views(mapped):
        lazy = rows_in_place(view)
        sent = pickle.dumps(lazy[:0] if len(lazy) == 0 else lazy)
        assert len(sent) < 600
        again = pickle.loads(sent)
        assert isinstance(again, LazyRows)
        assert torch.equal(again[:], lazy[:])
    assert copy.deepcopy(lazy) is lazy
    assert repr(lazy) == "LazyRows(shape=(3, 40, 2), dtype=torch.float32)"


def test_a_map_whose_changes_are_its_own_is_sent_with_them(tmp_path):
    np.zeros(6, np.float32).tofile(tmp_path / "values")
    array = np.memmap(tmp_path / "values", np.float32, "c", shape=(3, 2))
    array[1] = 5
    again = pickle.loads(pickle.dumps(rows_in_place(array)))
    assert again[:].tolist() == [[0, 0], [5, 5], [0, 0]]


def test_pages_are_handed_back_without_a_change_of_the_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_arrays, "RELEASE_BYTES", 1)
    array = np.memmap(tmp_path / "values", np.float32, "w+", shape=(4, 2))
    array[:] = 3
    again = np.memmap(tmp_path / "values", np.float32, "r+", shape=(4, 2))
    again[2] = 4
    lazy = LazyRows(ArrayReader(again))
    assert lazy[:].tolist() == lazy[:].tolist() == [[3, 3], [3, 3], [4, 4], [3, 3]]
    private = np.memmap(tmp_path / "values", np.float32, "c", shape=(4, 2))
    private[0] = 7
    lazy = LazyRows(ArrayReader(private))
    assert lazy[:1].tolist() == lazy[:1].tolist() == [[7, 7]]


def test_digests_tell_rows_apart(mapped, monkeypatch):
    one = digest(LazyRows(ArrayReader(mapped)))
    assert digest(LazyRows(ArrayReader(VALUES.copy()))) == one
    other = VALUES.copy()
    other[-2] += 1
    assert digest(LazyRows(ArrayReader(other))) != one
    monkeypatch.setattr(lazy_rows, "DIGEST_ROWS", 2)  # rows 0 and 20
    assert digest(LazyRows(ArrayReader(other))) == digest(LazyRows(ArrayReader(mapped))) != one


def test_only_large_maps_are_read_in_place(mapped, monkeypatch):
    assert type(as_tensor(mapped, "inputs", in_place=True)) is torch.Tensor
    monkeypatch.setattr(arrays, "IN_PLACE_BYTES", VALUES.nbytes - 1)
    assert isinstance(as_tensor(mapped, "inputs", in_place=True), LazyRows)
    assert isinstance(as_tensor(mapped[1:].base, "inputs", in_place=True), LazyRows)
    assert type(as_tensor(mapped, "targets")) is torch.Tensor
    assert type(as_tensor(VALUES, "inputs", in_place=True)) is torch.Tensor


def test_arrays_that_cannot_be_read_in_place_are_refused():
    for call, words in (
        (lambda: rows_in_place([[1.0]]), "`array` must be an array of numpy or a tensor"),
        (lambda: rows_in_place(np.array(["a"])), "`array` must be numeric"),
        (lambda: rows_in_place(np.zeros(())), "`array` must be one with rows"),
        (lambda: rows_in_place(VALUES, dtype="float32"), "`dtype` must be a torch.dtype"),
        (lambda: rows_in_place(VALUES, scale=np.inf), "`scale` must be a finite number"),
        (lambda: rows_in_place(VALUES, dtype=torch.long, scale=2), "`scale` must be left out"),
    ):
        with pytest.raises(BadInput, match=re.escape(words)):
            call()
