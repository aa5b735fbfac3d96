"""Finished particles that do not fit into memory are in a file, with the same bits."""

from __future__ import annotations

import gc
import logging
import os

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.island import Island, IslandReport
from sbmc.islands.memory_budget import ALLOWANCE
from sbmc.islands.particles_on_disk import ParticlesOnDisk, scratch_folder
from sbmc.model.predicting import PARTICLES_AT_ONCE
from sbmc.posterior.prediction_memory import PARAMETER_COPIES, pieces_within
from sbmc.storage import mapped
from sbmc.storage.mapped import is_mapped

INPUTS = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
DATA = INPUTS, (INPUTS[:, 0] > 0).long()
DIM = 24_002
HELD = 10**9
PARTICLES, ISLANDS = 4, 16
SAMPLERS = {
    "HMC": sbmc.HMC(steps=8, leapfrog=1, step_size=0.01, draws=2),
    "SGHMC": sbmc.SGHMC(epochs=4, batch_size=20, draws=2),
    "SMC": sbmc.SMC(),
}
SHORT = SAMPLERS["SGHMC"]

pytestmark = pytest.mark.filterwarnings(
    "ignore::sbmc.HealthWarning", "ignore:The evidence leaves:RuntimeWarning"
)


@pytest.fixture(autouse=True)
def known_memory(monkeypatch):
    """The memory of this process must not decide what a test finds."""
    for module in ("islands.memory_budget", "posterior.prediction_memory"):
        monkeypatch.setattr(f"sbmc.{module}.resident_bytes", lambda: HELD)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4000), nn.ReLU6(), nn.Linear(4000, 2))


def arguments(limit=None, *, sampler=SHORT, particles=PARTICLES, islands=ISLANDS, **compute):
    """The same chunks and batches, whatever the limit: they decide the last bits."""
    compute.setdefault("executor", sbmc.InProcess(fold=1, threads=1))
    return {
        "s": 0.1,
        "sampler": sampler,
        "particles": particles,
        "islands": islands,
        "compute": sbmc.Compute(memory_limit=limit, chunk_size=40, **compute),
    }


def fitted(net, limit=None, **options):
    return sbmc.fit(net, DATA, **arguments(limit, **options), progress=False)


def tight(net, **options):
    """A limit in which an island fits, and the results of all of them do not."""
    return sbmc.expect(net, DATA, **arguments(**options, islands=1)).bytes + 2**20


@pytest.fixture(scope="module")
def in_memory(net):
    return fitted(net)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_bits_are_those_of_a_run_in_memory(net, name):
    options = {"sampler": SAMPLERS[name], "islands": 8 if name == "SMC" else ISLANDS}
    inside = fitted(net, **options)
    outside = fitted(net, tight(net, sampler=SAMPLERS[name]), **options)
    assert (is_mapped(inside.positions), is_mapped(outside.positions)) == (False, True)
    assert outside.settings == inside.settings
    assert outside.islands == inside.islands
    assert [r.displacement for r in outside.islands] == [r.displacement for r in inside.islands]
    assert torch.equal(outside.positions, inside.positions)
    assert torch.equal(outside.predict(INPUTS).probs, inside.predict(INPUTS).probs)
    assert outside.origin == inside.origin


def test_the_run_is_expected_within_the_limit_by_the_disk_alone(net):
    limit = tight(net)
    outside = fitted(net, limit)
    in_memory = sbmc.expect(net, DATA, **arguments())
    assert outside.cost.expected_bytes <= limit < in_memory.bytes


def test_finished_particles_may_be_shorter_there_and_running_ones_never(net, in_memory):
    short = fitted(net, tight(net), store_dtype=torch.bfloat16)
    assert is_mapped(short.positions)
    assert torch.equal(short.positions, in_memory.positions.bfloat16())


