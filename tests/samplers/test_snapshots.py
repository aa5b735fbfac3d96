"""A run that is stopped where it offers its snapshot goes on from there to the same bits.

Every class that is found in `sbmc.samplers` is tested, and then what only some of them have.
"""

from __future__ import annotations

import dataclasses
import json
import math
from functools import partial
from importlib.util import find_spec

import pytest
import torch
from every_sampler import every_run, small
from interrupting import Case, Interrupted, Interrupting, bits
from targets import AnalyticTarget, conjugate_regression, island_noise, skewed_log_likelihood

from sbmc.samplers import GHMC, HMC, MALA, NUTS, PCN, SGHMC, SGLD, SMC, UBU, chains, nuts
from sbmc.samplers.chain_settings import ChainSettings
from sbmc.samplers.chains import run_chains
from sbmc.samplers.smc import driver
from sbmc.samplers.smc.pilot import learn
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Flat

PARTICLES, ISLANDS, DIM = 4, 3, 3


def engine():
    return conjugate_regression(DIM).network_target(0.25)


def single():
    problem = conjugate_regression(DIM)
    parts = problem.model.float(), problem.inputs.float(), problem.targets.float()
    return problem._replace(model=parts[0], inputs=parts[1], targets=parts[2]).network_target(0.25)


def steep():
    return AnalyticTarget(lambda z: 20 * skewed_log_likelihood(z))


def begin(settings, islands, broken):
    """Noise of islands, and draws of their own to start from; one may start where nothing is."""
    rng = island_noise(PARTICLES, seed=40, islands=islands)
    population = settings.population(PARTICLES)
    start = [torch.randn(population, DIM, generator=g).double() for g in rng.generators]
    if broken is not None:
        start[broken][0, 0] = math.nan
    return rng, torch.cat(start)


def case(settings, target=engine, islands=ISLANDS, broken=None):
    def run(now, checkpointer):
        rng, start = begin(settings, islands, broken)
        start = start.float() if target is single else start
        runs = settings.run(now, rng, start, checkpointer=checkpointer)
        states = torch.stack([g.get_state() for g in rng.generators])
        return [*runs, states]  # whoever draws after the run gets the same

    return Case(target, run)


def some(count, most):
    """Offers to stop at: all, or some of them, the first and the last included."""
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1 + round(i * (count - 1) / (most - 1)) for i in range(most)})


