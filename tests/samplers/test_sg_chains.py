import math
from functools import partial

import pytest
import torch
from torch import nn

import sbmc
from sbmc import SGHMC, SGLD, UBU
from sbmc.islands import job
from sbmc.samplers import sg_chains, sgld
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.sg_chains import StepInfo, run_passes
from sbmc.target.minibatch import MiniBatches
from sbmc.target.target import Evaluations

SAMPLERS = [SGLD, SGHMC, UBU]
EXAMPLES = 10


def noise(particles=2, count=1, seed=0):
    generators = [torch.Generator().manual_seed(seed + i) for i in range(count)]
    return IslandNoise(generators, particles)


class FakeBatches:
    """In place of `MiniBatches`: hands the indices on, in the form of an estimate."""

    stream = None  # the data are at hand

    def __init__(self, target):
        self.seen = target

    def __len__(self):
        return EXAMPLES

    def __call__(self, positions, index):
        self.seen.append(index.clone())


class Walk:
    """A step that walks by one, and looks at its batch."""

    def __init__(self, breaks_at=None):
        self.breaks_at = breaks_at
        self.sizes = []

    def __call__(self, rng, state, estimate, *, step_size):
        estimate(state.position)
        self.sizes.append(step_size)
        z = state.position + 1
        if self.breaks_at is not None:
            z = torch.where(z > self.breaks_at, torch.inf, z)
        return sgld.SGLDState(z), StepInfo(z[:, 0].double(), ~torch.isfinite(z).all(-1))


def walk(monkeypatch, settings, *, rng=None, start=None, step=None, report=None):
    monkeypatch.setattr(sg_chains, "MiniBatches", FakeBatches)
    seen: list[torch.Tensor] = []
    rng = rng or noise()
    rows = len(rng.generators) * rng.particles
    start = torch.zeros(rows, 1) if start is None else start
    runs = run_passes(settings, sgld.init, step or Walk(), seen, rng, start, report)
    return runs, seen


def passes(seen, count):
    """The order in which each particle has gone through the data, pass by pass."""
    each = len(seen) // count
    return [torch.cat(seen[i * each : (i + 1) * each], dim=1) for i in range(count)]


class TestPasses:
    @pytest.mark.parametrize("size", [1, 3, 5, 10, 64])
    def test_every_particle_sees_every_example_once_a_pass(self, monkeypatch, size):
        _, seen = walk(monkeypatch, SGLD(epochs=3, batch_size=size))
        assert all(index.shape[1] <= size for index in seen)
        for order in passes(seen, 3):
            assert torch.equal(order.sort(dim=1).values, torch.arange(EXAMPLES).expand(2, -1))

    def test_the_last_batch_may_be_short(self, monkeypatch):
        runs, seen = walk(monkeypatch, SGLD(epochs=2, batch_size=4))
        assert [index.shape[1] for index in seen] == [4, 4, 2] * 2
        assert runs[0].steps == 6
        assert runs[0].epochs == 2

    def test_orders_differ_between_particles_and_passes(self, monkeypatch):
        _, seen = walk(monkeypatch, SGLD(epochs=2, batch_size=5))
        first, second = passes(seen, 2)
        assert not torch.equal(first[0], first[1])
        assert not torch.equal(first, second)

    def test_pairs_of_passes_go_there_and_back(self, monkeypatch):
        _, seen = walk(monkeypatch, UBU(epochs=4, batch_size=4))
        there, back, again, home = (seen[i : i + 3] for i in range(0, 12, 3))
        for forward, backward in ((there, back), (again, home)):
            assert all(torch.equal(a, b) for a, b in zip(forward, backward[::-1], strict=True))
        assert [index.shape[1] for index in back] == [2, 4, 4]
        assert not torch.equal(there[0], again[0])

    def test_the_schedule_is_followed(self, monkeypatch):
        step = Walk()
        settings = SGLD(epochs=3, batch_size=5, step_size=0.4, decay=0.5, delay=1.0)
        (run,), _ = walk(monkeypatch, settings, step=step)
        expected = [0.4 / math.sqrt(1 + k) for k in (0, 0, 1, 1, 2, 2)]
        assert step.sizes == pytest.approx(expected)
        assert run.step_size == pytest.approx(expected[-1])


class TestDraws:
    def test_the_last_state_is_kept(self, monkeypatch):
        (run,), _ = walk(monkeypatch, SGLD(epochs=5, batch_size=5))
        (kept,) = run.draws
        assert torch.equal(kept, torch.full((2, 1), 10.0))
        assert run.outcome == "completed"

    def test_draws_are_thinning_passes_apart(self, monkeypatch):
        settings = SGLD(epochs=12, batch_size=5, draws=3, thinning=2)
        (run,), _ = walk(monkeypatch, settings)
        # Two steps a pass: states after passes 8, 10 and 12.
        assert [kept[0, 0].item() for kept in run.draws] == [16, 20, 24]

    def test_they_stand_as_particles(self):
        found = sample(SGLD(epochs=6, batch_size=10, draws=3), particles=2)
        assert found.positions.shape == (1, 6, 6)


