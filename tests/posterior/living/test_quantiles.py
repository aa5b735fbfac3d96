"""Samples kept as quantiles: exact p-values, and false alarms at most as often as promised."""

import itertools
import json

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp

from sbmc import BadInput
from sbmc.posterior.living import quantiles
from sbmc.posterior.living.quantiles import KEPT, Quantiles, p_value


def all_gaps(old, new):
    """The largest gap, in units of 1 / nm, of every order in which the values can lie."""
    for places in itertools.combinations(range(old + new), old):
        first = np.zeros(old + new, dtype=int)
        first[list(places)] = 1
        yield np.abs(first.cumsum() * new - (1 - first).cumsum() * old).max()


@pytest.mark.parametrize(("old", "new"), [(1, 1), (3, 4), (5, 2), (4, 4), (1, 6)])
def test_the_p_value_counts_all_orders(old, new):
    gaps = np.array(list(all_gaps(old, new)))
    for gap in range(old * new + 1):
        assert p_value(gap, old, new) == pytest.approx((gaps >= gap).mean(), abs=1e-12)


@pytest.mark.parametrize(("old", "new"), [(1000, 300), (40, 1000), (700, 700)])
def test_the_p_value_is_scipys(old, new):
    rng = np.random.default_rng(old)
    expected = ks_2samp(rng.normal(size=old), rng.normal(size=new) + 0.1, method="exact")
    gap = round(expected.statistic * old * new)
    assert p_value(gap, old, new) == pytest.approx(expected.pvalue, rel=1e-6)


def test_large_samples_take_the_limit(monkeypatch):
    exact = p_value(60 * 2000, 1000, 2000)
    monkeypatch.setattr(quantiles, "MOST_PAIRS", 1)
    p_value.cache_clear()
    assert p_value(60 * 2000, 1000, 2000) == pytest.approx(exact, rel=0.05)
    p_value.cache_clear()


CONTINUOUS = {"normal": lambda rng, size: rng.standard_normal(size)}
TIED = {
    "binary": lambda rng, size: (rng.random(size) < 0.3).astype(float),
    "counts": lambda rng, size: rng.poisson(1.0, size).astype(float),
    "mostly zero": lambda rng, size: np.maximum(rng.standard_normal(size), 0),
}


@pytest.mark.parametrize("draw", {**CONTINUOUS, **TIED}.values(), ids=[*CONTINUOUS, *TIED])
@pytest.mark.parametrize(("old", "new"), [(1000, 500), (1000, 3), (50, 40)])
def test_false_alarms_are_at_most_as_frequent_as_promised(draw, old, new):
    """A correct test fails here with a probability below 1e-6 each."""
    rng = np.random.default_rng([old, new])
    trials, level = 400, 0.1
    alarms = sum(
        Quantiles.of(draw(rng, old)).compare(draw(rng, new))[1] <= level for _ in range(trials)
    )
    assert alarms <= binom.isf(1e-6, trials, level)


def test_it_is_no_test_that_never_alarms():
    rng = np.random.default_rng(0)
    pairs = [(rng.standard_normal(1000), rng.standard_normal(500)) for _ in range(400)]
    alarms = sum(Quantiles.of(old).compare(new)[1] <= 0.1 for old, new in pairs)
    assert alarms >= binom.isf(1 - 1e-6, 400, 0.05)


def test_a_planted_bug_in_the_p_value_would_be_seen():
    """With the limit for an infinitely large reference, false alarms are too many."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(400):
        distance, _ = Quantiles.of(rng.standard_normal(200)).compare(rng.standard_normal(1000))
        alarms += 2 * np.exp(-2 * 1000 * distance**2) <= 0.1
    assert alarms > binom.isf(1e-6, 400, 0.1)


def test_shifts_have_their_sign_and_are_found():
    rng = np.random.default_rng(0)
    kept = Quantiles.of(rng.standard_normal(1000))
    for shift in (-0.5, 0.5):
        distance, p = kept.compare(rng.standard_normal(300) + shift)
        assert np.sign(distance) == np.sign(shift)
        assert p < 1e-6


def test_values_beyond_all_of_the_reference_are_seen():
    kept = Quantiles.of(np.linspace(0, 1, 1000))
    distance, p = kept.compare(np.array([2.0, 3.0, 4.0, 5.0]))
    assert distance == 1.0
    assert p == pytest.approx(2 / np.prod(np.arange(1001, 1005) / np.arange(1, 5)), rel=1e-3)


def test_rounding_does_not_split_ties():
    """0.1 of float32 is more than the 0.1 that nine digits keep."""
    tied = np.full(100, np.float32(0.1), dtype=float)
    assert Quantiles.of(tied).compare(tied) == (0.0, 1.0)


def test_few_numbers_are_kept_and_come_back_from_json():
    kept = Quantiles.of(np.random.default_rng(0).standard_normal(5000))
    assert len(kept.values) == len(kept.counts) == KEPT
    assert abs(kept.median) < 0.1
    assert Quantiles.from_dict(json.loads(json.dumps(kept.to_dict()))) == kept


@pytest.mark.parametrize(
    "content",
    [
        {},
        7,
        {"size": 2, "values": [], "counts": []},
        {"size": 2, "values": [1.0, 0.0], "counts": [1, 2]},
        {"size": 2, "values": [0.0, 1.0], "counts": [1, 3]},
        {"size": 2, "values": [0.0, float("nan")], "counts": [1, 2]},
    ],
)
def test_other_contents_are_refused(content):
    with pytest.raises(BadInput, match="quantiles"):
        Quantiles.from_dict(content)
