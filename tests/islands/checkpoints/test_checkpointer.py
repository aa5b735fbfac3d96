"""The stack of snapshots in a file: when it is written, and what comes back."""

from __future__ import annotations

import logging
import math
import uuid

import pytest
import torch

from sbmc.islands.checkpoints.checkpointer import FileCheckpointer, Stopped
from sbmc.islands.checkpoints.codec import decode
from sbmc.islands.checkpoints.store import CheckpointError, open_store
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Snapshot

NAME = "batch-00000.safetensors"


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class StopAt:
    """Says yes the n-th time it is asked; counts how often it was."""

    def __init__(self, count):
        self.left = count
        self.asked = 0

    def __call__(self):
        self.left -= 1
        self.asked += 1
        return self.left == 0


@pytest.fixture
def store():
    store = open_store(f"memory://{uuid.uuid4().hex}")
    yield store
    for name in store._listed():
        store.remove(name)


def snapshot(**values):
    return lambda: Snapshot({}, values)


def stack_in(store):
    parts, _ = decode(store.read(NAME))
    return {part: snapshot.values for part, snapshot in parts.items()}


def toy(checkpointer, leaves=True):
    """Three outer steps of four inner ones, which draw noise and change a list in snapshot."""
    rng = torch.Generator().manual_seed(5)
    total, trace, first = torch.zeros(2, dtype=torch.float64), [], 0
    going_on = checkpointer.has("outer")
    found = checkpointer.restore("outer")
    if found is not None:
        total, trace, first = found.tensors["total"], found.values["trace"], found.values["k"]
        rng.set_state(found.tensors["rng"])

    def outer_snapshot(k, total, trace, state):
        return lambda: Snapshot({"total": total, "rng": state}, {"k": k, "trace": trace})

    def inner_snapshot(j, x, trace, state):
        return lambda: Snapshot({"x": x, "rng": state}, {"j": j, "trace": trace})

    for k in range(first, 3):
        if not going_on:
            checkpointer.offer_snapshot(
                "outer", outer_snapshot(k, total.clone(), list(trace), rng.get_state())
            )
        going_on = False
        x, start = torch.zeros(2, dtype=torch.float64), 0
        inner = checkpointer.restore("inner")
        if inner is not None:
            x, start = inner.tensors["x"], inner.values["j"]
            trace = inner.values["trace"]
            rng.set_state(inner.tensors["rng"])
        for j in range(start, 4):
            checkpointer.offer_snapshot(
                "inner", inner_snapshot(j, x.clone(), list(trace), rng.get_state())
            )
            x += torch.randn(2, dtype=torch.float64, generator=rng)
            trace.append([k, j])
        if leaves:
            checkpointer.discard("inner")
        total += x
    checkpointer.discard("outer")
    return total, trace


def check_stops(kind, store, stops, every=math.inf, leaves=True):
    """Stopped again and again and resumed, it comes to the same bits."""
    expected = toy(NO_CHECKPOINTS)
    for number, stop in enumerate(stops, start=1):
        checkpointer = kind(store, NAME, every, stop=StopAt(stop))
        checkpointer.begin()
        assert checkpointer.attempts == number
        try:
            result = toy(checkpointer, leaves)
            break
        except Stopped:
            continue
    else:
        checkpointer = kind(store, NAME, every)
        result = toy(checkpointer, leaves)
    assert torch.equal(result[0], expected[0])
    assert result[1] == expected[1]
    checkpointer.finish()
    assert store.names() == []


@pytest.mark.parametrize("every", [0, math.inf])
@pytest.mark.parametrize("stop", range(1, 17))
def test_a_run_that_was_stopped_ends_with_the_same_bits(store, stop, every):
    check_stops(FileCheckpointer, store, [stop], every)


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("stop", range(1, 16))
def test_a_run_that_was_stopped_three_times_ends_with_the_same_bits(store, stop, leaves):
    check_stops(FileCheckpointer, store, [stop, 3, 2], 0, leaves)


class ForgetsRestored(FileCheckpointer):
    """A planted bug: a snapshot that was restored is lost."""

    def restore(self, part):
        found = super().restore(part)
        if found is not None:
            del self._stack[part]
        return found


class LeavesAbove(FileCheckpointer):
    """A planted bug: what stood above a snapshot that is offered again stays."""

    def discard(self, part):
        self._stack.pop(part, None)


