"""The simulation of a cluster: exact where nothing is left to chance, closed forms where it is."""

import math
import statistics

import pytest

from benchmarks import cluster as module
from benchmarks.cluster import Cluster, simulate, written
from sbmc.checks import BadInput

# Each comparison of a mean: 4.5 standard errors, a false alarm once in 150,000 (seeds are fixed).
ERRORS = 4.5


def mean_makespan(length, cluster, runs=2_000):
    found = [simulate([length], cluster, seed).makespan for seed in range(runs)]
    return statistics.mean(found), statistics.stdev(found) / math.sqrt(runs)


def anew(rate, length):
    """The expected time of work that begins anew whenever its worker dies."""
    return math.expm1(rate * length) / rate


@pytest.mark.parametrize(("islands", "workers"), [(1, 1), (10, 3), (12, 4), (5, 100)])
def test_equal_islands_take_as_many_rounds_as_there_are(islands, workers):
    outcome = simulate([7.0] * islands, Cluster(workers=workers))
    rounds = math.ceil(islands / workers)
    assert outcome.makespan == 7.0 * rounds
    assert outcome.efficiency == pytest.approx(islands / (rounds * workers))
    assert (outcome.lost, outcome.failures, outcome.given_up) == (0, 0, 0)


def test_the_driver_and_its_network_serve_one_at_a_time():
    # Five workers, five islands: the last gets its work after 5 · 2, and waits 1 more to begin.
    times = [10.0] * 5
    both = Cluster(workers=5, start=3.0, payload=2.0, submit=1.0)
    assert simulate(times, both).makespan == 3 + 5 * 2 + 1 + 10
    # Without the network it is the driver's turn that counts.
    assert simulate(times, Cluster(workers=5, submit=1.0)).makespan == 5 + 10
    # With k islands under way it takes 1 + k: 1 + 2 + 3 + 4 + 5.
    assert simulate(times, Cluster(workers=5, submit=1.0, crowd=1.0)).makespan == 15 + 10
    # A driver that is slower than the islands sets the pace, whatever the number of workers.
    slow = simulate([1.0] * 100, Cluster(workers=50, submit=2.0))
    assert slow.makespan == 2 * 100 + 1
    assert slow.driver == 200


def test_hearing_the_news_keeps_those_waiting_who_have_ended():
    slow = Cluster(workers=3, news=1.0, news_crowd=0.5)
    # Of one: a second and a half, always; it takes half of that on average until it is over.
    assert slow.hearing(1) == 0.75
    assert slow.hearing(2) == 2.0
    # A fifth of half a second: it comes at such a time once in five, and waits for half of it.
    assert Cluster(workers=1, news=0.1).hearing(1) == pytest.approx(0.1 / 5 / 2)
    # The second island waits for news of the first, the third for news of both.
    assert simulate([10.0] * 3, slow).makespan == 10 + 2.0


def test_writes_take_their_time():
    # After 10 and 20 seconds of computing, but not at the end.
    assert simulate([30.0], Cluster(workers=1, checkpoint=10.0, write=0.5)).makespan == 31
    assert simulate([31.0], Cluster(workers=1, checkpoint=10.0, write=0.5)).makespan == 32.5


def test_what_a_checkpoint_holds():
    every = Cluster(workers=1, checkpoint=10.0, write=1.0)
    assert [written(t, 25.0, every) for t in (0, 10.9, 11, 22, 26.9)] == [0, 0, 10, 20, 20]
    assert written(1e9, 25.0, every) == 20
    assert written(1e9, 25.0, Cluster(workers=1)) == 0


def test_an_island_that_begins_anew_takes_the_expected_time():
    rate, length = 1 / 20, 30.0
    found, error = mean_makespan(length, Cluster(workers=1, failure_rate=rate))
    assert abs(found - anew(rate, length)) < ERRORS * error


def expected_with_checkpoints(rate):
    return 2 * anew(rate, 11.0) + anew(rate, 10.0)


def test_an_island_with_checkpoints_takes_the_expected_time():
    rate = 1 / 20
    cluster = Cluster(workers=1, failure_rate=rate, checkpoint=10.0, write=1.0)
    found, error = mean_makespan(30.0, cluster)
    assert abs(found - expected_with_checkpoints(rate)) < ERRORS * error


def _every_full_interval(elapsed, left, cluster):
    return elapsed // cluster.checkpoint * cluster.checkpoint


PLANTED = {
    "nothing is ever lost": lambda elapsed, left, cluster: min(elapsed, left),
    "checkpoints are not used": lambda elapsed, left, cluster: 0.0,
    "writes take no time": _every_full_interval,
}


@pytest.mark.parametrize("wrong", PLANTED.values(), ids=PLANTED)
def test_a_wrong_checkpoint_is_noticed(wrong, monkeypatch):
    monkeypatch.setattr(module, "written", wrong)
    rate = 1 / 20
    cluster = Cluster(workers=1, failure_rate=rate, checkpoint=10.0, write=1.0)
    found, error = mean_makespan(30.0, cluster)
    assert abs(found - expected_with_checkpoints(rate)) > ERRORS * error


def test_no_island_is_lost_and_all_time_is_accounted_for():
    times = [5.0 + i % 7 for i in range(200)]
    rate = 1 / 30
    cluster = Cluster(workers=10, failure_rate=rate, checkpoint=2.0, start=1.0)
    outcome = simulate(times, cluster, seed=3)
    assert outcome.failures > 20
    assert outcome.given_up == 0
    assert outcome.useful == pytest.approx(sum(times))
    # Ten workers were busy with what is of use, what was lost, and starting; or idle at the end.
    busy = outcome.useful + outcome.lost + outcome.failures + 10
    assert busy <= 10 * outcome.makespan + 10
    assert busy > 10 * (outcome.makespan - max(times) - 5)
    assert simulate(times, cluster, seed=3) == outcome
    assert simulate(times, cluster, seed=4) != outcome


def test_an_island_is_given_up_after_its_retries():
    # Dies within 10 seconds with probability 1 - exp(-1), each of three times.
    cluster = Cluster(workers=50, failure_rate=0.1, retries=2)
    outcome = simulate([10.0] * 20_000, cluster)
    chance = (1 - math.exp(-1)) ** 3
    error = math.sqrt(chance * (1 - chance) / 20_000)
    assert abs(outcome.given_up / 20_000 - chance) < ERRORS * error
    assert outcome.useful == pytest.approx(10.0 * (20_000 - outcome.given_up))


@pytest.mark.parametrize(
    ("field", "value"), [("workers", 0), ("checkpoint", 0.0), ("submit", -1.0), ("write", -1.0)]
)
def test_bad_numbers_are_refused(field, value):
    with pytest.raises(BadInput, match=f"`{field}` must be"):
        Cluster(**{"workers": 1, field: value})
