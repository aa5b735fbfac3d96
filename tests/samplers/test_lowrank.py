import pytest
import torch
from checks import distribution_fits, mean_and_covariance_fit
from targets import (
    AnalyticTarget,
    conjugate_regression,
    sample_regression,
    skewed_cdf,
    skewed_log_likelihood,
)

from sbmc.samplers import HMC, hmc_kernel, lowrank
from sbmc.samplers.noise import IslandNoise

STIFF = torch.tensor([400.0, 100.0, 25.0, 1.0, 0.5, 0.2], dtype=torch.float64)


def noise(particles: int, seed: int = 0) -> IslandNoise:
    return IslandNoise([torch.Generator().manual_seed(seed)], particles)


def rotation() -> torch.Tensor:
    rng = torch.Generator().manual_seed(7)
    return torch.linalg.qr(torch.randn(6, 6, generator=rng, dtype=torch.float64))[0]


def stiff_target() -> AnalyticTarget:
    hessian = rotation() @ STIFF.diag() @ rotation().T
    return AnalyticTarget(lambda z: -0.5 * torch.einsum("pi,ij,pj->p", z, hessian, z))


def estimate(rank: int, particles: int = 2) -> tuple[lowrank.LowRank, AnalyticTarget]:
    target = stiff_target()
    position = torch.randn(particles, 6, generator=torch.Generator().manual_seed(1)).double()
    return lowrank.estimate(noise(particles), position, target(position), target, rank), target


def test_finds_the_stiff_directions_and_their_curvatures():
    found, _ = estimate(rank=4)
    # Two passes give the eigenvalues that stand out closely and the others roughly.
    curvature = (1 + found.stretch).pow(-2) - 1
    torch.testing.assert_close(curvature[:, -2:], STIFF[:2].flip(0).expand(2, 2), rtol=0.02, atol=0)
    overlap = (found.directions[:, :, -1] @ rotation()[:, 0]).abs()
    torch.testing.assert_close(overlap, torch.ones(2).double(), rtol=0, atol=0.01)


def test_costs_two_evaluations_a_direction():
    _, target = estimate(rank=3, particles=5)
    assert target.evaluations.gradient == 5 * (1 + 2 * 3)


def test_is_the_symmetric_map_that_it_says():
    found, _ = estimate(rank=3)
    columns = torch.stack([found(e.expand(2, 6)) for e in torch.eye(6).double()], dim=-1)
    torch.testing.assert_close(columns, columns.mT)
    u, d = found.directions, found.stretch.diag_embed()
    torch.testing.assert_close(columns, torch.eye(6).double() + u @ d @ u.mT)


def test_full_rank_makes_all_directions_alike():
    found, _ = estimate(rank=6)
    hessian = rotation() @ STIFF.diag() @ rotation().T + torch.eye(6).double()
    columns = torch.stack([found(e.expand(2, 6)) for e in torch.eye(6).double()], dim=-1)
    torch.testing.assert_close(
        columns @ hessian @ columns, torch.eye(6).double().expand(2, 6, 6), rtol=0, atol=1e-6
    )


def test_lets_the_step_size_grow():
    start = torch.zeros(40, 6, dtype=torch.float64)
    sizes = {}
    for rank in (None, 3):
        settings = HMC(steps=20, precondition=rank)
        (run,) = settings.run(stiff_target(), noise(40), start)
        sizes[rank] = run.step_size
    assert sizes[3] > 2.5 * sizes[None]


def test_a_preconditioned_trajectory_is_reversible():
    target = AnalyticTarget(skewed_log_likelihood)
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(3)).double()
    state = hmc_kernel.init(start, target, noise(3), rank=2)
    momentum = torch.randn(3, 4, generator=torch.Generator().manual_seed(4)).double()
    options = torch.full((3,), 0.1), torch.full((3,), 20), torch.tensor(1.0).double()
    end, turned = hmc_kernel.trajectory(state, momentum, target, *options)
    back, _ = hmc_kernel.trajectory(end, -turned, target, *options)
    assert (end.position - state.position).abs().max() > 0.3
    torch.testing.assert_close(back.position, state.position, atol=1e-12, rtol=0)


def preconditioned_regression(s: float) -> torch.Tensor:
    return sample_regression(s, HMC(steps=24, step_size=0.2, adapt=False, launch=0, precondition=2))


class TestDistribution:
    """Each check raises a false alarm with probability 1e-4, if the seed were drawn anew."""

    @pytest.mark.parametrize("s", [0.25, 1.0])
    def test_conjugate_regression(self, s):
        mean, covariance = conjugate_regression().posterior(s)
        assert mean_and_covariance_fit(preconditioned_regression(s), mean, covariance)

    def test_skewed_target(self):
        target = AnalyticTarget(skewed_log_likelihood)
        start = torch.zeros(2000, 1, dtype=torch.float64)
        settings = HMC(steps=20, precondition=1)
        (run,) = settings.run(target, noise(2000, seed=12), start)
        assert distribution_fits(run.draws[0][:, 0], skewed_cdf())

    def test_a_map_applied_to_drifts_but_not_to_kicks_is_caught(self, monkeypatch):
        # Kicks and drifts by different maps are no flow of any Hamiltonian with this energy.
        calls = {"count": 0}
        right = lowrank.LowRank.__call__

        def wrong(self, vectors):
            calls["count"] += 1
            return right(self, vectors) if calls["count"] % 3 == 2 else vectors

        monkeypatch.setattr(lowrank.LowRank, "__call__", wrong)
        mean, covariance = conjugate_regression().posterior(1.0)
        assert not mean_and_covariance_fit(preconditioned_regression(1.0), mean, covariance)
