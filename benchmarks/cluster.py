"""Islands on the workers of a cluster, event by event: no computing, only its times.

One driver hands out islands, one at a time. A worker starts, gets the work once, and runs one
island after another. It may die while it runs one; the island goes to the end of the queue, as in
`sbmc.islands.scheduler`, and goes on from its last checkpoint or from the beginning.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.checks import require
from sbmc.islands.executors.contract import PROGRESS_INTERVAL

# The number that stands for no island.
_NONE = -1


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What the simulation knows of a cluster; all times in seconds.

    Args:
        workers: how many islands run at a time.
        start: until a worker can work, at the beginning and after it has died.
        payload: of the driver's network for sending the work to a worker, once for each start.
        submit: of the driver for handing an island out and taking it back.
        crowd: more of them for each island that is under way.
        news: of the driver for hearing of the progress of an island, which it does
            `PROGRESS_INTERVAL` after the last time or, if it has not come through with all of them
            by then, at once.
        news_crowd: more of them for each island that is under way.
        failure_rate: deaths of a worker per second of running islands.
        checkpoint: of computing between two writes of an island's state; infinite without any.
        write: for writing a state.
        retries: how often an island is tried again; None for without end.

    Raises:
        BadInput: a number breaks its rule.
    """

    workers: int
    start: float = 0.0
    payload: float = 0.0
    submit: float = 0.0
    crowd: float = 0.0
    news: float = 0.0
    news_crowd: float = 0.0
    failure_rate: float = 0.0
    checkpoint: float = math.inf
    write: float = 0.0
    retries: int | None = None

    def __post_init__(self) -> None:
        require(self.workers >= 1, "workers", "at least 1", self.workers)
        require(self.checkpoint > 0, "checkpoint", "positive", self.checkpoint)
        for name, value in vars(self).items():
            require(value is None or value >= 0, name, "at least 0", value)

    def service(self, under_way: int) -> float:
        """Seconds that the driver needs for an island."""
        return self.submit + self.crowd * under_way

    def hearing(self, under_way: int) -> float:
        """Seconds that an island waits, on average, until the driver has heard the others out.

        A time b of hearing, once in the longer of b and `PROGRESS_INTERVAL`, makes whoever comes at
        any moment wait for b²/2 over that.
        """
        busy = under_way * (self.news + self.news_crowd * under_way)
        return busy / 2 * min(1.0, busy / PROGRESS_INTERVAL)


@dataclass
class Outcome:
    """What came of a run.

    Attributes:
        makespan: seconds from the beginning to the end of the last island.
        useful: seconds of computing in the islands that have ended.
        lost: seconds of workers on what a death has undone, writes included.
        failures: deaths of workers.
        given_up: islands that were lost once more than they are tried again.
        driver: seconds in which the driver was busy.
        workers: how many there were.
    """

    makespan: float = 0.0
    useful: float = 0.0
    lost: float = 0.0
    failures: int = 0
    given_up: int = 0
    driver: float = 0.0
    workers: int = 1

    @property
    def efficiency(self) -> float:
        """The part of all workers' time that went into islands that have ended."""
        return self.useful / (self.makespan * self.workers)


def written(elapsed: float, left: float, cluster: Cluster) -> float:
    """Seconds of computing that a checkpoint holds after so many seconds of an attempt.

    States are written after each full interval, but not at the end.

    Args:
        elapsed: seconds since the attempt began, writes included.
        left: what had to be computed when it began.
        cluster: its interval and the time of a write.

    Returns:
        At most `left`.

    Example:
        >>> written(25.0, 100.0, Cluster(workers=1, checkpoint=10.0, write=1.0))
        20.0
    """
    if math.isinf(cluster.checkpoint):
        return 0.0
    writes = min(elapsed // (cluster.checkpoint + cluster.write), _writes(left, cluster))
    return writes * cluster.checkpoint


def _writes(left: float, cluster: Cluster) -> int:
    return 0 if math.isinf(cluster.checkpoint) else max(0, math.ceil(left / cluster.checkpoint) - 1)


def simulate(times: Sequence[float], cluster: Cluster, seed: int = 0) -> Outcome:
    """Run islands on a cluster.

    Args:
        times: seconds of computing that each island takes.
        cluster: who runs them.
        seed: of the deaths of workers; nothing else is left to chance.

    Returns:
        What came of it.

    Example:
        >>> simulate([10.0] * 5, Cluster(workers=2)).makespan
        30.0
    """
    rng = random.Random(seed)
    left, tries = list(times), [0] * len(times)
    queue = deque(range(len(times)))
    # (when, number of the event, worker, island that ends then, when its attempt began, whether it
    # has ended well); without an island, the worker is there and waits for one.
    events: list[tuple[float, int, int, int, float, bool]] = []
    number, idle = 0, []
    link = driver = 0.0  # when the driver's network, and the driver, are free
    under_way = 0
    outcome = Outcome(workers=cluster.workers)

    def push(when: float, worker: int, island: int, began: float, well: bool) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (when, number, worker, island, began, well))

    def start(now: float, worker: int) -> None:
        nonlocal link
        link = max(link, now + cluster.start) + cluster.payload
        push(link, worker, _NONE, now, True)

    for worker in range(min(cluster.workers, len(times))):
        start(0.0, worker)
    while events:
        now, _, worker, island, began, well = heapq.heappop(events)
        if island != _NONE:
            under_way -= 1
            outcome.makespan = now
            if well:
                outcome.useful += times[island]
            else:
                outcome.failures += 1
                tries[island] += 1
                kept = written(now - began, left[island], cluster)
                outcome.lost += now - began - kept
                left[island] -= kept
                if cluster.retries is None or tries[island] <= cluster.retries:
                    queue.append(island)
                    if idle:
                        push(now, idle.pop(), _NONE, now, True)
                else:
                    outcome.given_up += 1
                    outcome.lost += times[island] - left[island]  # what its checkpoint held
                start(now, worker)
                continue
        if not queue:
            idle.append(worker)
            continue
        island = queue.popleft()
        driver = max(driver, now) + cluster.service(under_way)
        outcome.driver += cluster.service(under_way)
        begins = driver + cluster.hearing(under_way)
        under_way += 1
        span = left[island] + cluster.write * _writes(left[island], cluster)
        dies = rng.expovariate(cluster.failure_rate) if cluster.failure_rate else math.inf
        push(begins + min(span, dies), worker, island, begins, dies >= span)
    return outcome
