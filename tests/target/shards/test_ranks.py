"""Ranks in processes: the same sums and posteriors, equal bits, errors, and ranks that are lost.

Ranks of a count are started once for all tests that use them. What kills a rank is the likelihood,
in the middle of an evaluation and in a process that it knows by its command line; so nothing here
depends on time.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from checks import mean_and_covariance_fit
from targets import conjugate_regression
from torch import nn

import sbmc
from sbmc.target.minibatch import MiniBatches
from sbmc.target.shards import RankLost, ShardedEngine, Shards, local_ranks, started
from sbmc.target.shards.group import FailedInRank
from sbmc.target.target import Target

pytestmark = pytest.mark.integration

S = 0.25
TIMEOUT = 120.0


@pytest.fixture(autouse=True, scope="module")
def _nobody_is_left_behind():
    yield
    started.close_ranks()
    folder = Path(f"/proc/{os.getpid()}/task")
    children = [(task / "children").read_text().split() for task in folder.iterdir()]
    for pid in {pid for pids in children for pid in pids}:
        assert b"run_rank" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def network_target(likelihood=None):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    data = torch.randn(203, 6), torch.randint(3, (203,))
    return sbmc.build_target(model, data, likelihood=likelihood)


def in_ranks(target, ranks, **settings):
    engine = ShardedEngine(target.engine, Shards(ranks, timeout=TIMEOUT, **settings))
    return Target(engine, target.prior, target.power)


def fit_regression(sampler, particles, likelihood=None, **compute):
    problem = conjugate_regression()
    return sbmc.fit(
        problem.model,
        (problem.inputs, problem.targets),
        s=S,
        prior_variance=problem.prior_variance,
        likelihood=likelihood or sbmc.Gaussian(noise_variance=problem.noise_variance),
        sampler=sampler,
        particles=particles,
        start="prior",
        seed=1,
        compute=sbmc.Compute(**compute),
        progress=False,
    )


@pytest.mark.parametrize("ranks", [2, 4])
def test_likelihood_and_gradient_are_those_of_one_process(ranks):
    target = network_target()
    positions = torch.randn(5, target.dim)
    expected, sharded = target(positions), in_ranks(target, ranks)
    found = sharded(positions)
    largest = expected.gradient.abs().max()
    torch.testing.assert_close(found.log_likelihood, expected.log_likelihood, rtol=1e-6, atol=0)
    assert (found.gradient - expected.gradient).abs().max() <= 1e-6 * largest
    torch.testing.assert_close(
        sharded.log_likelihood(positions), expected.log_likelihood, rtol=1e-6, atol=0
    )
    assert sharded.evaluations.gradient == 5
    # Mini-batches: the same examples, whoever has them.
    index = torch.stack([torch.randperm(203)[:32] for _ in positions])
    some, found = MiniBatches(target)(positions, index), MiniBatches(sharded)(positions, index)
    torch.testing.assert_close(found.log_likelihood, some.log_likelihood, rtol=1e-6, atol=0)
    assert (found.gradient - some.gradient).abs().max() <= 1e-6 * some.gradient.abs().max()
    # Parts of the data, as scouts have them.
    parts = sum(part.log_likelihood(positions) for part in sharded.split(3))
    torch.testing.assert_close(parts, expected.log_likelihood, rtol=1e-6, atol=0)


def test_particles_that_do_not_fit_into_one_message_come_in_several(monkeypatch):
    target = network_target()
    positions = torch.randn(5, target.dim)
    expected = in_ranks(target, 2)(positions)
    monkeypatch.setattr("sbmc.target.shards.engine.MESSAGE_BYTES", 2 * 8 * target.dim)
    found = in_ranks(target, 2)(positions)
    assert torch.allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-9)
    assert torch.allclose(found.gradient, expected.gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_posterior_of_a_conjugate_regression_is_exact(ranks):
    mean, covariance = conjugate_regression().posterior(S)
    posterior = fit_regression(sbmc.HMC(steps=20), 400, shards=ranks)
    samples = posterior.positions[0]
    assert mean_and_covariance_fit(samples, mean, covariance)
    # The planted bug: a rank whose examples are counted twice has a narrower posterior.
    assert not mean_and_covariance_fit(samples, mean, covariance / 2)


def test_the_evidence_of_a_conjugate_regression_is_exact():
    expected = conjugate_regression().log_evidence(S)
    smc = sbmc.SMC(mutations=4, move=sbmc.HMC(), ess=0.8)
    one, two = fit_regression(smc, 200), fit_regression(smc, 200, shards=2)
    assert two.islands[0].log_evidence == pytest.approx(expected, abs=0.5)
    torch.testing.assert_close(two.positions, one.positions, rtol=1e-6, atol=1e-6)


def test_mini_batches_of_ranks_sample_what_one_process_samples():
    sghmc = sbmc.SGHMC(epochs=20, batch_size=5, step_size=0.05)
    one, three = fit_regression(sghmc, 8), fit_regression(sghmc, 8, shards=3)
    torch.testing.assert_close(three.positions, one.positions, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("epochs", "examples", "most"), [(40, 2000, 1e-9), (160, 300, 1e-4)])
def test_two_ranks_differ_from_one_process_by_nothing_but_rounding(epochs, examples, most):
    # The default sampler on mini-batches, and on all data. Its chains amplify
    # rounding, as docs/ranks.md shows, so that differences of 1e-17 grow to 1e-5 on all data.
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    inputs = torch.randn(examples, 5, dtype=torch.float64)
    data = inputs, (inputs[:, 0] > inputs[:, 1]).long()
    sampler = sbmc.AutoHMC(epochs=epochs)
    options = {"s": 0.1, "sampler": sampler, "particles": 4, "seed": 0, "progress": False}
    one = sbmc.fit(model, data, **options)
    two = sbmc.fit(model, data, compute=sbmc.Compute(shards=2), **options)
    assert (two.positions - one.positions).abs().max() <= most
    # The planted bug: labels of a rank that belong to its neighbours.
    wrong = inputs, torch.cat([data[1][:-20], data[1][-20:].roll(1)])
    other = sbmc.fit(model, wrong, **options)
    assert (other.positions - one.positions).abs().max() > 100 * most


def test_equal_numbers_of_ranks_give_equal_bits():
    settings = {"shards": Shards(3, timeout=TIMEOUT)}
    hmc = sbmc.HMC(steps=10)
    first, second = (fit_regression(hmc, 10, **settings) for _ in range(2))
    assert torch.equal(first.positions, second.positions)
    assert first.settings["shards"] == 3
    # Islands in worker processes, each with ranks of its own, have the same bits too.
    apart = fit_regression(hmc, 10, executor=sbmc.Processes(workers=1), **settings)
    assert torch.equal(apart.positions, first.positions)


def test_engines_of_two_threads_take_turns_with_the_ranks():
    targets = [in_ranks(network_target(), 2, threads=1) for _ in range(2)]
    positions = [torch.randn(2 + i, targets[0].dim) for i in range(2)]
    expected = [target(some).gradient for target, some in zip(targets, positions, strict=True)]

    def many_times(i: int) -> bool:
        found = [targets[i](positions[i]).gradient for _ in range(10)]
        return all(torch.equal(one, expected[i]) for one in found)

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(many_times, range(2)))


def test_an_error_in_a_rank_names_it_and_leaves_the_others_in_step():
    target = network_target(likelihood=failing_likelihood())
    sharded = in_ranks(target, 3)
    positions = torch.randn(2, target.dim)
    with pytest.raises(FailedInRank, match="rank 2 of 3: ZeroDivisionError: at 7"):
        sharded(positions + 1000)
    expected = target(positions)
    found = sharded(positions)
    torch.testing.assert_close(found.log_likelihood, expected.log_likelihood, rtol=1e-6, atol=0)


def failing_likelihood():
    """Fails in rank 2, far away from the data."""

    def log_prob(outputs, targets):
        this_rank = int(sys.argv[5]) if "run_rank" in str(sys.orig_argv) else 0
        if this_rank == 2 and bool((outputs.abs() > 1000).any()):
            raise ZeroDivisionError("at 7")
        return -nn.functional.cross_entropy(outputs, targets, reduction="none")

    return log_prob


def deadly_likelihood(rank: int, calls: int, once: Path, ending: int = signal.SIGKILL):
    """The regression's likelihood; it ends the process of a rank after so many calls, once."""
    variance = conjugate_regression().noise_variance
    made = [0]

    def log_prob(outputs, targets):
        this_rank = int(sys.argv[5]) if "run_rank" in str(sys.orig_argv) else 0
        made[0] += 1
        if this_rank == rank and made[0] > calls and not once.exists():
            once.touch()
            os.kill(os.getpid(), ending)
        errors = (outputs.reshape(targets.shape) - targets).square()
        return -errors.reshape(len(targets), -1).sum(-1) / (2 * variance)

    log_prob.made = made  # type: ignore[attr-defined]
    return log_prob


