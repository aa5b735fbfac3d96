"""Memory: what a target says that it takes, the limit that it keeps, and prediction's peak."""

from __future__ import annotations

import pytest
import torch
from targets import target_of
from torch import nn
from torch.profiler import ProfilerActivity, profile

from sbmc.checks import BadInput
from sbmc.islands.cost import Cost
from sbmc.islands.island import IslandReport
from sbmc.likelihoods import Categorical
from sbmc.model.chunks import Footprint, choose_chunks
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.parameters import select_parameters
from sbmc.posterior.posterior import Posterior
from sbmc.prior.gaussian import anchored_prior

MIB = 2**20


def make_target(examples=200, **options):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 3))
    inputs = torch.randn(examples, 20)
    space = select_parameters(net)
    prior = anchored_prior(space.flatten(net), 0.25, torch.ones(space.dim))
    labels = torch.arange(examples) % 3
    forward = build_forward(net, space, inputs[:2])
    options.setdefault("kernel", False)
    return target_of(forward, Examples(inputs, labels), Categorical(), prior, **options)


def test_a_limit_makes_chunks_smaller_and_changes_no_number():
    free, tight = make_target(), make_target(room=80_000 - 200 * 88)
    small = tight.engine.chunks.examples * tight.engine.chunks.particles
    assert small < free.engine.chunks.examples * free.engine.chunks.particles
    z = torch.randn(12, free.dim)
    for ours, theirs in zip(tight(z), free(z), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)
    apart = 12 * free.dim * (3 * 4 + 2 * 8)
    assert tight.engine.bytes(12) - apart <= 80_000 < free.engine.bytes(12) - apart


def test_more_particles_take_more():
    target = make_target()
    assert target.engine.bytes(1) < target.engine.bytes(10) < target.engine.bytes(1000)


@pytest.mark.parametrize("room", [-17_599, 1])
def test_a_limit_without_room_is_refused(room):
    with pytest.raises(BadInput, match="`memory_limit` must be"):
        make_target(room=room)


def test_the_rule_keeps_its_limit():
    for footprint in (Footprint(100, 1000), Footprint(30_000, 50), Footprint(0, 7)):
        for limit in (50_000, 200_000, 3 * MIB):
            chunks = choose_chunks(footprint, 10_000, limit)
            for n in (1, chunks.particles):
                taken = chunks.examples_for(n) * (footprint.shared + n * footprint.own)
                assert 0 < taken <= limit


def tensor_peak(target, z):
    """Bytes of tensors that an evaluation has at once, at most, beyond those that were there."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        target(z)
    events = seen.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    sizes = torch.tensor([size for _, size in changes]).cumsum(0)
    return int(sizes.max())


@pytest.mark.parametrize("limit", [None, 400_000, 3 * MIB])
def test_the_measured_peak_is_what_was_stated(limit):
    target = make_target(5_000, room=limit)
    z = torch.zeros(20, target.dim)
    target(z)
    taken = tensor_peak(target, z)
    data = 5_000 * (20 * 4 + 8)
    apart = 20 * target.dim * (3 * 4 + 2 * 8)
    assert taken > 0.2 * (target.engine.bytes(20) - data)  # or what is stated says nothing
    assert taken <= target.engine.bytes(20) - data
    if limit is not None:
        assert taken <= limit + apart


def test_prediction_does_not_hold_the_outputs_of_all_particles():
    net = nn.Linear(4, 20)
    space = select_parameters(net)
    posterior = Posterior(
        net,
        space,
        Categorical(),
        torch.randn(1, 3000, space.dim),
        log_evidence=torch.zeros(1, dtype=torch.float64),
        islands=[IslandReport(0, "completed")],
        cost=Cost(1, 0, 0, 1, None),
        settings={},
    )
    inputs = torch.randn(512, 4)
    posterior.predict(inputs[:2])
    taken = tensor_peak(lambda rows: posterior.predict(rows, batch_size=512), inputs)
    whole = 3000 * 512 * 20 * 8  # (particles, examples, classes) in float64: 234 MiB
    assert taken < whole / 5
