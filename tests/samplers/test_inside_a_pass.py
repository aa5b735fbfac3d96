"""A run that is stopped in the middle of a pass goes on from there to the same bits."""

from __future__ import annotations

import json
import math
from functools import partial

import pytest
import torch
from interrupting import Case, Interrupting
from targets import conjugate_regression, island_noise

from sbmc.samplers import SGHMC, SGLD, UBU, AutoHMC, auto_hmc, inside_a_pass
from sbmc.samplers.inside_a_pass import Pace
from sbmc.samplers.noise import PhiloxNoise

PARTICLES, ISLANDS, DIM = 4, 3, 3
# Few enough for tests, in as many batches as several readings of the heat take.
EXAMPLES, BATCH = 600, 12

PASSES = {
    "sgld": SGLD(epochs=3, batch_size=5, decay=0.6),
    "sghmc": SGHMC(epochs=3, batch_size=5, draws=2, warmup=0.2),
    "pairs": UBU(epochs=4, batch_size=5, draws=2, warmup=0.1),
    "philox": SGHMC(epochs=3, batch_size=5, noise="philox"),
}


@pytest.fixture(autouse=True)
def _no_time_between_offers(monkeypatch):
    monkeypatch.setattr(inside_a_pass, "SECONDS_BETWEEN_OFFERS", 0.0)


def few():
    return conjugate_regression(DIM, examples=11).network_target(0.25)


def many():
    return conjugate_regression(DIM, examples=EXAMPLES).network_target(0.25)


def case(settings, target=few, broken=None):
    def run(now, checkpointer):
        rng = island_noise(PARTICLES, seed=40, islands=ISLANDS)
        start = torch.cat([torch.randn(PARTICLES, DIM, generator=g) for g in rng.generators])
        if broken is not None:
            start[broken * PARTICLES, 0] = math.nan
        runs = settings.run(now, rng, start.double(), checkpointer=checkpointer)
        return [*runs, torch.stack([g.get_state() for g in rng.generators])]

    return Case(target, run)


def goes_on_everywhere(it, stops):
    """Stopped at any of these offers, or twice, the run is the undisturbed one, at its cost."""
    whole, checkpointer = it.through(), Interrupting()
    assert it.through(checkpointer) == whole
    for stop in stops:
        assert it.through(Interrupting(checkpointer.offers[stop - 1])).facts == whole.facts, stop
        assert it.stopped(stop) == whole
    assert it.stopped(stops[0], 1, 2) == whole
    return checkpointer.offers


def is_inside(file):
    """Whether a snapshot is of a pass in its middle."""
    ((values, _),) = file.values()
    return "pass.batches" in json.loads(values)


@pytest.mark.parametrize("settings", PASSES.values(), ids=PASSES)
@pytest.mark.parametrize("broken", [None, 0])
def test_samplers_on_mini_batches(settings, broken):
    offers = goes_on_everywhere(case(settings, broken=broken), range(1, 8))
    # Eleven examples in batches of five: two offers inside each pass, and one after it.
    assert [is_inside(file) for file in offers] == [True, True, False] * settings.epochs


@pytest.fixture
def _short_batches(monkeypatch):
    monkeypatch.setattr(auto_hmc, "batch_size_of", lambda examples: BATCH)


@pytest.mark.usefixtures("_short_batches")
@pytest.mark.parametrize("broken", [None, 1])
def test_the_sampler_that_tunes_itself(broken):
    settings = AutoHMC(epochs=3)
    it = case(settings, many, broken)
    inside = [is_inside(file) for file in it_offers(it)]
    assert inside.count(False) == settings.epochs
    # An offer with each reading of the heat, which comes after about eight steps.
    assert inside.count(True) == settings.epochs * (EXAMPLES // BATCH // 8 - 1)
    goes_on_everywhere(it, (1, 4, 6, len(inside) - 1))


def it_offers(it):
    checkpointer = Interrupting()
    it.through(checkpointer)
    return checkpointer.offers


def test_offers_are_not_made_more_often_than_they_are_worth(monkeypatch):
    monkeypatch.setattr(inside_a_pass, "SECONDS_BETWEEN_OFFERS", 10.0)
    assert not any(map(is_inside, it_offers(case(PASSES["sghmc"]))))
    now = [100.0]
    monkeypatch.setattr(inside_a_pass.time, "monotonic", lambda: now[0])
    pace, due = Pace(), []
    for now[0] in (105.0, 110.0, 111.0, 119.9, 120.0):
        due.append(pace.due())
    assert due == [False, True, False, False, True]


class TestPlantedBugs:
    """Whatever is forgotten inside a pass shows in the bits or in the cost."""

    def forgetting(self, settings, change, target=few):
        it = case(settings, target)
        stop = 1 + [is_inside(file) for file in it_offers(it)].index(True)
        assert it.stopped(stop) == it.through()
        return it.stopped(stop, change=partial(_change, change)) != it.through()

    @pytest.mark.parametrize("name", ["sghmc", "pairs"])
    def test_the_order(self, name):
        def change(values, tensors):
            tensors["pass.order"].copy_(tensors["pass.order"].flip(1).clone())

        assert self.forgetting(PASSES[name], change)

    def test_the_batches_that_are_done(self):
        def change(values, tensors):
            values["pass.batches"] = 0

        assert self.forgetting(PASSES["sghmc"], change)

    def test_examples_that_count_towards_the_next_epoch(self):
        def change(values, tensors):
            values["pass.seen"] = 0

        assert self.forgetting(PASSES["sghmc"], change)

    def test_who_is_not_finite(self):
        def change(values, tensors):
            tensors["pass.broken"].fill_(True)

        assert self.forgetting(PASSES["sghmc"], change)

    def test_draws_of_the_stream_of_noise(self):
        def change(values, tensors):
            tensors["streams"][:, 1] -= 1

        assert self.forgetting(PASSES["philox"], change)

    @pytest.mark.usefixtures("_short_batches")
    @pytest.mark.parametrize("name", ["order", "momentum"])
    def test_of_the_sampler_that_tunes_itself(self, name):
        key = {"order": "pass.order", "momentum": "state.momentum"}[name]

        def change(values, tensors):
            tensors[key].copy_(tensors[key].flip(1).clone())

        assert self.forgetting(AutoHMC(epochs=2), change, many)


def _change(change, file):
    ((part, (text, tensors)),) = file.items()
    values = json.loads(text)
    change(values, tensors)
    file[part] = json.dumps(values), tensors


def test_the_stream_of_noise_is_that_of_the_island():
    """Draws of some islands move the streams of these alone, which a snapshot reads."""
    rng = PhiloxNoise(island_noise(2, islands=2).generators, particles=2)
    rng.select([1]).normal(3, torch.float32)
    assert rng.state[:, 1].tolist() == [0, 1]
