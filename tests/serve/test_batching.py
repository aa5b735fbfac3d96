"""Requests that wait together are answered together, and each by its own answer."""

import asyncio
import threading

import pytest

from sbmc_serve.batching import Batcher
from sbmc_serve.refusals import Refused


class Slow:
    """A computation that waits to be let go, and remembers its batches."""

    def __init__(self):
        self.begun, self.let_go = threading.Semaphore(0), threading.Semaphore(0)
        self.batches = []

    def __call__(self, key, payloads):
        self.begun.release()
        assert self.let_go.acquire(timeout=60)
        self.batches.append((key, list(payloads)))
        return [f"{key}{payload}" for payload in payloads]


async def wait_for(condition):
    while not condition():
        await asyncio.sleep(0.001)


def batcher_of(compute, **options):
    return Batcher(compute, **{"batch_rows": 4, "queue": 100, **options})


def run(scenario, batcher):
    batcher.start()
    try:
        return asyncio.run(asyncio.wait_for(scenario, 60))
    finally:
        batcher.stop()


def ask(batcher, payload, key="k", rows=1, seconds=60.0):
    return asyncio.ensure_future(batcher.ask(key, payload, rows=rows, seconds=seconds))


def while_one_is_computed(slow, batcher, requests):
    """Let requests queue up behind a first one, then let all go."""

    async def scenario():
        first = ask(batcher, "first")
        await asyncio.to_thread(slow.begun.acquire)
        waiting = [ask(batcher, **request) for request in requests]
        await wait_for(lambda: batcher.waiting == len(requests))
        slow.let_go.release(100)
        return await asyncio.gather(first, *waiting)

    return scenario()


def test_what_waits_is_joined_in_order_up_to_the_rows_of_a_batch():
    slow, sizes = Slow(), []
    batcher = batcher_of(slow, observe=sizes.append)
    requests = [{"payload": number} for number in range(6)]
    answers = run(while_one_is_computed(slow, batcher, requests), batcher)
    assert answers == ["kfirst", "k0", "k1", "k2", "k3", "k4", "k5"]
    assert slow.batches == [("k", ["first"]), ("k", [0, 1, 2, 3]), ("k", [4, 5])]
    assert sizes == [[1], [1, 1, 1, 1], [1, 1]]


def test_other_keys_wait_for_their_own_batch():
    slow = Slow()
    batcher = batcher_of(slow)
    requests = [{"payload": n, "key": "ab"[n % 2]} for n in range(4)]
    answers = run(while_one_is_computed(slow, batcher, requests), batcher)
    assert answers == ["kfirst", "a0", "b1", "a2", "b3"]
    assert slow.batches[1:] == [("a", [0, 2]), ("b", [1, 3])]


def test_a_large_request_is_computed_alone_and_overtaken_by_none_of_its_size():
    slow = Slow()
    batcher = batcher_of(slow)
    requests = [{"payload": "large", "rows": 9}, {"payload": "small"}, {"payload": "3", "rows": 3}]
    run(while_one_is_computed(slow, batcher, requests), batcher)
    assert [payloads for _, payloads in slow.batches[1:]] == [["large"], ["small", "3"]]


def test_an_idle_server_waits_for_nobody():
    batcher = batcher_of(lambda key, payloads: list(payloads))
    answer = run(batcher.ask("k", 1, rows=1, seconds=60.0), batcher)
    assert answer == 1


def test_a_full_queue_refuses_and_says_when_to_try_again():
    slow = Slow()
    batcher = batcher_of(slow, queue=2)

    async def scenario():
        first = ask(batcher, "first")
        await asyncio.to_thread(slow.begun.acquire)
        waiting = [ask(batcher, number) for number in range(2)]
        await wait_for(lambda: batcher.waiting == 2)
        with pytest.raises(Refused) as refused:
            await ask(batcher, "one too many")
        slow.let_go.release(100)
        answers = await asyncio.gather(first, *waiting)
        return refused.value, answers

    refused, answers = run(scenario(), batcher)
    assert refused.status == 503
    assert refused.headers == {"Retry-After": "1"}
    assert "at most 2 wait, but got 2 that wait already" in str(refused)
    assert answers == ["kfirst", "k0", "k1"]


def test_a_request_that_waits_too_long_is_dropped_before_its_turn():
    slow = Slow()
    batcher = batcher_of(slow)

    async def scenario():
        first = ask(batcher, "first")
        await asyncio.to_thread(slow.begun.acquire)
        with pytest.raises(TimeoutError):
            await ask(batcher, "late", seconds=0.01)
        assert batcher.waiting == 0  # it takes nobody's room
        slow.let_go.release(100)
        await first

    run(scenario(), batcher)
    assert slow.batches == [("k", ["first"])]


def test_a_failure_is_answered_to_the_request_at_fault_alone():
    calls = []

    def inverse(key, payloads):
        calls.append(list(payloads))
        return [1 / payload for payload in payloads]

    slow = Slow()

    def compute(key, payloads):
        return slow(key, payloads) if payloads == ["first"] else inverse(key, payloads)

    batcher = batcher_of(compute)

    async def scenario():
        first = ask(batcher, "first")
        await asyncio.to_thread(slow.begun.acquire)
        waiting = [ask(batcher, payload) for payload in (1, 0, 2)]
        await wait_for(lambda: batcher.waiting == 3)
        slow.let_go.release(100)
        await first
        return await asyncio.gather(*waiting, return_exceptions=True)

    one, failure, half = run(scenario(), batcher)
    assert (one, half) == (1.0, 0.5)
    assert isinstance(failure, ZeroDivisionError)
    assert calls == [[1, 0, 2], [1], [0], [2]]


def test_too_few_results_are_a_failure_and_the_thread_goes_on():
    batcher = batcher_of(lambda key, payloads: [] if key == "bad" else list(payloads))

    async def scenario():
        with pytest.raises(ValueError, match="shorter"):
            await batcher.ask("bad", 1, rows=1, seconds=60.0)
        return await batcher.ask("good", 2, rows=1, seconds=60.0)

    assert run(scenario(), batcher) == 2


def test_stopping_answers_what_waits_and_then_refuses():
    slow = Slow()
    batcher = batcher_of(slow)

    async def scenario():
        batcher.start()
        asked = [ask(batcher, "first")]
        await asyncio.to_thread(slow.begun.acquire)
        asked.append(ask(batcher, "waiting"))
        await wait_for(lambda: batcher.waiting == 1)
        stopping = asyncio.ensure_future(asyncio.to_thread(batcher.stop))
        await wait_for(lambda: not batcher.alive)
        with pytest.raises(Refused, match="one that is stopping"):
            await ask(batcher, "too late")
        slow.let_go.release(100)
        await stopping
        return await asyncio.gather(*asked)

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == ["kfirst", "kwaiting"]


def test_the_first_request_starts_a_server_whose_start_nobody_announced():
    batcher = batcher_of(lambda key, payloads: list(payloads))
    assert batcher.alive
    assert asyncio.run(batcher.ask("k", 5, rows=1, seconds=60.0)) == 5
    batcher.stop()
    assert not batcher.alive