def test_particles_that_are_sampled_apart_are_put_together_in_the_file(net):
    """Those of one island lie side by side, a draw of all before the next draw."""
    one = sbmc.expect(net, DATA, **arguments(particles=1, islands=1)).bytes
    apart = fitted(net, one + 2**20, particles=20, islands=3)
    assert apart.settings["particles_apart"] is True
    assert is_mapped(apart.positions)
    single = fitted(net, particles=1, islands=60)
    expected = single.positions.unflatten(0, (3, 20)).transpose(1, 2).flatten(1, 2)
    assert torch.equal(apart.positions, expected)
    assert [report.index for report in apart.islands] == [0, 1, 2]


def test_a_run_with_a_checkpoint_goes_on_in_the_file(net, in_memory, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    limit = tight(net, checkpoint=folder)
    fitted(net, limit, islands=ISLANDS - 1, checkpoint=folder)
    files = sorted(os.listdir(folder))
    seen = []
    made = mapped.mapped_tensor

    def noted(shape, dtype, where=None):
        seen.append(where)
        return made(shape, dtype, where)

    monkeypatch.setattr("sbmc.islands.particles_on_disk.mapped_tensor", noted)
    monkeypatch.setattr("sbmc.fitting.assembly.mapped_tensor", noted)
    extended = fitted(net, limit, checkpoint=folder)
    assert seen == [str(folder)] * 2
    assert is_mapped(extended.positions)
    assert torch.equal(extended.positions, in_memory.positions)
    added = f"island-{ISLANDS - 1:05d}.safetensors"
    assert sorted(os.listdir(folder)) == sorted([*files, added])


def test_islands_of_other_processes_are_written_to_the_file(net):
    options = {"sampler": SAMPLERS["HMC"], "executor": sbmc.Processes(workers=1, threads=1)}
    outside = fitted(net, tight(net, **options), islands=24, **options)
    assert is_mapped(outside.positions)
    inside = fitted(net, sampler=SAMPLERS["HMC"], islands=2)
    assert torch.equal(outside.positions[:2], inside.positions)


def test_a_failed_island_leaves_a_gap_that_is_not_in_the_posterior(net, in_memory, monkeypatch):
    from sbmc.islands.job import Job

    run = Job.run

    def fails_once(self, batch, *args):
        if batch == (3,):
            raise ArithmeticError("planted")
        return run(self, batch, *args)

    monkeypatch.setattr(Job, "run", fails_once)
    with pytest.warns(RuntimeWarning, match="1 of 16 islands failed"):
        outside = fitted(net, tight(net))
    others = [index for index in range(ISLANDS) if index != 3]
    assert torch.equal(outside.positions, in_memory.positions[others])


def test_it_is_said_how_much_disk_is_used_and_where(net, caplog, tmp_path):
    limit = tight(net, checkpoint=tmp_path / "run")
    with caplog.at_level(logging.WARNING, "sbmc"):
        fitted(net, HELD + 2**33, islands=2)
        assert caplog.text == ""
        fitted(net, limit, checkpoint=tmp_path / "run")
    # 16 islands of 4 particles and 2 draws in float32, as they were sampled and as stored.
    assert "do not fit into the limit; up to 24.6 MB of disk are used" in caplog.text
    assert str(tmp_path / "run") in caplog.text


def test_the_forecast_has_the_disk(net):
    whole = sbmc.expect(net, DATA, **arguments(tight(net)))
    results = ISLANDS * PARTICLES * 2 * DIM * 4
    assert whole.disk_bytes == 2 * results
    short = sbmc.expect(net, DATA, **arguments(tight(net), store_dtype=torch.bfloat16))
    assert short.disk_bytes == 1.5 * results
    assert "finished particles on disk (18.4 MB in " in str(short)
    assert sbmc.expect(net, DATA, **arguments()).disk_bytes == 0


def test_the_forecast_of_memory_has_the_dtype_that_is_stored(net):
    many = {"islands": 100, "particles": PARTICLES}
    full, short = (
        sbmc.expect(net, DATA, **arguments(**many, store_dtype=dtype)).bytes
        for dtype in (None, torch.bfloat16)
    )
    assert full - short == 100 * PARTICLES * 2 * DIM * 2


def test_a_disk_that_is_too_small_is_refused_before_anything_is_sampled(net, monkeypatch):
    monkeypatch.setattr("sbmc.islands.memory_budget.free_bytes", lambda folder: 10**6)
    monkeypatch.setattr("sbmc.islands.sampling.run_batches", lambda *a, **k: pytest.fail("sampled"))
    with pytest.raises(BadInput) as refused:
        fitted(net, tight(net))
    text = str(refused.value)
    assert "must have 24.6 MB free" in text
    assert "TMPDIR on a larger disk" in text
    assert "1.0 MB free." in text


def test_nothing_is_left_after_an_error_or_when_the_posterior_is_gone(net, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = len(mapped._MAPPINGS)

    def interrupted(*_):
        assert len(mapped._MAPPINGS) == before + 1
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sbmc.fitting.fit.with_displacement", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fitted(net, tight(net))
    gc.collect()
    assert len(mapped._MAPPINGS) == before
    posterior = fitted(net, tight(net))
    # The particles as they were sampled are gone, those of the posterior are there.
    gc.collect()
    assert len(mapped._MAPPINGS) == before + 1
    del posterior
    gc.collect()
    assert len(mapped._MAPPINGS) == before
    assert os.listdir(tmp_path) == []


def test_predictions_read_a_few_particles_at_a_time(net, in_memory):
    outside = fitted(net, tight(net))
    # Room for ten particles of one example, or the pages of the rows that are read, not for both.
    limit = HELD + ALLOWANCE + PARTICLES_AT_ONCE * (PARAMETER_COPIES * DIM * 4 + 2**16 + 2**15)
    inside, from_file = (
        pieces_within(each, INPUTS, 1, limit).particles for each in (in_memory, outside)
    )
    assert (inside, from_file) == (PARTICLES_AT_ONCE, PARTICLES_AT_ONCE // 2)
    torch.testing.assert_close(
        outside.predict(INPUTS, memory_limit=limit).probs, in_memory.predict(INPUTS).probs
    )


def test_what_is_made_of_it_stays_in_a_file(net, in_memory, tmp_path):
    outside = fitted(net, tight(net))
    assert is_mapped(outside.first(6).positions)
    further = arguments(islands=2)
    further["compute"] = sbmc.Compute(
        chunk_size=40, first_island=ISLANDS, executor=sbmc.InProcess(fold=1, threads=1)
    )
    second = sbmc.fit(net, DATA, **further)
    merged = sbmc.merge([outside, second])
    assert is_mapped(merged.positions)
    assert torch.equal(merged.positions[:ISLANDS], in_memory.positions)
    assert torch.equal(merged.positions[ISLANDS:], second.positions)
    outside.save(tmp_path / "posterior")
    again = sbmc.load(tmp_path / "posterior", net)
    assert torch.equal(again.positions, in_memory.positions)


def test_a_mixture_of_such_posteriors_is_in_a_file_too(net):
    sampler = SAMPLERS["HMC"]
    limit, few = tight(net, sampler=sampler), {"sampler": sampler, "islands": 8}
    options, free = (arguments(each, **few) | {"s": "auto"} for each in (limit, None))
    rows = {"validation": (INPUTS[:10] + 0.5, DATA[1][:10])}
    outside, inside = (sbmc.fit(net, DATA, **each, **rows) for each in (options, free))
    assert is_mapped(outside.positions)
    assert torch.equal(outside.positions, inside.positions)


def test_an_island_of_another_run_is_left_alone():
    room = ParticlesOnDisk(range(4))
    stray = Island(IslandReport(9, "completed"), torch.zeros(2, 3))
    assert room.keep(stray) is stray
    failed = Island(IslandReport(1, "failed"), None)
    assert room.keep(failed) is failed


def test_the_file_is_beside_the_checkpoint_if_that_is_on_a_disk(tmp_path):
    assert scratch_folder(None) is None
    assert scratch_folder(sbmc.CheckpointAt(tmp_path)) == str(tmp_path)
    assert scratch_folder(sbmc.CheckpointAt("memory://runs/far")) is None
