"""Orders of the data that are computed instead of held: each example once, in any order."""

from __future__ import annotations

import pytest
import torch

from sbmc.samplers import orders
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.orders import BatchesInOrder, draw_orders, permuted


def noise(seed=0, particles=3):
    return IslandNoise([torch.Generator().manual_seed(seed)], particles)


@pytest.mark.parametrize("count", [1, 2, 3, 16, 17, 1000, 4097])
def test_every_example_is_visited_once(count):
    order = permuted(noise().keys(orders.ROUNDS), torch.arange(count), count)
    expected = torch.arange(count).expand(3, -1)
    assert torch.equal(order.sort(1).values, expected)


def test_batches_are_the_parts_of_the_order(monkeypatch):
    held = draw_orders(noise(), 10)
    assert torch.equal(torch.cat(list(BatchesInOrder(held, 10, 4)), 1), held)
    monkeypatch.setattr(orders, "MOST_HELD", 5)
    keys = draw_orders(noise(), 10)
    assert keys.shape == (3, orders.ROUNDS)
    batches = BatchesInOrder(keys, 10, 4)
    assert [batch.shape[1] for batch in batches] == [4, 4, 2]
    assert torch.equal(torch.cat(list(batches), 1), permuted(keys, torch.arange(10), 10))
    assert torch.equal(batches[-1], next(reversed(batches)))
    assert [batch.tolist() for batch in batches[1:]] == [b.tolist() for b in list(batches)[1:]]


def test_orders_beyond_what_memory_holds_are_indices_of_the_data():
    count = 10**12 + 39
    some = permuted(noise().keys(orders.ROUNDS), torch.arange(10**11, 10**11 + 500), count)
    assert (some >= 0).all()
    assert (some < count).all()
    assert len(some.unique()) == some.numel()
    # Spread over all data: the mean of 1,500 uniform numbers, eight standard errors wide.
    assert abs(float(some.double().mean()) / count - 0.5) < 8 / (12 * 1500) ** 0.5


@pytest.mark.parametrize("spoiled", [False, True])
def test_orders_are_as_good_as_drawn_ones(spoiled):
    """Where two examples go, over 6,000 keys: chi-squared with 29 degrees, false alarm 1e-6."""
    count, draws = 6, 6_000
    keys = noise(particles=draws).keys(orders.ROUNDS)
    if spoiled:
        keys[:, 1:] = 0  # what is left of the key in one round
        keys[:, 0] %= 2
    places = permuted(keys, torch.arange(2), count)
    pairs = (places[:, 0] * count + places[:, 1]).bincount(minlength=count**2)
    pairs = pairs.view(count, count)[~torch.eye(count, dtype=torch.bool)].double()
    expected = draws / len(pairs)
    statistic = float(((pairs - expected) ** 2 / expected).sum())
    assert (statistic < 85) is not spoiled
