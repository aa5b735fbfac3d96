"""Islands as files: the same bits back, and nothing that has ended is lost."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import pytest
import torch

from sbmc.checks import BadInput
from sbmc.islands.checkpoints import results
from sbmc.islands.checkpoints.codec import Damaged, pack
from sbmc.islands.checkpoints.results import (
    decode_island,
    encode_island,
    is_final,
    island_name,
    read_islands,
    write_island,
)
from sbmc.islands.checkpoints.store import open_store
from sbmc.islands.island import Island, IslandReport


def island(index=3, outcome="completed", seed=1, **report):
    rng = torch.Generator().manual_seed(seed)
    positions = torch.randn(4, 2, generator=rng) if outcome == "completed" else None
    weights = torch.rand(4, dtype=torch.float64, generator=rng) if positions is not None else None
    temperatures = [{"temperature": 0.1, "acceptance": math.nan}, {"temperature": 1.0}]
    fields = {"log_evidence": -1 / 3, "steps": 7, "temperatures": temperatures, **report}
    return Island(IslandReport(index, outcome, **fields), positions, weights)


def assert_same(found, expected):
    assert repr(found.report) == repr(expected.report)  # words, since NaN is not equal to itself
    for name in ("positions", "weights"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            assert torch.equal(one, other)


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


@pytest.mark.parametrize(
    "one",
    [
        island(),
        replace(island(), weights=None),
        replace(island(), positions=torch.randn(4, 2, dtype=torch.float64)),
        island(log_evidence=math.nan, step_size=math.inf, acceptance=-math.inf),
        island(outcome="failed", message="ValueError: “bad”\n"),
        island(outcome="stuck", log_evidence=None),
        island(index=123456, attempts=3, seconds=0.1),
    ],
)
def test_an_island_comes_back_to_the_bit(store, one):
    assert_same(decode_island(encode_island(one)), one)
    write_island(store, one)
    assert store.names() == [island_name(one.report.index)]
    found = read_islands(store)
    assert list(found) == [one.report.index]
    assert_same(found[one.report.index], one)


@pytest.mark.parametrize(
    ("outcome", "final"),
    [
        ("completed", True),
        ("stuck", True),
        ("step-limit", True),
        ("failed", False),
        ("non-finite", False),
        ("running", False),
        ("an outcome of the future", False),
    ],
)
def test_which_outcomes_are_final(outcome, final):
    assert is_final(IslandReport(0, outcome)) is final


def test_islands_are_read_by_number_and_other_files_left_alone(store):
    for index in (10, 2, 0):
        write_island(store, island(index))
    store.write("island-notes.txt", b"")
    store.write("manifest.json", b"{}")
    assert list(read_islands(store)) == [0, 2, 10]
    assert list(read_islands(store, skip={2})) == [0, 10]


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_a_damaged_island_is_reported_and_not_there(store, damage, caplog):
    for index in (0, 1):
        write_island(store, island(index))
    name = island_name(0)
    store.write(name, damage(store.read(name)))
    with caplog.at_level(logging.WARNING, "sbmc"):
        assert list(read_islands(store)) == [1]
    assert f"{store.where(name)} is damaged" in caplog.text
    write_island(store, island(0))  # and it can be written again
    assert_same(read_islands(store)[0], island(0))


def test_a_file_under_another_island_s_name_is_damaged(store, caplog):
    store.write(island_name(5), encode_island(island(4)))
    assert read_islands(store) == {}
    assert "it holds island 4" in caplog.text


def test_another_kind_of_pack_is_no_island():
    with pytest.raises(Damaged, match="not an island"):
        decode_island(pack({}, {"kind": "stack"}))


def test_reports_of_a_later_version_are_refused_by_name(store):
    report = {"index": 0, "outcome": "completed", "zeal": 1, "colour": 2}
    store.write(island_name(0), pack({}, {"kind": "island", "report": report}))
    rule = "`checkpoint` must be written by this version of sbmc or an earlier one"
    with pytest.raises(BadInput, match=f"{rule}, but got an island whose report has also colour, "):
        read_islands(store)


def test_reports_of_an_earlier_version_get_the_defaults():
    data = pack({}, {"kind": "island", "report": {"index": 2, "outcome": "stuck"}})
    assert decode_island(data).report == IslandReport(2, "stuck")


def check_ended_stays(store, other):
    write_island(store, island())
    before = store.read(island_name(3))
    write_island(store, other)
    assert store.read(island_name(3)) == before


def test_the_same_island_is_not_written_twice(store, caplog):
    check_ended_stays(store, island())
    # A fold that runs again gives its other islands once more, after another time.
    check_ended_stays(store, island(attempts=2, seconds=9.0))
    assert caplog.text == ""


@pytest.mark.parametrize(
    "other", [island(outcome="failed"), island(outcome="stuck"), island(seed=2)]
)
def test_an_island_that_has_ended_stays_and_that_is_said(store, other, caplog):
    check_ended_stays(store, other)
    assert "island 3 had ended (completed)" in caplog.text


def test_a_writer_that_replaces_what_has_ended_is_caught(store, monkeypatch):
    monkeypatch.setattr(results, "is_final", lambda report: False)
    with pytest.raises(AssertionError):
        check_ended_stays(store, island(outcome="failed"))


def test_a_failure_is_replaced_by_a_success(store):
    write_island(store, island(outcome="failed"))
    write_island(store, island())
    assert_same(read_islands(store)[3], island())
