"""What every sampler promises, for every class that is found in `sbmc.samplers`.

A sampler that is added is picked up as it is; see `every_sampler` for budgets that suit it better.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import warnings

import pytest
import torch
from every_sampler import (
    NAMES,
    SAMPLERS,
    discover,
    every_run,
    every_sampler,
    field_names,
    small,
)
from grouped import in_groups
from targets import conjugate_regression, island_noise
from torch import nn

import sbmc
from sbmc import BadInput
from sbmc.likelihoods import Gaussian
from sbmc.samplers.contract import Sampler
from sbmc.samplers.snapshot import NO_CHECKPOINTS

PARTICLES, ISLANDS = 4, 3


def regression():
    """Model, data and further arguments of a regression in double precision."""
    problem = conjugate_regression()
    likelihood = Gaussian(noise_variance=problem.noise_variance)
    options = {"prior_variance": problem.prior_variance, "likelihood": likelihood}
    return problem.model, (problem.inputs, problem.targets), options


def classification():
    """The same of a small classification in single precision."""
    rng = torch.Generator().manual_seed(5)
    inputs = torch.randn(30, 3, generator=rng)
    labels = (inputs.sum(1) > 0).long() + (inputs[:, 0] > 1).long()
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
    with torch.no_grad():  # the same network at every call
        for parameter in model.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=rng))
    return model, (inputs, labels), {}


PROBLEMS = {"regression": regression, "classification": classification}
every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


def sample(settings, problem=regression, *, seed=0, islands=ISLANDS):
    model, data, options = problem()
    return fit(model, data, settings, seed=seed, islands=islands, **options)


def fit(model, data, settings, **options):
    with warnings.catch_warnings():
        # Populations of four collapse, and say so.
        warnings.filterwarnings("ignore", "The population of|The evidence leaves", RuntimeWarning)
        return sbmc.fit(
            model,
            data,
            s=0.25,
            sampler=settings,
            particles=PARTICLES,
            progress=False,
            **in_groups(options),
        )


def make_target():
    """The regression's target itself, with its counter at zero."""
    return conjugate_regression().network_target(0.25)


def run(settings, islands=ISLANDS, seed=0, target=None):
    """Islands with seeds that follow on one another, each from draws of the prior of its own."""
    rng = island_noise(PARTICLES, seed=seed, islands=islands)
    target = make_target() if target is None else target
    population = settings.population(PARTICLES)
    start = [torch.randn(population, target.dim, generator=g).double() for g in rng.generators]
    begin = torch.cat(start)
    before = begin.clone()
    runs = settings.run(target, rng, begin)
    assert torch.equal(begin, before), "the start was changed in place"
    return runs, target


class TestDiscovery:
    def test_finds_what_is_public_and_nothing_that_only_others_derive_from(self):
        assert set(sbmc.samplers.__all__) <= set(NAMES)
        assert not {"Sampler", "ChainSettings", "StochasticGradient"} & set(NAMES)

    def test_a_file_that_is_added_is_picked_up(self, monkeypatch, tmp_path):
        code = (
            "from sbmc.samplers.contract import Sampler\n"
            "class Fresh(Sampler):\n"
            "    def run(self, target, rng, start, report=None, checkpointer=None):\n"
            "        return []\n"
        )
        (tmp_path / "fresh.py").write_text(code)
        monkeypatch.setattr(sbmc.samplers, "__path__", [*sbmc.samplers.__path__, str(tmp_path)])
        monkeypatch.delitem(sys.modules, "sbmc.samplers.fresh", raising=False)
        assert set(discover()) - set(SAMPLERS) == {sys.modules["sbmc.samplers.fresh"].Fresh}
        monkeypatch.delattr(sbmc.samplers, "fresh")
        monkeypatch.delitem(sys.modules, "sbmc.samplers.fresh")


@every_sampler
class TestRegistry:
    @pytest.mark.parametrize("name", ["summary", "cost"])
    def test_says_in_a_line_what_it_is_and_what_it_costs(self, sampler, name):
        line = getattr(sampler, name)
        assert isinstance(line, str)
        assert 5 < len(line) < 90
        assert line == line.strip()
        assert "\n" not in line
        assert not line.endswith(".")
        # No setting: neither a field nor a part of the hash of a record.
        assert name not in field_names(sampler)

    def test_counts_its_cost_in_epochs(self, sampler):
        assert "epoch" in sampler.cost


@every_sampler
class TestSettings:
    def test_are_frozen_and_keyword_only(self, sampler):
        settings = small(sampler)
        name = dataclasses.fields(sampler)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(settings, name, getattr(settings, name))
        with pytest.raises(TypeError):
            sampler(1)

    def test_refuse_nonsense_by_the_name_of_the_setting(self, sampler):
        numeric = [f.name for f in dataclasses.fields(sampler) if _is_numeric(f)]
        assert numeric
        for name in numeric:
            # Alone, since a setting may only be allowed without another one.
            for value in (-1, math.nan, "many"):
                with pytest.raises(BadInput) as refusal:
                    sampler(**{name: value})
                assert str(refusal.value).startswith(f"`{name}` must be "), (name, value)