class TestFailure:
    def test_an_island_that_is_not_finite_fails_alone(self, monkeypatch):
        start = torch.tensor([[0.0], [0.0], [100.0], [0.0], [0.0], [0.0]])
        step, rng = Walk(breaks_at=104), noise(count=3)
        told = []
        settings = SGLD(epochs=6, batch_size=5)
        runs, seen = walk(
            monkeypatch,
            settings,
            rng=rng,
            start=start,
            step=step,
            report=lambda runs: told.append([run.epochs for run in runs]),
        )
        assert [run.outcome for run in runs] == ["completed", "failed", "completed"]
        assert runs[1].non_finite == 1
        assert "1 of 2 particles after 3 passes" in runs[1].message
        assert runs[1].epochs == 3
        assert not runs[1].draws
        assert torch.equal(runs[2].draws[0], torch.full((2, 1), 12.0))
        # It costs nothing any more.
        assert [len(index) for index in seen] == [6] * 6 + [4] * 6
        assert told[-1] == [6, 3, 6]

    def test_the_others_go_on_as_if_alone(self, monkeypatch):
        start = torch.tensor([[100.0], [0.0], [0.0], [0.0]])
        settings = UBU(epochs=6, batch_size=5)
        _, both = walk(
            monkeypatch, settings, rng=noise(count=2), start=start, step=Walk(breaks_at=102)
        )
        _, alone = walk(monkeypatch, settings, rng=noise(seed=1))
        for together, apart in zip(both, alone, strict=True):
            assert torch.equal(together[-2:], apart)

    def test_none_left(self, monkeypatch):
        (run,), seen = walk(monkeypatch, SGLD(epochs=6, batch_size=5), step=Walk(breaks_at=0))
        assert run.outcome == "failed"
        assert len(seen) == 2

    @pytest.mark.parametrize("sampler", SAMPLERS)
    def test_a_step_size_far_too_large(self, sampler):
        options = {} if sampler is SGLD else {"friction": 1e-4}
        # The prior's own dynamics are unstable then.
        settings = sampler(epochs=60, batch_size=2, step_size=500.0, **options)
        with pytest.raises(RuntimeError, match="smaller `step_size`"):
            sample(settings)


def sample(sampler, *, s=0.1, **options):
    rng = torch.Generator().manual_seed(5)
    inputs = torch.randn(20, 2, generator=rng)
    data = inputs, (inputs[:, 0] > 0).long()
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-1.0, 0.3], [1.0, -0.2]]))
        model.bias.copy_(torch.tensor([0.1, 0.0]))
    return sbmc.fit(
        model, data, s=s, sampler=sampler, **{"particles": 3, "progress": False, **options}
    )


@pytest.mark.parametrize("sampler", SAMPLERS)
class TestFit:
    def test_anchored_and_not(self, sampler):
        for s in (0.1, 1.0):
            found = sample(sampler(epochs=4, batch_size=6), s=s, islands=2)
            assert found.positions.shape == (2, 3, 6)
            assert torch.isfinite(found.positions).all()
            assert found.cost.epochs == 4
            assert found.cost.total_epochs == 4 * 3 * 2
            for island in found.islands:
                assert island.outcome == "completed"
                assert island.acceptance is None
                assert island.steps == 16
                assert island.epochs == 4

    def test_the_seed_decides(self, sampler):
        settings = sampler(epochs=2, batch_size=6)
        first, again = sample(settings), sample(settings)
        assert torch.equal(first.positions, again.positions)
        assert not torch.equal(first.positions, sample(settings, seed=1).positions)

    def test_folded_is_as_alone(self, sampler, monkeypatch):
        settings = sampler(epochs=4, batch_size=6)
        folded = sample(settings, islands=4, compute=sbmc.Compute(dtype=torch.float64))
        monkeypatch.setattr(job, "FOLD_PARTICLES", 3)
        alone = sample(settings, islands=4, compute=sbmc.Compute(dtype=torch.float64))
        torch.testing.assert_close(folded.positions, alone.positions, rtol=1e-9, atol=1e-9)

    def test_every_start(self, sampler):
        settings = sampler(epochs=2, batch_size=6)
        for start in ("anchor", "prior", [nn.Linear(2, 2), nn.Linear(2, 2)]):
            assert torch.isfinite(sample(settings, start=start).positions).all()

    def test_temperature_sharpens_the_likelihood(self, sampler):
        hot, cold = (
            sample(
                sampler(epochs=60, batch_size=10, temperature=heat, step_size=0.01),
                s=1,
                particles=60,
            )
            for heat in (1e-6, 100.0)
        )
        # Without data the weights go on spreading; with much of them they are held.
        margins = [(p[..., 0] - p[..., 2]).mean() for p in (hot.positions, cold.positions)]
        assert margins[1] < margins[0] - 1

    def test_progress_shows_no_acceptance(self, sampler, capsys):
        sample(sampler(epochs=2, batch_size=6), progress=True)
        shown = capsys.readouterr().err
        assert "epochs" in shown
        assert "acceptance" not in shown

    def test_it_is_saved_and_loaded(self, sampler, tmp_path):
        found = sample(sampler(epochs=2, batch_size=6))
        found.save(tmp_path / "kept.sbmc")
        back = sbmc.load(tmp_path / "kept.sbmc", nn.Linear(2, 2))
        assert torch.equal(back.positions, found.positions)
        assert back.settings["sampler"] == sampler.__name__


def test_settings_are_frozen_and_by_name():
    settings = partial(SGLD, 160)
    with pytest.raises(TypeError):
        settings()
    with pytest.raises(AttributeError):
        SGLD().epochs = 3


def test_passes_are_counted_as_epochs(monkeypatch):
    counts = []
    made = MiniBatches.__init__

    def watch(self, target):
        counts.append(target.evaluations)
        made(self, target)

    monkeypatch.setattr(MiniBatches, "__init__", watch)
    # 20 examples in batches of 6: three and a short one.
    sample(SGLD(epochs=5, batch_size=6))
    assert counts == [Evaluations(gradient=15, forward=0)]


def test_permutations_are_each_islands_own():
    together = noise(particles=3, count=2).permutations(7)
    assert together.shape == (6, 7)
    assert torch.equal(together[3:], noise(particles=3, seed=1).permutations(7))