class GivesAway(FileCheckpointer):
    """A planted bug: the loop changes the very snapshot that may be written again."""

    def restore(self, part):
        if part not in self._unrestored:
            return None
        self._unrestored.remove(part)
        return self._made(part)


class RestoresTwice(FileCheckpointer):
    """A planted bug: the inner loop of the next temperature begins in the last one's middle."""

    def restore(self, part):
        found = super().restore(part)
        if found is not None and part == "inner":
            self.twice = found
        return found or (getattr(self, "twice", None) if part == "inner" else None)


@pytest.mark.parametrize("bug", [ForgetsRestored, LeavesAbove, RestoresTwice])
def test_a_checkpointer_with_a_bug_is_caught(bug, store):
    def check():
        for stop in range(1, 16):
            check_stops(bug, store, [stop, 3, 2], 0, leaves=bug is not LeavesAbove)

    with pytest.raises((AssertionError, RuntimeError, KeyError)):
        check()


def check_restored_snapshot(kind, store):
    """A loop may change what it restored; the saved snapshot stays as it was."""
    FileCheckpointer(store, NAME, every=0).offer_snapshot(
        "a", lambda: Snapshot({"x": torch.ones(2)}, {"l": [1]})
    )
    checkpointer = kind(store, NAME, every=0)
    found = checkpointer.restore("a")
    found.tensors["x"].add_(1)
    found.values["l"].append(2)
    checkpointer.offer_snapshot("b", snapshot())
    stands = decode(store.read(NAME))[0]["a"]
    assert torch.equal(stands.tensors["x"], torch.ones(2))
    assert stands.values == {"l": [1]}


def test_a_restored_snapshot_stays_unchanged(store):
    check_restored_snapshot(FileCheckpointer, store)


def test_a_checkpointer_that_gives_its_snapshot_away_is_caught(store):
    with pytest.raises(AssertionError):
        check_restored_snapshot(GivesAway, store)


def test_offering_replaces_a_snapshot_and_drops_those_above(store):
    checkpointer = FileCheckpointer(store, NAME, every=0)
    checkpointer.offer_snapshot("a", snapshot(k=1))
    checkpointer.offer_snapshot("b", snapshot(k=2))
    checkpointer.offer_snapshot("c", snapshot(k=3))
    assert stack_in(store) == {"a": {"k": 1}, "b": {"k": 2}, "c": {"k": 3}}
    checkpointer.offer_snapshot("b", snapshot(k=4))
    assert list(stack_in(store).items()) == [("a", {"k": 1}), ("b", {"k": 4})]
    checkpointer.discard("b")
    checkpointer.discard("never offered")
    checkpointer.offer_snapshot("d", snapshot(k=5))
    assert stack_in(store) == {"a": {"k": 1}, "d": {"k": 5}}
    checkpointer.offer_snapshot("a", snapshot(k=6))
    assert stack_in(store) == {"a": {"k": 6}}


def test_a_snapshot_is_restored_once_and_had_until_then(store):
    FileCheckpointer(store, NAME, every=0).offer_snapshot("a", snapshot(k=1))
    checkpointer = FileCheckpointer(store, NAME, every=0)
    assert (checkpointer.has("a"), checkpointer.has("b")) == (True, False)
    assert checkpointer.restore("b") is None
    assert checkpointer.restore("a") == Snapshot({}, {"k": 1})
    assert not checkpointer.has("a")
    assert checkpointer.restore("a") is None


def test_a_snapshot_that_was_passed_by_is_not_restored(store):
    first = FileCheckpointer(store, NAME, every=0)
    first.offer_snapshot("a", snapshot(k=1))
    first.offer_snapshot("b", snapshot(k=2))
    checkpointer = FileCheckpointer(store, NAME, every=0)
    checkpointer.offer_snapshot("a", snapshot(k=3))
    assert not checkpointer.has("a")
    assert not checkpointer.has("b")
    assert checkpointer.restore("b") is None


def test_snapshots_are_made_only_when_they_are_written(store):
    clock, made = Clock(), []

    def make(name):
        return lambda: made.append(name) or Snapshot({}, {})

    checkpointer = FileCheckpointer(store, NAME, every=10, clock=clock)
    checkpointer.offer_snapshot("a", make("a1"))
    checkpointer.offer_snapshot("b", make("b1"))
    checkpointer.offer_snapshot("b", make("b2"))
    assert made == []
    clock.now += 10
    checkpointer.offer_snapshot("b", make("b3"))
    assert made == ["a1", "b3"]
    clock.now += 10
    checkpointer.offer_snapshot("b", make("b4"))
    assert made == ["a1", "b3", "b4"]  # what stands is made once


