"""Shards without processes: their sums are those of all data, and what is refused."""

from __future__ import annotations

import pickle
import threading
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.model.threads import even_chunks
from sbmc.target.minibatch import MiniBatches
from sbmc.target.shards import ShardedEngine, Shards, as_shards, with_ranks
from sbmc.target.shards.group import RankLost, Ranks, packed, unpacked
from sbmc.target.shards.serving import Shard


def small_target(likelihood=None, path="auto", examples=53):
    rng = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    data = torch.randn(examples, 4, generator=rng), torch.randint(3, (examples,), generator=rng)
    return sbmc.build_target(model, data, likelihood=likelihood, path=path)


def shards_of(target, ranks):
    rows = even_chunks(len(target.engine.examples), ranks)
    return [Shard(target.engine.part(some), some.start, threads=1) for some in rows]


@pytest.mark.parametrize("path", ["fused", "vmap"])
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_the_sums_of_shards_are_those_of_all_data(path, ranks):
    target = small_target(path=path)
    theta = target.prior.to_parameters(torch.randn(3, target.dim))
    value, gradient = target.engine(theta)
    sums = [shard.gradient(theta, 1, 0) for shard in shards_of(target, ranks)]
    torch.testing.assert_close(sum(one for one, _ in sums), value, rtol=1e-6, atol=0)
    torch.testing.assert_close(sum(one for _, one in sums), gradient, rtol=1e-5, atol=1e-5)
    # The planted bug: a rank whose examples are left out.
    if ranks > 1:
        assert not torch.allclose(sum(one for one, _ in sums[1:]), value, rtol=1e-3)


@pytest.mark.parametrize("path", ["fused", "vmap"])
def test_every_example_of_a_mini_batch_is_in_one_shard(path):
    target = small_target(path=path)
    positions = torch.randn(4, target.dim)
    index = torch.stack([torch.randperm(53)[:16] for _ in range(4)])
    expected = MiniBatches(target)(positions, index)
    theta = target.prior.to_parameters(positions)
    sums = [shard.batches(theta, index) for shard in shards_of(target, 3)]
    value, gradient = (sum(one[i] for one in sums) * 53 / 16 for i in (0, 1))
    torch.testing.assert_close(value, expected.log_likelihood, rtol=1e-6, atol=0)
    gradient = (gradient * target.prior.scale).to(positions.dtype)
    torch.testing.assert_close(gradient, expected.gradient, rtol=1e-5, atol=1e-5)


def test_a_shard_without_any_example_of_the_batch_adds_nothing():
    target = small_target()
    theta = target.prior.to_parameters(torch.randn(2, target.dim))
    last = shards_of(target, 2)[1]
    value, gradient = last.batches(theta, torch.tensor([[0, 1], [2, 3]]))
    assert value.tolist() == [0.0, 0.0]
    assert not gradient.any()


def test_what_is_sent_of_a_shard_is_its_own_examples():
    target = small_target(examples=50_000)
    part = target.engine.part(slice(0, 50), prepare=False)
    whole, sent = packed(target.engine), packed(part)
    assert len(sent) < len(whole) / 50
    again = unpacked(sent)
    theta = target.prior.to_parameters(torch.randn(2, target.dim))
    assert torch.equal(again(theta)[1], target.engine.part(slice(0, 50))(theta)[1])


def test_parts_of_the_data_have_a_share_of_every_shard():
    target = small_target()
    theta = target.prior.to_parameters(torch.randn(2, target.dim))
    shards = shards_of(target, 2)
    parts = [sum(shard.forward(theta, 3, part) for shard in shards) for part in range(3)]
    torch.testing.assert_close(sum(parts), target.engine.log_likelihood(theta), rtol=1e-6, atol=0)


def test_one_rank_needs_no_process_and_has_the_bits_of_none():
    target = small_target()
    theta = torch.randn(2, target.dim)
    alone = ShardedEngine(target.engine, Shards(1))
    same = torch.clone, lambda gradient: gradient, torch.float64
    value, gradient = alone.evaluate(theta, *same)
    expected = target.engine(theta)
    assert torch.equal(value, expected[0])
    assert torch.equal(gradient, expected[1])


def test_a_lost_rank_survives_the_way_between_processes():
    error = RankLost("rank 1 of 2 was lost", restartable=False)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.restartable) == ("rank 1 of 2 was lost", False)


@pytest.mark.parametrize(
    ("text", "ending", "how", "advice"),
    [
        ("Timed out", "its process ended: 1", "no answer within 2 seconds", True),
        ("Timed out", "its process ended by signal 9", "its process ended by signal 9", False),
        ("Timed out", "", "no answer within 2 seconds", True),
        ("closed", "its process ended: 1", "its process ended: 1", False),
        ("closed", "", "the connection was closed", False),
    ],
)
def test_a_lost_rank_is_said_to_be_lost_by_its_cause(text, ending, how, advice):
    group = SimpleNamespace(rank=lambda: 0, size=lambda: 2)
    ranks = Ranks(group, 2.0, lambda rank: ending)
    with pytest.raises(RankLost, match=rf"rank 1 of 2 was lost \({how}\)") as lost, ranks._named(1):
        raise RuntimeError(text)
    assert ("a longer `timeout`" in str(lost.value)) == advice


def test_a_second_thread_waits_until_the_first_has_ended_its_ranks():
    began = threading.Event()
    second = threading.Thread(target=lambda: with_ranks(began.set, Shards(2)))

    def first():
        second.start()
        return began.wait(0.5)

    assert not with_ranks(first, Shards(2))
    second.join()
    assert began.is_set()


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "torch-run", "", [2], float("nan"), 10**9])
def test_shards_that_are_refused(value):
    with pytest.raises(BadInput, match="`shards` must be"):
        as_shards(value)
    with pytest.raises(BadInput, match="`shards` must be"):
        sbmc.Compute(shards=value)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": "1s"}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": 1e-6}, "timeout"),
        ({"timeout": 1e300}, "timeout"),
        ({"threads": 0}, "threads"),
        ({"threads": 1.5}, "threads"),
    ],
)
def test_settings_that_are_refused(settings, name):
    with pytest.raises(BadInput, match=f"`{name}` must be"):
        Shards(2, **settings)


def test_more_ranks_than_examples_are_refused():
    with pytest.raises(BadInput, match="at most the number of examples, 53, but got 54"):
        ShardedEngine(small_target().engine, Shards(54))


def test_torchrun_is_refused_where_it_has_not_started_anything(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    compute = sbmc.Compute(shards="torchrun")
    with pytest.raises(BadInput, match="`shards` must be a number, or 'torchrun' in a script"):
        sbmc.fit(nn.Linear(2, 2), (torch.zeros(4, 2), torch.zeros(4).long()), compute=compute)


def test_a_number_is_refused_under_torchrun(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    data = torch.zeros(4, 2), torch.zeros(4).long()
    with pytest.raises(BadInput, match="`shards` must be 'torchrun' in a script that torchrun"):
        sbmc.fit(nn.Linear(2, 2), data, compute=sbmc.Compute(shards=2))


def test_other_executors_are_refused_with_ranks_of_torchrun():
    with pytest.raises(BadInput, match="`executor` must be 'in-process' with torchrun's ranks"):
        sbmc.Compute(shards="torchrun", executor="processes")