def test_a_rank_that_is_killed_is_named_and_the_run_goes_on_with_other_ranks(tmp_path):
    hmc, harmless = sbmc.HMC(steps=30), deadly_likelihood(9, 0, tmp_path / "never")
    undisturbed = fit_regression(hmc, 4, harmless)
    at = sbmc.CheckpointAt(tmp_path / "run", every=0)
    deadly = deadly_likelihood(3, 400, tmp_path / "killed")
    with pytest.raises(RuntimeError, match=r"rank 3 of 4 was lost \(its process ended by signal 9"):
        fit_regression(hmc, 4, deadly, shards=4, checkpoint=at, retries=0)
    assert (tmp_path / "killed").exists()
    before = deadly.made[0]
    resumed = fit_regression(hmc, 4, deadly, shards=2, checkpoint=at, retries=0)
    assert resumed.islands[0].attempts == 2
    assert deadly.made[0] - before < harmless.made[0] - 300, "it began from the start"
    torch.testing.assert_close(resumed.positions, undisturbed.positions, rtol=1e-8, atol=1e-8)


def test_a_killed_rank_is_started_again_where_retries_allow_it(tmp_path):
    hmc = sbmc.HMC(steps=20)
    undisturbed = fit_regression(hmc, 4, deadly_likelihood(9, 0, tmp_path / "never"))
    deadly = deadly_likelihood(1, 20, tmp_path / "killed")
    again = fit_regression(hmc, 4, deadly, shards=2, checkpoint=tmp_path / "run")
    assert (tmp_path / "killed").exists()
    torch.testing.assert_close(again.positions, undisturbed.positions, rtol=1e-8, atol=1e-8)


