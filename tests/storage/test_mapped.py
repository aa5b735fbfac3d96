"""Tensors in mapped files: the same numbers, no file left behind, and words for a full disk."""

from __future__ import annotations

import errno
import gc
import os
import tempfile

import pytest
import torch

from sbmc.storage import mapped
from sbmc.storage.digests import PIECE, digest
from sbmc.storage.mapped import free_bytes, is_mapped, mapped_tensor, release_pages, room_beside


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_survive_the_release_of_their_pages(dtype):
    numbers = torch.randn(3, 5000, generator=torch.Generator().manual_seed(0)).to(dtype)
    room = mapped_tensor(numbers.shape, dtype)
    assert torch.equal(room, torch.zeros_like(numbers))
    room.copy_(numbers)
    release_pages(room[1])
    assert torch.equal(room, numbers)


def test_the_file_has_no_name(tmp_path):
    room = mapped_tensor((10,), torch.float32, tmp_path)
    assert is_mapped(room)
    assert os.listdir(tmp_path) == []


def test_views_are_in_the_file_and_copies_are_not():
    room = mapped_tensor((4, 6), torch.float32)
    views = room[1], room.flatten(), room[:, 2:], room.view(2, 12)
    assert all(map(is_mapped, views))
    assert not is_mapped(room.clone())
    assert not is_mapped(torch.zeros(3))
    assert mapped_tensor((0, 6), torch.float32).shape == (0, 6)


def test_a_file_is_there_as_long_as_a_view_of_it():
    """And no longer: other memory at its address must not be taken for it."""
    table = mapped._MAPPINGS
    before = len(table)
    room = mapped_tensor((4, 6), torch.float32)
    view = room[2:]
    del room
    gc.collect()
    assert len(table) == before + 1
    del view
    gc.collect()
    assert len(table) == before


def test_what_is_put_together_is_in_a_file_if_a_part_is():
    inside, outside = mapped_tensor((2, 3), torch.bfloat16), torch.zeros(2, 3, dtype=torch.bfloat16)
    assert is_mapped(room_beside([outside, inside], (4, 3)))
    plain = room_beside([outside, outside], (4, 3))
    assert not is_mapped(plain)
    assert (plain.dtype, plain.shape) == (torch.bfloat16, (4, 3))


def test_a_digest_is_that_of_a_tensor_in_memory():
    numbers = torch.arange(PIECE // 4 + 100, dtype=torch.float32).view(-1, 4)
    room = mapped_tensor(numbers.shape, numbers.dtype)
    room.copy_(numbers)
    assert digest(room) == digest(numbers)


def test_a_full_disk_is_said_with_a_remedy(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match=r"a file of 4,000 bytes does not fit .* set TMPDIR"):
        mapped_tensor((1000,), torch.float32, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_disk_that_cannot_reserve_is_used_all_the_same(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert mapped_tensor((5,), torch.float32).sum() == 0


def test_the_space_of_a_folder_that_does_not_exist_is_that_of_its_parent(tmp_path):
    parent = os.statvfs(tmp_path)
    inner = free_bytes(tmp_path / "not" / "yet")
    assert inner == pytest.approx(parent.f_bavail * parent.f_frsize, rel=0.2)
    assert free_bytes() == pytest.approx(free_bytes(tempfile.gettempdir()), rel=0.2)
