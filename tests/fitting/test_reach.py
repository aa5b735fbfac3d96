"""How wide a posterior chains explore: the curvature, the path, and what `fit` makes of them."""

import math

import pytest
import torch
from torch import nn

import sbmc
from sbmc.fitting import mixture_plan
from sbmc.fitting import reach as module
from sbmc.fitting.reach import AMPLE_PATH, PATH, SCALES, Reach, find_reach
from sbmc.fitting.request import FitRequest
from sbmc.fitting.single_fits import single_fits
from sbmc.model.data import as_examples

ROWS = 640  # ten batches, so that chains begin on mini-batches


def linear_problem(gain):
    """A linear model with known noise, whose curvature is known: v · XᵀX / σ²."""
    rng = torch.Generator().manual_seed(0)
    inputs = torch.randn(ROWS, 3, generator=rng)
    inputs[:, 0] *= gain
    targets = inputs.sum(1, keepdim=True) + torch.randn(ROWS, 1, generator=rng)
    torch.manual_seed(0)
    return nn.Linear(3, 1, bias=False), (inputs, targets)


def request_of(gain, **changes):
    model, data = linear_problem(gain)
    options = {
        "likelihood": sbmc.Gaussian(noise_variance=1.0),
        "prior_variance": 0.5,
        "progress": False,
    }
    return FitRequest(model, as_examples(data), **{**options, **changes})


@pytest.mark.parametrize("gain", [1.0, 30.0])
def test_the_curvature_is_that_of_a_linear_model(gain):
    request = request_of(gain)
    inputs = request.data.inputs.double()
    exact = float(torch.linalg.eigvalsh(0.5 * inputs.T @ inputs).max())
    found = find_reach(request)
    # The batches of 64 rows have a curvature of their own, larger than that of all of them.
    assert exact / 1.3 < found.curvature < exact * 2
    assert found.examples == ROWS
    assert found.epochs == pytest.approx(module.PROBES * (module.ITERATIONS + 1) * 64 / ROWS)


def test_the_curvature_on_all_rows_is_exact(monkeypatch):
    monkeypatch.setattr(module, "BATCH_SIZE", ROWS)
    request = request_of(30.0)
    inputs = request.data.inputs.double()
    exact = float(torch.linalg.eigvalsh(0.5 * inputs.T @ inputs).max())
    assert find_reach(request).curvature == pytest.approx(exact, rel=1e-3)


def test_a_wider_prior_is_steeper_in_proportion():
    narrow, wide = (find_reach(request_of(5.0, prior_variance=v)).curvature for v in (0.1, 0.4))
    assert wide == pytest.approx(4 * narrow, rel=1e-3)


def test_a_likelihood_that_is_not_finite_counts_as_flat():
    model, data = linear_problem(1.0)
    likelihood = sbmc.Custom(lambda outputs, targets: (outputs - targets).sum(1) * math.nan)
    request = FitRequest(model, as_examples(data), likelihood=likelihood, progress=False)
    assert find_reach(request).curvature == 0.0


def test_the_path_counts_steps_against_the_stiffest_direction():
    found = Reach(ROWS, curvature=99.0, epochs=1.0)
    assert found.path(1.0, epochs=8) == pytest.approx(8 * 10 / math.sqrt(100))
    assert found.path(0.0, epochs=8) == 8 * 10
    # Mini-batches for half of the run, and a step for each epoch of the rest.
    assert found.path(1.0, epochs=40) == pytest.approx((20 * 10 + 20) / math.sqrt(100))


def test_steps_on_all_data_have_no_limit():
    assert Reach(100, curvature=1e9, epochs=1.0).path(1.0, epochs=4) == math.inf
    assert Reach(ROWS, curvature=1e9, epochs=1.0).path(1.0, epochs=64) == math.inf


def test_the_widest_s_is_the_largest_with_an_ample_path():
    for curvature in (10.0, 1e3, 1e4):
        found = Reach(ROWS, curvature, epochs=1.0)
        widest = found.widest(8)
        assert found.path(widest, 8) >= AMPLE_PATH
        wider = [s for s in SCALES if s > widest]
        assert all(found.path(s, 8) < AMPLE_PATH for s in wider)
    assert Reach(ROWS, 1e9, epochs=1.0).widest(8) == SCALES[-1]