def test_a_rank_that_hangs_is_given_up_after_the_timeout(tmp_path):
    deadly = deadly_likelihood(1, 10, tmp_path / "stopped", ending=signal.SIGSTOP)
    with pytest.raises(RuntimeError, match=r"rank 1 of 3 was lost \(no answer within 2 seconds\)"):
        fit_regression(sbmc.HMC(steps=20), 4, deadly, shards=Shards(3, timeout=2), retries=0)
    assert (tmp_path / "stopped").exists()


def test_a_rank_that_dies_between_two_evaluations(monkeypatch):
    target = network_target()
    sharded = in_ranks(target, 3, threads=1)
    positions = torch.randn(2, target.dim)
    expected = sharded(positions)

    def kill_rank_2():
        process = started._running._processes[1]
        process.kill()
        process.wait()

    kill_rank_2()
    # Noticed before a message is sent: the ranks are started again, and nothing is lost.
    assert torch.equal(sharded(positions).gradient, expected.gradient)
    kill_rank_2()
    # Not noticed before.
    monkeypatch.setattr(local_ranks.LocalRanks, "usable", True)
    with pytest.raises(RankLost, match=r"rank 2 of 3 was lost \(its process ended by signal 9\)"):
        sharded(positions)


def test_ranks_that_are_connected_leave_nothing_on_the_disk(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    started.close_ranks()
    target = network_target()
    in_ranks(target, 3)(torch.randn(1, target.dim))
    # So a process that is killed leaves nothing either.
    assert started._running is not None
    assert not list(tmp_path.iterdir())


def test_a_rank_that_does_not_start_says_so(monkeypatch):
    monkeypatch.setattr(local_ranks, "_BEGIN", "raise SystemExit(7)")
    with pytest.raises(RankLost, match=r"rank \d of 2 did not start \(its process ended: 7\)"):
        in_ranks(network_target(), 2, threads=1)(torch.randn(1, network_target().dim))
