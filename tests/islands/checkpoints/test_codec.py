"""Every tensor and value comes back to the bit, and damage is noticed."""

from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors.torch import save

from sbmc.islands.checkpoints import codec
from sbmc.islands.checkpoints.codec import Damaged, decode, encode, pack, same, unpack
from sbmc.samplers.snapshot import Snapshot

TENSORS = {
    "float32": torch.tensor([1.0, math.nan, -math.inf, -0.0, 1e-45]),
    "float64": torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)),
    "bfloat16": torch.tensor([[1.5, math.inf]], dtype=torch.bfloat16),
    "float16": torch.tensor([0.1], dtype=torch.float16),
    "int64": torch.tensor([2**62, -1]),
    "int32": torch.tensor([[[7]]], dtype=torch.int32),
    "uint8": torch.Generator().manual_seed(3).get_state(),
    "bool": torch.tensor([True, False]),
    "zero-dim": torch.tensor(2.5),
    "zero-dim bool": torch.tensor(True),
    "empty": torch.empty(0, 5),
    "empty int": torch.empty(2, 0, dtype=torch.int64),
}


def assert_same_bits(found, expected):
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        assert found[name].shape == tensor.shape, name
        bits = [t.contiguous().reshape(-1).view(torch.uint8) for t in (found[name], tensor)]
        assert torch.equal(*bits), name


def test_every_kind_of_tensor_comes_back_to_the_bit_and_in_order():
    values = {"k": 3, "x": 0.1 + 0.2, "nan": math.nan, "inf": -math.inf, "list": [None, True, "é"]}
    parts = {"z": Snapshot(TENSORS, values), "a": Snapshot({}, {}), "m/n": Snapshot(TENSORS, {})}
    found, beside = decode(encode(parts, {"attempts": 2, "name": "x"}))
    assert list(found) == ["z", "a", "m/n"]
    for name, snapshot in parts.items():
        assert_same_bits(found[name].tensors, snapshot.tensors)
    assert repr(found["z"].values) == repr(values)  # NaN equals itself only in words
    assert beside == {"attempts": 2, "name": "x"}


def test_nothing_at_all_comes_back():
    assert decode(encode({}, {})) == ({}, {})


def test_tensors_that_share_memory_and_odd_layouts():
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {"whole": base, "again": base, "row": base[1], "across": base.T, "last": base[2, 2:]}
    tensors["grad"] = base.clone().requires_grad_()
    tensors["spread"] = torch.tensor([1.0]).expand(3)
    expected = {name: tensor.detach() for name, tensor in tensors.items()}
    found = decode(encode({"p": Snapshot(tensors, {})}, {}))[0]["p"].tensors
    assert_same_bits(found, expected)
    found["again"].zero_()
    assert torch.equal(found["whole"], base)  # what was read can be written to, each for itself
    assert torch.equal(base, torch.arange(12.0).reshape(3, 4))


def test_two_tensors_of_one_name_are_refused():
    one = torch.zeros(1)
    parts = {"a/b": Snapshot({"c": one}, {}), "a": Snapshot({"b/c": one}, {})}
    with pytest.raises(ValueError, match="'a/b/c'"):
        encode(parts, {})


def test_values_that_json_lacks_are_refused():
    with pytest.raises(TypeError):
        encode({"a": Snapshot({}, {"x": torch.zeros(1)})}, {})


def check_flipped_bytes():
    """Any flipped byte is noticed, unless the contents are as they were."""
    tensors, metadata = {"x": torch.arange(5.0), "y": torch.tensor([True])}, {"k": [1.5, "w"]}
    data = pack(tensors, metadata)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        try:
            found, words = unpack(bytes(changed))
        except Damaged:
            continue
        except ValueError as error:
            raise AssertionError(f"not noticed at {place}") from error
        assert_same_bits(dict(sorted(found.items())), tensors)
        assert words == metadata


def test_a_flipped_byte_is_noticed():
    check_flipped_bytes()


def test_a_codec_without_digest_is_caught(monkeypatch):
    monkeypatch.setattr(codec, "_digest", lambda words, tensors: "")
    with pytest.raises(AssertionError):
        check_flipped_bytes()


def test_a_truncated_file_is_noticed():
    data = pack({"x": torch.arange(5.0)}, {"k": 1})
    for length in range(len(data)):
        with pytest.raises(Damaged):
            unpack(data[:length])


@pytest.mark.parametrize(
    "data",
    [
        b"nothing of the kind",
        b"\xff" * 100,
        save({"x": torch.zeros(1)}),
        save({"x": torch.zeros(1)}, metadata={"sbmc": "{}"}),
        json.dumps({"a": 1}).encode(),
    ],
)
def test_other_files_are_damaged_ones(data):
    with pytest.raises(Damaged):
        unpack(data)


def test_a_pack_of_another_kind_is_no_stack():
    with pytest.raises(Damaged, match="not a stack"):
        decode(pack({}, {"kind": "island"}))


def test_the_same_contents_are_the_same():
    make = [pack({"x": torch.tensor([math.nan])}, {"k": math.nan}) for _ in range(5)]
    assert all(same(make[0], each) for each in make)
    assert not same(make[0], pack({"x": torch.tensor([math.nan])}, {"k": 1}))
    assert not same(make[0], pack({"x": torch.tensor([0.0])}, {"k": math.nan}))
    assert not same(make[0], make[0][:-1])