def test_many_examples_narrow_s_in_proportion():
    for examples, most in ((10_000, 0.1), (10_001, 0.05), (25_000, 0.02), (100_000, 0.01)):
        assert Reach(examples, curvature=0.0, epochs=1.0).widest(8) == most


def test_a_few_passes_do_not_explore_everything_whatever_their_path():
    found = Reach(50_000, curvature=0.0, epochs=1.0)
    assert found.path(1.0, 4) > PATH
    assert not found.explores_all(4)
    assert found.explores_all(5)
    assert not Reach(50_000, curvature=1e9, epochs=1.0).explores_all(20)


def fits_of(gain, trained=16, **changes):
    budget = sbmc.Budget(trainings=5, trained_epochs=trained)
    return single_fits(request_of(gain, budget=budget, **changes), lambda _: 1.0)


def unseen(seed=1):
    rng = torch.Generator().manual_seed(seed)
    inputs = torch.randn(40, 3, generator=rng)
    return inputs, inputs.sum(1, keepdim=True)


def test_s_by_rule_is_narrowed_and_says_so():
    usual, narrowed = fits_of(0.1, prior_variance=0.001), fits_of(30.0)
    assert (usual.requests[0].s, usual.s_reason) == (0.1, "")
    assert narrowed.requests[0].s < 0.1
    assert narrowed.s_reason.startswith(f"s = {narrowed.requests[0].s:g} instead of 0.1, since")
    assert usual.probe_epochs == narrowed.probe_epochs > 0


def test_an_s_that_was_given_is_never_changed():
    fits = fits_of(30.0, s=0.1)
    assert (fits.requests[0].s, fits.s_reason, fits.probe_epochs) == (0.1, "", 0.0)


@pytest.mark.parametrize(
    ("steps", "networks", "chains"),
    [
        # Of 120 epochs, three networks of 16 leave 72 to two chains around each of four.
        (240, 3, (4, 2, 9)),
        # The training was short: two of 24 leave 72 to two chains around each of three.
        (241, 2, (3, 2, 12)),
    ],
)
def test_the_full_posterior_is_left_out_and_its_budget_given_to_a_network_and_the_others(
    monkeypatch, steps, networks, chains
):
    monkeypatch.setattr(mixture_plan, "STEPS_TO_SHORTEN", steps)
    options = {"trained": 24, "validation": unseen()}
    usual = fits_of(0.1, prior_variance=0.001, **options)
    fits = fits_of(30.0, **options)
    assert [request.s for request in usual.requests] == [0.1, 1.0]
    assert len(fits.requests) == 1
    assert fits.requests[0].s < 0.1
    assert "s = 1 is not sampled" in fits.s_reason
    assert (usual.training.networks, fits.training.networks) == (2, networks)
    around = fits.requests[0]
    assert (around.islands, around.particles, around.sampler.epochs) == chains
    both = sum(each.particles * each.islands * each.sampler.epochs for each in usual.requests)
    assert both == (84 if steps == 240 else 72)
    assert f"{PATH:g} needed" in fits.s_reason


def test_the_posterior_remembers_why_and_counts_the_probe():
    model, data = linear_problem(30.0)
    budget = sbmc.Budget(trainings=5, trained_epochs=16, stop_early=False)
    options = {"likelihood": sbmc.Gaussian(noise_variance=1.0), "prior_variance": 0.5}
    posterior = sbmc.fit(model, data, budget=budget, progress=False, **options)
    assert "instead of 0.1" in posterior.settings["s_reason"]
    given = sbmc.fit(
        model, data, budget=budget, s=posterior.settings["s"], progress=False, **options
    )
    assert "s_reason" not in given.settings
    assert torch.equal(posterior.positions, given.positions)
    probe = module.PROBES * (module.ITERATIONS + 1) * 64 / ROWS
    assert posterior.cost.total_epochs == pytest.approx(given.cost.total_epochs + probe)


def test_chains_of_a_few_passes_leave_the_full_posterior_out_and_say_so():
    fits = fits_of(0.1, trained=16, prior_variance=0.001, validation=unseen())
    assert [request.s for request in fits.requests] == [0.1]
    assert "chains of 4 epochs do not explore it (5 needed)" in fits.s_reason