def _is_numeric(field):
    return "int" in str(field.type) or "float" in str(field.type)


TWO_BUDGETS = [sampler for sampler in SAMPLERS if {"steps", "epochs"} <= field_names(sampler)]


@pytest.mark.parametrize("sampler", TWO_BUDGETS)
def test_one_budget_is_enough(sampler):
    with pytest.raises(BadInput, match="`steps` must be left out when `epochs` is given"):
        sampler(steps=5, epochs=5)


@every_run
@every_problem
class TestFit:
    def test_shapes_type_and_finite_values(self, sampler, problem):
        settings = small(sampler)
        posterior = sample(settings, problem)
        model = problem()[0]
        dim = sum(parameter.numel() for parameter in model.parameters())
        kept = settings.population(PARTICLES) * getattr(settings, "draws", 1)
        assert posterior.positions.shape == (ISLANDS, kept, dim)
        assert posterior.positions.dtype == next(model.parameters()).dtype
        assert torch.isfinite(posterior.positions).all()
        assert posterior.weights.shape == (ISLANDS, kept)
        assert float(posterior.weights.sum()) == pytest.approx(1)
        assert [island.outcome for island in posterior.islands] == ["completed"] * ISLANDS
        # Particles have moved, each for itself.
        assert len(posterior.positions.flatten(0, 1).unique(dim=0)) > ISLANDS

    def test_a_seed_decides_everything(self, sampler, problem):
        first, again, other = (sample(small(sampler), problem, seed=s).positions for s in (7, 7, 8))
        assert torch.equal(first, again)
        assert not torch.isclose(first, other).all(-1).any()

    def test_the_first_island_is_the_same_beside_others(self, sampler, problem):
        alone = sample(small(sampler), problem, islands=1)
        together = sample(small(sampler), problem).first(1)
        # To rounding: a batch of another size may be added up in another order.
        close = 1e-7 if problem is regression else 1e-4
        torch.testing.assert_close(alone.positions, together.positions, rtol=close, atol=close)

    def test_touches_nothing_that_it_was_given(self, sampler, problem):
        assert untouched(small(sampler), problem)


def untouched(settings, problem):
    """Whether model, data and the global random state are the same bits after a fit."""
    model, (inputs, targets), options = problem()
    before = [t.clone() for t in (*model.state_dict().values(), inputs, targets)]
    noise = torch.get_rng_state()
    fit(model, (inputs, targets), settings, seed=1, **options)
    same = torch.equal(torch.get_rng_state(), noise)
    after = (*model.state_dict().values(), inputs, targets)
    return same and all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@every_run
class TestRun:
    def test_any_island_is_the_same_alone_and_beside_others(self, sampler):
        together, _ = run(small(sampler), seed=20)
        for i in range(ISLANDS):
            (alone,), _ = run(small(sampler), islands=1, seed=20 + i)
            assert alone.steps == together[i].steps
            assert alone.epochs == together[i].epochs
            for kept, expected in zip(together[i].draws, alone.draws, strict=True):
                torch.testing.assert_close(kept, expected, rtol=1e-7, atol=1e-9)

    def test_epochs_are_what_the_target_has_counted(self, sampler):
        runs, target = run(small(sampler))
        counted = [target.evaluations.gradient, target.evaluations.forward]
        told = [sum(r.epochs for r in runs), sum(r.forward_epochs for r in runs)]
        assert counted == pytest.approx([PARTICLES * epochs for epochs in told])
        assert sum(counted) > 0
        spent = small(sampler).epochs
        if spent is not None:
            assert [r.epochs + r.forward_epochs for r in runs] == [spent] * ISLANDS

    def test_progress_is_told(self, sampler):
        told = []
        rng, target = island_noise(PARTICLES, islands=2), make_target()
        start = torch.zeros(2 * small(sampler).population(PARTICLES), 3, dtype=torch.float64)
        runs = small(sampler).run(target, rng, start, lambda now: told.append(len(now)))
        assert set(told) == {2}
        assert [r.outcome for r in runs] == ["completed"] * 2


class TestPlantedBugs:
    """Samplers that break a promise are caught."""

    @staticmethod
    def broken(harm):
        @dataclasses.dataclass(frozen=True, kw_only=True)
        class Broken(sbmc.MALA):
            def run(self, target, rng, start, report=None, checkpointer=NO_CHECKPOINTS):
                harm(target, start)
                return super().run(target, rng, start, report, checkpointer)

        assert issubclass(Broken, Sampler)
        return Broken(steps=2)

    def test_noise_of_the_global_generator(self):
        assert untouched(self.broken(lambda target, start: None), regression)
        assert not untouched(self.broken(lambda target, start: torch.rand(1)), regression)

    def test_a_start_that_is_changed(self):
        with pytest.raises(AssertionError, match="the start was changed"):
            run(self.broken(lambda target, start: start.add_(1)))

    def test_an_evaluation_that_is_not_told(self):
        runs, target = run(self.broken(lambda target, start: target(start)))
        assert target.evaluations.gradient != PARTICLES * sum(r.epochs for r in runs)
