"""The stack of places in a file: when it is written, and what comes back."""

from __future__ import annotations

import logging
import math
import uuid

import pytest
import torch

from sbmc.islands.checkpoints.codec import decode
from sbmc.islands.checkpoints.keeper import FileKeeper, Stopped
from sbmc.islands.checkpoints.store import CheckpointError, open_store
from sbmc.samplers.snapshot import NOTHING, Snapshot

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


def place(**values):
    return lambda: Snapshot({}, values)


def stack_in(store):
    parts, _ = decode(store.read(NAME))
    return {part: snapshot.values for part, snapshot in parts.items()}


def toy(keeper, leaves=True):
    """Three outer steps of four inner ones, which draw noise and change a list in place."""
    rng = torch.Generator().manual_seed(5)
    total, trace, first = torch.zeros(2, dtype=torch.float64), [], 0
    going_on = keeper.has("outer")
    found = keeper.recall("outer")
    if found is not None:
        total, trace, first = found.tensors["total"], found.values["trace"], found.values["k"]
        rng.set_state(found.tensors["rng"])

    def outer_place(k, total, trace, state):
        return lambda: Snapshot({"total": total, "rng": state}, {"k": k, "trace": trace})

    def inner_place(j, x, trace, state):
        return lambda: Snapshot({"x": x, "rng": state}, {"j": j, "trace": trace})

    for k in range(first, 3):
        if not going_on:
            keeper.offer("outer", outer_place(k, total.clone(), list(trace), rng.get_state()))
        going_on = False
        x, start = torch.zeros(2, dtype=torch.float64), 0
        inner = keeper.recall("inner")
        if inner is not None:
            x, start = inner.tensors["x"], inner.values["j"]
            trace = inner.values["trace"]
            rng.set_state(inner.tensors["rng"])
        for j in range(start, 4):
            keeper.offer("inner", inner_place(j, x.clone(), list(trace), rng.get_state()))
            x += torch.randn(2, dtype=torch.float64, generator=rng)
            trace.append([k, j])
        if leaves:
            keeper.leave("inner")
        total += x
    keeper.leave("outer")
    return total, trace


def check_stops(kind, store, stops, every=math.inf, leaves=True):
    """Stopped again and again and resumed, it comes to the same bits."""
    expected = toy(NOTHING)
    for number, stop in enumerate(stops, start=1):
        keeper = kind(store, NAME, every, stop=StopAt(stop))
        keeper.begin()
        assert keeper.attempts == number
        try:
            result = toy(keeper, leaves)
            break
        except Stopped:
            continue
    else:
        keeper = kind(store, NAME, every)
        result = toy(keeper, leaves)
    assert torch.equal(result[0], expected[0])
    assert result[1] == expected[1]
    keeper.finish()
    assert store.names() == []


@pytest.mark.parametrize("every", [0, math.inf])
@pytest.mark.parametrize("stop", range(1, 17))
def test_a_run_that_was_stopped_ends_with_the_same_bits(store, stop, every):
    check_stops(FileKeeper, store, [stop], every)


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("stop", range(1, 16))
def test_a_run_that_was_stopped_three_times_ends_with_the_same_bits(store, stop, leaves):
    check_stops(FileKeeper, store, [stop, 3, 2], 0, leaves)


class ForgetsRecalled(FileKeeper):
    """A planted bug: a place that was recalled does not stand any more."""

    def recall(self, part):
        found = super().recall(part)
        if found is not None:
            del self._stack[part]
        return found


class LeavesAbove(FileKeeper):
    """A planted bug: what stood above a place that is offered again stays."""

    def leave(self, part):
        self._stack.pop(part, None)


class GivesAway(FileKeeper):
    """A planted bug: the loop changes the very place that may be written again."""

    def recall(self, part):
        if part not in self._found:
            return None
        self._found.remove(part)
        return self._made(part)


class RecallsTwice(FileKeeper):
    """A planted bug: the inner loop of the next temperature begins in the last one's middle."""

    def recall(self, part):
        found = super().recall(part)
        if found is not None and part == "inner":
            self.twice = found
        return found or (getattr(self, "twice", None) if part == "inner" else None)


@pytest.mark.parametrize("bug", [ForgetsRecalled, LeavesAbove, RecallsTwice])
def test_a_keeper_with_a_bug_is_caught(bug, store):
    def check():
        for stop in range(1, 16):
            check_stops(bug, store, [stop, 3, 2], 0, leaves=bug is not LeavesAbove)

    with pytest.raises((AssertionError, RuntimeError, KeyError)):
        check()


def check_recalled_place(kind, store):
    """A loop may change what it recalled; the place that stands is what it was."""
    FileKeeper(store, NAME, every=0).offer("a", lambda: Snapshot({"x": torch.ones(2)}, {"l": [1]}))
    keeper = kind(store, NAME, every=0)
    found = keeper.recall("a")
    found.tensors["x"].add_(1)
    found.values["l"].append(2)
    keeper.offer("b", place())
    stands = decode(store.read(NAME))[0]["a"]
    assert torch.equal(stands.tensors["x"], torch.ones(2))
    assert stands.values == {"l": [1]}


def test_a_recalled_place_stands_unchanged(store):
    check_recalled_place(FileKeeper, store)


def test_a_keeper_that_gives_its_place_away_is_caught(store):
    with pytest.raises(AssertionError):
        check_recalled_place(GivesAway, store)