def test_writes_come_at_the_interval(store):
    clock = Clock()
    checkpointer = FileCheckpointer(store, NAME, every=10, clock=clock)
    written = []
    for second in range(1, 35):
        clock.now = 100.0 + second
        checkpointer.offer_snapshot("a", snapshot(k=second))
        if len(written) < checkpointer.written:
            written.append(second)
            assert stack_in(store) == {"a": {"k": second}}
    assert written == [10, 20, 30]


def test_a_slow_write_is_followed_by_a_pause(store):
    clock = Clock()

    def slow():
        clock.now += 60
        return Snapshot({}, {})

    checkpointer = FileCheckpointer(store, NAME, every=10, clock=clock)
    clock.now += 10
    checkpointer.offer_snapshot("a", slow)
    checkpointer.offer_snapshot("a", slow)
    assert checkpointer.written == 1
    assert checkpointer.seconds == 60


def test_it_is_asked_at_every_snapshot_whether_to_stop_and_writes_before(store):
    stop = StopAt(3)
    checkpointer = FileCheckpointer(store, NAME, every=math.inf, stop=stop)
    checkpointer.offer_snapshot("a", snapshot(k=1))
    checkpointer.offer_snapshot("b", snapshot(k=2))
    assert store.read(NAME) is None
    with pytest.raises(Stopped):
        checkpointer.offer_snapshot("b", snapshot(k=3))
    assert stop.asked == 3
    assert stack_in(store) == {"a": {"k": 1}, "b": {"k": 3}}


def test_a_handler_of_exceptions_does_not_swallow_the_stop():
    assert issubclass(Stopped, KeyboardInterrupt)
    assert not issubclass(Stopped, Exception)


def test_attempts_are_counted_across_restarts_and_snapshots_saved(store):
    first = FileCheckpointer(store, NAME, every=math.inf)
    assert first.attempts == 0
    first.begin()
    assert (first.attempts, first.written) == (1, 1)
    second = FileCheckpointer(store, NAME, every=0)  # the first died without a snapshot
    second.begin()
    second.offer_snapshot("a", snapshot(k=1))
    third = FileCheckpointer(store, NAME, every=math.inf)
    third.begin()
    fourth = FileCheckpointer(store, NAME, every=math.inf)  # the third died before it restored
    assert fourth.attempts == 3
    assert fourth.restore("a") == Snapshot({}, {"k": 1})


def test_the_time_of_earlier_attempts_is_kept_up_to_the_last_snapshot(store):
    clock = Clock()
    first = FileCheckpointer(store, NAME, every=0, clock=clock)
    first.begin()
    clock.now += 7
    first.offer_snapshot("a", snapshot())
    clock.now += 5  # lost
    second = FileCheckpointer(store, NAME, every=0, clock=clock)
    assert (first.seconds_before, second.seconds_before) == (0, 7)
    second.begin()
    clock.now += 2
    second.offer_snapshot("a", snapshot())
    assert FileCheckpointer(store, NAME, every=0, clock=clock).seconds_before == 9


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_a_damaged_file_is_reported_and_begun_anew(store, damage, caplog):
    checkpointer = FileCheckpointer(store, NAME, every=0)
    checkpointer.begin()
    checkpointer.offer_snapshot("a", lambda: Snapshot({"x": torch.ones(3)}, {}))
    store.write(NAME, damage(store.read(NAME)))
    with caplog.at_level(logging.WARNING, "sbmc"):
        again = FileCheckpointer(store, NAME, every=0)
    assert f"{store.where(NAME)} is damaged" in caplog.text
    assert (again.attempts, again.has("a"), again.restore("a")) == (0, False, None)


def test_a_failed_write_is_raised(tmp_path):
    store = open_store(tmp_path / "gone")
    checkpointer = FileCheckpointer(store, NAME, every=0)
    with pytest.raises(CheckpointError, match="gone"):
        checkpointer.offer_snapshot("a", snapshot())
    with pytest.raises(CheckpointError, match="gone"):
        checkpointer.begin()