def check(it, most=4):
    """Stopped anywhere, once or twice, a run is the undisturbed one, and costs no more."""
    whole, checkpointer = it.through(), Interrupting()
    assert it.through(checkpointer) == whole
    count = len(checkpointer.offers)
    for stop in some(count, most):
        # What stands in a file is all that a run can go on from: how it was stopped is no matter.
        assert it.through(Interrupting(checkpointer.offers[stop - 1])).facts == whole.facts, stop
    # By an error, once and twice; a run and its continuation share the evaluations.
    assert it.stopped((count + 1) // 2) == whole
    if count > 1:
        assert it.stopped(1, count - 1) == whole
    return [tuple(file) for file in checkpointer.offers]


@every_run
class TestEverySampler:
    def test_goes_on_with_the_same_bits_and_costs_no_more(self, sampler):
        assert len(check(case(small(sampler), islands=2), most=3)) >= 1

    def test_in_single_precision_too(self, sampler):
        it = case(small(sampler), single, islands=2)
        assert it.stopped(1) == it.through()


TRAJECTORY = {"trajectory": 1.0, "jitter": 0.5, "steps": 6}
CHAINS = {
    "jitter": HMC(**TRAJECTORY),
    "budget": HMC(trajectory=1.0, jitter=0.5, epochs=30),
    "precondition": HMC(leapfrog=2, steps=6, precondition=2),
    "launch": HMC(**TRAJECTORY, launch=3),
    "draws": HMC(leapfrog=1, steps=8, warmup=0.25, draws=3, thinning=2),
    "draws of a budget": HMC(leapfrog=2, epochs=24, draws=3, step_size=0.3),
    "splitting": HMC(**TRAJECTORY, splitting=True),
    "given": HMC(leapfrog=1, steps=6, step_size=0.4, adapt=False),
    "ghmc": GHMC(steps=8, leapfrog=2, friction=1.0),
    "mala": MALA(steps=8, step_size=1.2),
    "pcn": PCN(steps=8, draws=2),
}


class TestChains:
    @pytest.mark.parametrize("settings", CHAINS.values(), ids=CHAINS)
    def test_settings(self, settings):
        offers = check(case(settings), most=3)
        assert set(offers) == {("chains",)}
        if settings.steps is not None:
            assert len(offers) == 1 + settings.steps

    def test_an_island_that_has_failed_stays_so(self):
        it = case(CHAINS["jitter"], broken=1)
        check(it, most=3)
        facts = it.through().facts
        assert [run["outcome"] for run in facts[:3]] == ["'completed'", "'failed'", "'completed'"]

    def test_scouting_is_behind_chains_and_goes_on_by_itself(self):
        settings = HMC(leapfrog=1, epochs=12, scout=4, scout_step_size=0.05, scout_batches=3)
        offers = check(case(settings), most=20)
        scouting = [stack for stack in offers if stack == ("scout",)]
        assert offers[:4] == scouting
        assert set(offers[4:]) == {("chains",)}

    def test_numbers_of_numpy_can_be_kept(self):
        np = pytest.importorskip("numpy")
        settings = HMC(leapfrog=np.int64(2), steps=3, step_size=np.float32(0.3))
        check(case(settings), most=2)


PASSES = {
    "sgld": SGLD(epochs=5, batch_size=5, decay=0.6, draws=2, thinning=2, warmup=0.2),
    "sghmc": SGHMC(epochs=5, batch_size=5, draws=2),
    "pairs": UBU(epochs=6, batch_size=5, draws=3, warmup=0.1),
    "philox": SGHMC(epochs=5, batch_size=5, draws=2, noise="philox"),
    "pairs, philox": UBU(epochs=6, batch_size=5, warmup=0.1, noise="philox"),
}


class TestPasses:
    @pytest.mark.parametrize("settings", PASSES.values(), ids=PASSES)
    def test_settings(self, settings):
        assert check(case(settings), most=6) == [("passes",)] * settings.epochs
        check(case(settings, single, islands=2), most=3)

    @pytest.mark.parametrize("settings", PASSES.values(), ids=PASSES)
    @pytest.mark.parametrize("islands", [1, 3])
    def test_an_island_that_has_failed_stays_so(self, settings, islands):
        it = case(settings, islands=islands, broken=0)
        check(it, most=2)
        assert it.through().facts[0]["outcome"] == "'failed'"

    def test_the_order_is_kept_only_for_the_way_back(self):
        for stop in (1, 2):
            checkpointer = Interrupting(stop=stop)
            with pytest.raises(Interrupted):
                case(PASSES["pairs"]).run(engine(), checkpointer)
            assert ("order" in checkpointer.file["passes"][1]) == (stop == 1)


# Islands that find their temperatures themselves come to their ends one after another.
ADAPTIVE = {
    "leapfrog": SMC(mutations=3),
    "eta": SMC(mutations=6, eta=0.3),
    "waste-free": SMC(mutations=4, waste_free=True),
    "threshold": SMC(mutations=2, resample_below=0.5),
}
SCHEDULE = {"temperatures": (0.02, 0.2, 1.0), "mutations": 2}
SCHEDULED = {
    "hmc": SMC(**SCHEDULE, move=HMC(jitter=0.4)),
    "mala": SMC(**SCHEDULE, move=MALA()),
    "pcn": SMC(**SCHEDULE, move=PCN(step_size=0.5)),
    "eta": SMC(**{**SCHEDULE, "mutations": 6}, eta=0.3),
    "waste-free": SMC(**SCHEDULE, waste_free=True),
    "threshold": SMC(**SCHEDULE, resample_below=0.3),
    "multinomial": SMC(**SCHEDULE, resampling="multinomial"),
    "frozen": SMC(**{**SCHEDULE, "mutations": (2, 1, 3)}, step_sizes=(0.5, 0.3, 0.2)),
    "limit": SMC(**SCHEDULE, most_temperatures=2),
}


class TestPopulations:
    @pytest.mark.parametrize("settings", SCHEDULED.values(), ids=SCHEDULED)
    def test_settings(self, settings):
        offers = check(case(settings, steep), most=12)
        # Moves are on top of the temperature that they are made at, and go with it.
        assert set(offers) == {("smc",), ("smc", "mutation")}
        assert offers[0] == ("smc",)
        assert offers[-1] == ("smc", "mutation")

    @pytest.mark.parametrize("settings", ADAPTIVE.values(), ids=ADAPTIVE)
    def test_inside_temperatures_that_some_islands_have_ended_before(self, settings):
        it = case(settings, steep, islands=4)
        whole = it.through()
        assert len({len(run["temperatures"]) for run in whole.facts[:4]}) > 1
        offers = it.offers()
        inside = [k for k, stack in enumerate(offers, 1) if stack == ("smc", "mutation")]
        assert it.stopped(inside[-1]) == whole
        assert it.stopped(inside[-4], 2) == whole
        # Again and again within one temperature.
        assert it.stopped(inside[0], 1, 2) == whole

    def test_an_island_that_is_not_finite_stays_so(self):
        it = case(SCHEDULED["hmc"], steep, broken=0)
        check(it, most=3)
        assert it.through().facts[0]["outcome"] == "'non-finite'"

    def test_the_pilot(self):
        settings = SMC(mutations=3, pilot=True)

        def run(target, checkpointer):
            rng, start = begin(settings, 1, None)
            return list(learn(settings, target, rng, start, checkpointer))

        offers = check(Case(steep, run), most=3)
        assert ("smc", "mutation") in offers


class TestNUTS:
    @pytest.mark.skipif(find_spec("nutpie") is None, reason="needs nutpie")
    def test_keeps_chains_that_have_ended(self, monkeypatch):
        monkeypatch.setattr(nuts, "MOST_CHAINS", 5)
        settings = NUTS(warmup_draws=12, draws=2, thinning=2, max_depth=3)
        it = case(settings, broken=1)
        whole, checkpointer = it.through(), Interrupting()
        assert it.through(checkpointer) == whole
        assert [tuple(file) for file in checkpointer.offers] == [("nuts",)] * 3
        assert it.stopped(1) == whole
        assert it.through(Interrupting(checkpointer.offers[1])).facts == whole.facts
        assert [run["outcome"] for run in whole.facts[:3]] == [
            "'completed'",
            "'failed'",
            "'completed'",
        ]


class TestNothing:
    def test_asks_for_nothing(self):
        """Without a checkpointer no snapshot is made."""

        def refuse(*args):
            raise AssertionError

        assert not NO_CHECKPOINTS.has("chains")
        assert NO_CHECKPOINTS.restore("chains") is None
        NO_CHECKPOINTS.offer_snapshot("chains", refuse)
        NO_CHECKPOINTS.discard("chains")

    def test_a_flat_target_costs_nothing_and_has_the_rest_of_a_target(self):
        target = engine()
        here = Flat(target)(torch.ones(2, DIM))
        assert here.log_likelihood.tolist() == [0, 0]
        assert here.log_likelihood.dtype == torch.float64
        assert torch.equal(here.gradient, torch.zeros(2, DIM))
        assert Flat(target).dim == DIM
        assert target.evaluations.gradient == target.evaluations.forward == 0


def tensors_changed(part, name, change, file):
    """Spoil a tensor that was kept."""
    tensors = file[part][1]
    before = tensors[name].clone()
    change(tensors[name])
    assert not torch.equal(before, tensors[name])


def values_changed(part, change, file):
    """Spoil the values that were kept."""
    values = json.loads(file[part][0])
    change(values)
    assert json.dumps(values) != file[part][0]
    file[part] = json.dumps(values), file[part][1]


def other_noise(states, island=1):
    states[island] = torch.Generator().manual_seed(999).get_state()


class TestPlantedBugs:
    """Whatever is forgotten shows in the bits."""

    @pytest.mark.parametrize(
        ("settings", "part"),
        [
            (CHAINS["jitter"], "chains"),
            (PASSES["sgld"], "passes"),
            (SCHEDULED["hmc"], "smc"),
            (SCHEDULED["hmc"], "mutation"),
        ],
        ids=["chains", "passes", "smc", "mutation"],
    )
    def test_the_generator_of_one_island(self, settings, part):
        target = engine if part == "passes" else steep
        it = case(settings, target)
        stop = next(k for k, stack in enumerate(it.offers(), 1) if stack[-1] == part)
        forget = partial(tensors_changed, part, "generators", other_noise)
        assert it.stopped(stop) == it.through()
        ours, expected = it.stopped(stop, change=forget), it.through()
        assert [a == b for a, b in zip(ours.facts[:3], expected.facts[:3], strict=True)] == [
            True,
            False,
            True,
        ]

    @pytest.mark.parametrize("part", ["chains", "smc"])
    def test_the_step_size(self, part):
        def change(values):
            values["runs"][0]["step_size"] *= 1.0000001

        it = case(CHAINS["jitter"] if part == "chains" else SCHEDULED["hmc"], steep)
        assert it.stopped(1, change=partial(values_changed, part, change)) != it.through()

    def test_where_the_adaptation_stands(self):
        """The steps of the warm-up are counted; without the count, adaptation goes on."""

        def change(values):
            for run in values["runs"]:
                run["steps"] -= 1

        it = case(MALA(steps=8, step_size=1.2))
        assert it.stopped(5, change=partial(values_changed, "chains", change)) != it.through()

    def test_the_order_of_the_way_back(self):
        it = case(PASSES["pairs"])
        change = partial(
            tensors_changed, "passes", "order", lambda order: order.copy_(order.flip(1))
        )
        assert it.stopped(1, change=change) != it.through()

    def test_momenta(self):
        it = case(CHAINS["ghmc"])
        change = partial(tensors_changed, "chains", "state.momentum", lambda p: p.neg_())
        assert it.stopped(3, change=change) != it.through()

    def test_states_that_the_waste_free_sampler_has_kept(self):
        it = case(SCHEDULED["waste-free"], steep)
        change = partial(tensors_changed, "mutation", "kept.position", lambda z: z.neg_())
        assert it.stopped(2, change=change) != it.through()

    def test_generators_that_are_looked_at_too_late(self, monkeypatch):
        """A temperature's snapshot that is written during the moves has the noise before them."""
        it = case(SCHEDULED["multinomial"], steep)
        whole = it.through()
        assert it.stopped(2) == whole
        monkeypatch.setattr(driver, "generator_states", list)
        assert it.through() == whole
        assert it.stopped(2) != whole

    def test_a_step_that_remembers_more_than_its_state(self):
        @dataclasses.dataclass(frozen=True, kw_only=True)
        class Secretive(ChainSettings):
            def run(self, target, rng, start, report=None, checkpointer=NO_CHECKPOINTS):
                made = 0

                def init(position, target):
                    return MALA().begin(position, target)

                def step(rng, state, target, *, step_size):
                    nonlocal made
                    made += 1
                    return MALA.step_function(rng, state, target, step_size=step_size / made)

                return run_chains(
                    self.limited(), init, step, target, rng, start, report, checkpointer
                )

        it = case(Secretive(steps=4, step_size=0.3))
        assert it.stopped(1) == it.through()
        assert it.stopped(3) != it.through()

    def test_an_evaluation_too_many(self, monkeypatch):
        it = case(CHAINS["jitter"])
        whole = it.through()
        monkeypatch.setattr(chains, "Flat", lambda target: target)
        again = it.stopped(2)
        assert again.facts == whole.facts
        assert again.evaluations == whole.evaluations + PARTICLES * ISLANDS

    def test_bits_tell_zeros_and_types_apart(self):
        assert bits(torch.tensor([0.0])) != bits(torch.tensor([-0.0]))
        assert bits(torch.zeros(1)) != bits(torch.zeros(1).double())
        assert bits([math.nan, 0.0]) == bits([math.nan, 0.0])
        assert bits(1) != bits(1.0)
