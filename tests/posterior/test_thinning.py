"""Few particles for many: exact where nothing is lost, and against every choice of small cases."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn

import sbmc
from sbmc import BadInput
from sbmc.posterior import thinning
from sbmc.posterior.thinning import choose

INPUTS = torch.randn(25, 3, generator=torch.Generator().manual_seed(1))
LABELS = (INPUTS[:, 0] > 0).long()
SHORT = sbmc.HMC(steps=6, leapfrog=4, step_size=0.2)


def network(outputs=2):
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, outputs))


def fitted(targets=LABELS, outputs=2, **options):
    options = {"s": 1.0, "sampler": SHORT, "islands": 2, "particles": 4, **options}
    return sbmc.fit(network(outputs), (INPUTS, targets), progress=False, **options)


@pytest.fixture(scope="module")
def posterior():
    return fitted()


def vectors(seed, count, dim=4):
    """Vectors whose weighted mean is the origin, as those of a mixture are."""
    drawn = np.random.default_rng(seed).normal(size=(count, dim)) ** 3
    return drawn - drawn.mean(0)


def test_all_particles_give_the_same_predictions(posterior):
    for k in (8, 100):
        same = posterior.thin(k)
        assert same.positions.shape == (1, 8, posterior.positions.shape[-1])
        assert torch.equal(same.weights.flatten(), posterior.weights.flatten())
        before, after = posterior.predict(INPUTS), same.predict(INPUTS)
        torch.testing.assert_close(after.probs, before.probs, atol=1e-12, rtol=0)
        torch.testing.assert_close(after.epistemic, before.epistemic, atol=1e-12, rtol=0)
        assert same.settings["thinned"]["moved"] == 0.0


def test_copies_are_merged_without_loss():
    posterior = fitted()
    with torch.no_grad():
        posterior.positions[0, 3] = posterior.positions[0, 0]
        posterior.positions[1] = posterior.positions[0]
    smaller = posterior.thin(3)
    assert smaller.positions.shape[1] == 3
    assert sorted(smaller.weights.flatten().tolist()) == pytest.approx([0.25, 0.25, 0.5], abs=1e-6)
    assert smaller.settings["thinned"]["moved"] == pytest.approx(0, abs=1e-6)
    before, after = posterior.predict(INPUTS), smaller.predict(INPUTS)
    torch.testing.assert_close(after.probs, before.probs, atol=1e-6, rtol=0)
    torch.testing.assert_close(after.aleatoric, before.aleatoric, atol=1e-6, rtol=0)
    # Four would do no better, so three are kept.
    assert posterior.thin(4).positions.shape[1] == 3


def nearest_point(some):
    """The shortest vector of a hull, by another solver."""
    found = minimize(
        lambda v: float(np.square(v @ some).sum()),
        np.full(len(some), 1 / len(some)),
        jac=lambda v: 2 * some @ (v @ some),
        bounds=[(0, 1)] * len(some),
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return float(found.fun)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_against_every_choice_of_a_small_case(seed, k):
    """The same loss as the best of all choices has, whose weights another solver finds."""
    points = vectors(seed, 7)
    best = min(nearest_point(points[list(each)]) for each in itertools.combinations(range(7), k))
    choice = choose(points @ points.T, k)
    assert len(choice.rows) <= k
    assert choice.weights.sum() == pytest.approx(1)
    assert (choice.weights > 0).all()
    direct = float(np.square(choice.weights @ points[choice.rows]).sum())
    assert choice.loss == pytest.approx(direct, abs=1e-9)
    assert choice.loss == pytest.approx(best, rel=1e-5, abs=1e-6)


def test_the_search_for_larger_cases_comes_near(monkeypatch):
    """Of twenty cases half are solved exactly, more than without exchanges, and none is beaten."""
    monkeypatch.setattr(thinning, "FEW_CHOICES", 0)
    ratios = {}
    cases = [vectors(seed, 7, dim=8) for seed in range(20)]
    triples = list(itertools.combinations(range(7), 3))
    best = [min(nearest_point(points[list(each)]) for each in triples) for points in cases]
    for trials in (0, 5_000):
        monkeypatch.setattr(thinning, "MOST_TRIALS", trials)
        found = [choose(points @ points.T, 3).loss for points in cases]
        ratios[trials] = np.array(found) / best
    assert min(ratios[0].min(), ratios[5_000].min()) > 1 - 1e-4
    assert (ratios[5_000] < 1 + 1e-4).sum() >= 10 > (ratios[0] < 1 + 1e-4).sum()


def test_more_particles_never_move_predictions_more(posterior):
    moved = [posterior.thin(k).settings["thinned"]["moved"] for k in (1, 2, 4, 6, 8)]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > 0


def test_few_particles_predict_as_all_do_and_better_than_the_first_ones(posterior):
    full = posterior.predict(INPUTS)

    def change(other):
        return float((other.predict(INPUTS).probs - full.probs).abs().mean())

    assert change(posterior.thin(4)) < change(posterior.first(1))


@pytest.mark.parametrize("noise", ["learned", "network", 0.5])
def test_numbers(noise):
    likelihood = sbmc.Gaussian(**({"noise": noise} if noise != 0.5 else {"noise_variance": noise}))
    posterior = fitted(INPUTS[:, :1].sin(), 2 if noise == "network" else 1, likelihood=likelihood)
    before, after = posterior.predict(INPUTS), posterior.thin(6).predict(INPUTS)
    torch.testing.assert_close(after.mean, before.mean, atol=0.2, rtol=0)
    assert (after.epistemic / before.epistemic).log().abs().mean() < 0.3


def test_particles_of_no_weight_are_never_chosen():
    posterior = fitted()
    posterior.within = torch.tensor([[0.5, 0.5, 0, 0], [1.0, 0, 0, 0]], dtype=torch.float64)
    posterior = posterior.reweighted("equal")
    smaller = posterior.thin(3, INPUTS)
    chosen = {tuple(each) for each in smaller.settings["thinned"]["chosen"]}
    assert chosen == {(0, 0), (0, 1), (1, 0)}
    torch.testing.assert_close(smaller.predict(INPUTS).probs, posterior.predict(INPUTS).probs)


def test_it_is_one_island_with_the_health_of_the_run(posterior, tmp_path):
    smaller = posterior.thin(3)
    assert [report.outcome for report in smaller.islands] == ["completed"]
    assert smaller.health.figures["particles"] == posterior.health.figures["particles"]
    assert smaller.health.ok == posterior.health.ok
    assert smaller.evidence is None
    for row, (island, particle) in enumerate(smaller.settings["thinned"]["chosen"]):
        assert torch.equal(smaller.positions[0, row], posterior.positions[island, particle])
    card = re.sub(' style="[^"]*"', "", smaller._repr_html_())
    assert "<th>thinned from</th><td>2 × 4; predictions move by " in card
    with pytest.raises(BadInput, match="made by `fit`"):
        sbmc.merge([smaller, smaller])
    smaller.save(tmp_path / "file")
    again = sbmc.load(tmp_path / "file", network())
    assert torch.equal(again.predict(INPUTS).probs, smaller.predict(INPUTS).probs)
    with pytest.raises(BadInput, match=r"posterior\.thin\(k, x\)"):
        again.thin(2)
    assert again.thin(2, INPUTS).positions.shape[1] == 2


def test_the_posterior_that_is_thinned_stays_as_it_is(posterior):
    before = posterior.origin, posterior.predict(INPUTS).probs, dict(posterior.settings)
    posterior.thin(2)
    assert (posterior.origin, posterior.settings) == (before[0], before[2])
    assert torch.equal(posterior.predict(INPUTS).probs, before[1])


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True])
def test_k_is_a_positive_integer(posterior, k):
    with pytest.raises(BadInput, match="`k` must be a positive integer"):
        posterior.thin(k)


def test_a_file_in_fewer_bytes(posterior, tmp_path):
    posterior.save(tmp_path / "full")
    posterior.save(tmp_path / "half", dtype="bfloat16")
    half = sbmc.load(tmp_path / "half", network())
    assert half.positions.dtype == torch.bfloat16
    assert half.dtype == posterior.dtype == torch.float32
    assert torch.equal(half.positions, posterior.positions.bfloat16())
    sizes = [(tmp_path / name).stat().st_size for name in ("full", "half")]
    # Metadata has a few hundred bytes more to say.
    assert sizes[0] - sizes[1] > posterior.positions.nbytes / 2 - 500
    probs = [each.predict(INPUTS).probs for each in (posterior, half)]
    torch.testing.assert_close(*probs, atol=0.02, rtol=0)
    thinned = posterior.thin(3)
    thinned.save(tmp_path / "both", dtype=torch.bfloat16)
    again = sbmc.load(tmp_path / "both", network())
    torch.testing.assert_close(
        again.predict(INPUTS).probs, thinned.predict(INPUTS).probs, atol=0.02, rtol=0
    )


def test_types_without_room_are_refused(posterior, tmp_path):
    for dtype in ("int8", torch.int64):
        with pytest.raises(BadInput, match="floating-point type such as 'bfloat16'"):
            posterior.save(tmp_path / "file", dtype=dtype)
    with pytest.raises(BadInput, match=r"the name of a torch\.dtype"):
        posterior.save(tmp_path / "file", dtype="half-ish")
    large = fitted()
    large.positions = large.positions * 1e6
    with pytest.raises(BadInput, match="one with room for every position"):
        large.save(tmp_path / "file", dtype="float16")