def test_offering_replaces_a_place_and_drops_what_stands_above(store):
    keeper = FileKeeper(store, NAME, every=0)
    keeper.offer("a", place(k=1))
    keeper.offer("b", place(k=2))
    keeper.offer("c", place(k=3))
    assert stack_in(store) == {"a": {"k": 1}, "b": {"k": 2}, "c": {"k": 3}}
    keeper.offer("b", place(k=4))
    assert list(stack_in(store).items()) == [("a", {"k": 1}), ("b", {"k": 4})]
    keeper.leave("b")
    keeper.leave("never offered")
    keeper.offer("d", place(k=5))
    assert stack_in(store) == {"a": {"k": 1}, "d": {"k": 5}}
    keeper.offer("a", place(k=6))
    assert stack_in(store) == {"a": {"k": 6}}


def test_a_place_is_recalled_once_and_had_until_then(store):
    FileKeeper(store, NAME, every=0).offer("a", place(k=1))
    keeper = FileKeeper(store, NAME, every=0)
    assert (keeper.has("a"), keeper.has("b")) == (True, False)
    assert keeper.recall("b") is None
    assert keeper.recall("a") == Snapshot({}, {"k": 1})
    assert not keeper.has("a")
    assert keeper.recall("a") is None


def test_a_place_that_was_passed_by_is_not_recalled(store):
    first = FileKeeper(store, NAME, every=0)
    first.offer("a", place(k=1))
    first.offer("b", place(k=2))
    keeper = FileKeeper(store, NAME, every=0)
    keeper.offer("a", place(k=3))
    assert not keeper.has("a")
    assert not keeper.has("b")
    assert keeper.recall("b") is None


def test_places_are_made_only_when_they_are_written(store):
    clock, made = Clock(), []

    def make(name):
        return lambda: made.append(name) or Snapshot({}, {})

    keeper = FileKeeper(store, NAME, every=10, clock=clock)
    keeper.offer("a", make("a1"))
    keeper.offer("b", make("b1"))
    keeper.offer("b", make("b2"))
    assert made == []
    clock.now += 10
    keeper.offer("b", make("b3"))
    assert made == ["a1", "b3"]
    clock.now += 10
    keeper.offer("b", make("b4"))
    assert made == ["a1", "b3", "b4"]  # what stands is made once


def test_writes_come_at_the_interval(store):
    clock = Clock()
    keeper = FileKeeper(store, NAME, every=10, clock=clock)
    written = []
    for second in range(1, 35):
        clock.now = 100.0 + second
        keeper.offer("a", place(k=second))
        if len(written) < keeper.written:
            written.append(second)
            assert stack_in(store) == {"a": {"k": second}}
    assert written == [10, 20, 30]


def test_a_slow_write_is_followed_by_a_pause(store):
    clock = Clock()

    def slow():
        clock.now += 60
        return Snapshot({}, {})

    keeper = FileKeeper(store, NAME, every=10, clock=clock)
    clock.now += 10
    keeper.offer("a", slow)
    keeper.offer("a", slow)
    assert keeper.written == 1
    assert keeper.seconds == 60


def test_it_is_asked_at_every_place_whether_to_stop_and_writes_before(store):
    stop = StopAt(3)
    keeper = FileKeeper(store, NAME, every=math.inf, stop=stop)
    keeper.offer("a", place(k=1))
    keeper.offer("b", place(k=2))
    assert store.read(NAME) is None
    with pytest.raises(Stopped):
        keeper.offer("b", place(k=3))
    assert stop.asked == 3
    assert stack_in(store) == {"a": {"k": 1}, "b": {"k": 3}}


def test_a_handler_of_exceptions_does_not_swallow_the_stop():
    assert issubclass(Stopped, KeyboardInterrupt)
    assert not issubclass(Stopped, Exception)


def test_attempts_are_counted_across_restarts_and_places_kept(store):
    first = FileKeeper(store, NAME, every=math.inf)
    assert first.attempts == 0
    first.begin()
    assert (first.attempts, first.written) == (1, 1)
    second = FileKeeper(store, NAME, every=0)  # the first died without a place
    second.begin()
    second.offer("a", place(k=1))
    third = FileKeeper(store, NAME, every=math.inf)
    third.begin()
    fourth = FileKeeper(store, NAME, every=math.inf)  # the third died before it recalled
    assert fourth.attempts == 3
    assert fourth.recall("a") == Snapshot({}, {"k": 1})


def test_the_time_of_earlier_attempts_is_kept_up_to_the_last_place(store):
    clock = Clock()
    first = FileKeeper(store, NAME, every=0, clock=clock)
    first.begin()
    clock.now += 7
    first.offer("a", place())
    clock.now += 5  # lost
    second = FileKeeper(store, NAME, every=0, clock=clock)
    assert (first.seconds_before, second.seconds_before) == (0, 7)
    second.begin()
    clock.now += 2
    second.offer("a", place())
    assert FileKeeper(store, NAME, every=0, clock=clock).seconds_before == 9


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_a_damaged_file_is_reported_and_begun_anew(store, damage, caplog):
    keeper = FileKeeper(store, NAME, every=0)
    keeper.begin()
    keeper.offer("a", lambda: Snapshot({"x": torch.ones(3)}, {}))
    store.write(NAME, damage(store.read(NAME)))
    with caplog.at_level(logging.WARNING, "sbmc"):
        again = FileKeeper(store, NAME, every=0)
    assert f"{store.where(NAME)} is damaged" in caplog.text
    assert (again.attempts, again.has("a"), again.recall("a")) == (0, False, None)


def test_a_failed_write_is_raised(tmp_path):
    store = open_store(tmp_path / "gone")
    keeper = FileKeeper(store, NAME, every=0)
    with pytest.raises(CheckpointError, match="gone"):
        keeper.offer("a", place())
    with pytest.raises(CheckpointError, match="gone"):
        keeper.begin()
