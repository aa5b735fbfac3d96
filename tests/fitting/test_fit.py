"""`sbmc.fit` from end to end: limits, shapes, determinism, failures, and everything it refuses."""

from __future__ import annotations

import copy
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from grouped import in_groups
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sbmc
from sbmc import HMC, MALA, PCN, SMC, BadInput, Gaussian, fit
from sbmc.islands.island import ANCHOR_NOISE

QUICK = HMC(steps=3, leapfrog=2, step_size=0.1)
EXAMPLES = 12


def make_data(dtype=torch.float32):
    noise = torch.Generator().manual_seed(1)
    inputs = torch.randn(EXAMPLES, 4, generator=noise, dtype=torch.float64).to(dtype)
    return inputs, torch.randint(3, (EXAMPLES,), generator=noise)


DATA = make_data()


class Counting(nn.Module):
    """Counts the examples that it is called with."""

    seen = 0

    def forward(self, x):
        Counting.seen += len(x)
        return x


def make_net():
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3)
    )


def snapshot(net):
    return {
        "values": {name: value.detach().clone() for name, value in net.state_dict().items()},
        "places": [value.data_ptr() for value in (*net.parameters(), *net.buffers())],
        "modes": [module.training for module in net.modules()],
        "needs": [p.requires_grad for p in net.parameters()],
        "slopes": [None if p.grad is None else p.grad.clone() for p in net.parameters()],
        "hooks": [len(m._forward_hooks) for m in net.modules()],
    }


def assert_unchanged(before, net):
    after = snapshot(net)
    for name, value in before["values"].items():
        assert torch.equal(value, after["values"][name]), name
    for key in ("places", "modes", "needs", "hooks"):
        assert before[key] == after[key]
    for first, second in zip(before["slopes"], after["slopes"], strict=True):
        assert (first is None and second is None) or torch.equal(first, second)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"parameters": "last"}, {"dtype": torch.float64}, {"s": 0}, {"path": "loop"}]
)
def test_the_users_module_comes_back_bit_for_bit(training, options):
    net = make_net()
    net(DATA[0]).sum().backward()  # moves the running statistics, and leaves gradients
    net[1].bias.requires_grad_(False)
    net.train(training)
    net[3].train(not training)
    before = snapshot(net)
    posterior = fit(net, DATA, sampler=QUICK, particles=2, **in_groups(options))
    posterior.predict(DATA[0])
    assert_unchanged(before, net)


def test_global_random_state_is_left_alone():
    net = make_net()
    before = torch.get_rng_state()
    fit(net, DATA, sampler=QUICK, particles=2, start="prior").predict(DATA[0])
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("s", [0, 0.0])
def test_s_of_zero_is_the_anchor_and_costs_nothing(s):
    net = make_net()
    posterior = fit(net, DATA, s=s, particles=7, islands=3)
    anchor = torch.cat([p.detach().flatten() for p in net.parameters()])
    assert posterior.positions.shape == (1, 1, len(anchor))
    assert torch.equal(posterior.positions[0, 0], anchor)
    assert posterior.weights.tolist() == [[1.0]]
    assert (posterior.cost.epochs, posterior.cost.total_epochs) == (0, 0)
    expected = net.eval()(DATA[0]).softmax(-1).double()
    torch.testing.assert_close(posterior.predict(DATA[0]).probs, expected, rtol=1e-5, atol=1e-7)
    assert float(posterior.predict(DATA[0]).epistemic.detach().max()) < 1e-12


def test_s_of_zero_does_not_go_through_the_data():
    net = nn.Sequential(Counting(), nn.Linear(4, 3))
    Counting.seen = 0
    fit(net, tuple(part.repeat(10, *[1] * (part.ndim - 1)) for part in DATA), s=0)
    assert Counting.seen < 3 * EXAMPLES  # a few rows on which it is tried, of ten times as many


@pytest.mark.parametrize("start", ["anchor", "prior"])
def test_shapes_weights_and_accounts(start):
    posterior = fit(make_net(), DATA, sampler=QUICK, particles=4, islands=3, start=start)
    dim = 4 * 5 + 5 + 5 + 5 + 5 * 3 + 3
    assert posterior.positions.shape == (3, 4, dim)
    assert posterior.positions.dtype == torch.float32
    assert posterior.weights.dtype == posterior.log_evidence.dtype == torch.float64
    assert float(posterior.weights.sum()) == pytest.approx(1, abs=1e-12)
    assert posterior.island_ess == pytest.approx(3)
    assert [island.outcome for island in posterior.islands] == ["completed"] * 3
    assert [island.index for island in posterior.islands] == [0, 1, 2]
    # The first evaluation, and two for each of the three steps.
    assert [island.epochs for island in posterior.islands] == [7, 7, 7]
    assert posterior.cost.epochs == 7
    assert posterior.cost.total_epochs == 7 * 4 * 3
    assert posterior.cost.wall_seconds > 0
    assert posterior.settings["start"] == start
    assert posterior.settings["sampler_settings"]["steps"] == 3
    assert len(posterior.positions.flatten(0, 1).unique(dim=0)) == 12


def test_several_draws_stand_as_further_particles():
    sampler = HMC(steps=6, leapfrog=1, step_size=0.05, draws=3, warmup=0.5)
    posterior = fit(make_net(), DATA, sampler=sampler, particles=2, islands=2)
    assert posterior.positions.shape[:2] == (2, 6)
    assert float(posterior.weights.sum()) == pytest.approx(1)
    assert posterior.cost.total_epochs == posterior.cost.epochs * 2 * 2


def test_the_anchors_cost_is_read_from_its_history():
    net = make_net()
    net.history = SimpleNamespace(epochs=21)
    assert fit(net, DATA, s=0).cost.total_epochs == 21
    posterior = fit(net, DATA, sampler=QUICK, particles=2)
    assert posterior.cost.total_epochs == 7 * 2 + 21
    assert fit(net, DATA, s=0, compute=sbmc.Compute(anchor_epochs=5)).cost.anchor_epochs == 5


def test_s_is_a_tenth_unless_something_else_is_said():
    plain = fit(make_net(), DATA, sampler=QUICK, particles=2)
    tenth = fit(make_net(), DATA, s=0.1, sampler=QUICK, particles=2)
    assert torch.equal(plain.positions, tenth.positions)
    assert plain.settings == tenth.settings
    assert plain.settings["s"] == 0.1


def test_the_seed_decides_everything():
    first, again, other = (
        fit(make_net(), DATA, sampler=QUICK, particles=2, islands=2, seed=seed)
        for seed in (3, 3, 4)
    )
    assert torch.equal(first.positions, again.positions)
    assert not torch.equal(first.positions, other.positions)


def test_an_island_has_the_same_noise_whatever_their_number():
    posteriors = {
        islands: fit(
            make_net().double(), DATA, sampler=QUICK, particles=3, islands=islands, start="prior"
        )
        for islands in (1, 2, 5)
    }
    few, many = posteriors[2], posteriors[5]
    torch.testing.assert_close(few.positions, many.positions[:2], rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(posteriors[1].positions, many.positions[:1], rtol=1e-8, atol=1e-10)
    assert not torch.allclose(many.positions[0], many.positions[1])


def test_islands_are_folded_without_a_trace(monkeypatch):
    whole = fit(make_net().double(), DATA, sampler=QUICK, particles=3, islands=5)
    monkeypatch.setattr("sbmc.islands.job.FOLD_PARTICLES", 6)
    folded = fit(make_net().double(), DATA, sampler=QUICK, particles=3, islands=5)
    torch.testing.assert_close(whole.positions, folded.positions, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("options", [{"path": "vmap"}, {"path": "loop"}, {"chunk_size": 5}])
def test_paths_and_chunks_give_the_same_positions(options):
    net = make_net().double()
    whole = fit(net, DATA, sampler=QUICK, particles=3)
    other = fit(net, DATA, sampler=QUICK, particles=3, **in_groups(options))
    torch.testing.assert_close(other.positions, whole.positions, rtol=1e-8, atol=1e-10)
    assert other.settings["path"] == options.get("path", "fused")
    if "chunk_size" in options:
        assert other.settings["chunks"]["examples"] == 5


def start_positions(posterior_options):
    """Where the particles are after one step that is too short to go anywhere."""
    still = HMC(steps=1, leapfrog=1, step_size=1e-9, adapt=False, warmup=0.0)
    return fit(make_net().double(), DATA, sampler=still, **posterior_options).positions


def test_the_start_at_the_anchor_is_within_a_little_noise():
    anchor = fit(make_net().double(), DATA, s=0).positions[0, 0]
    for s in (0.2, 1.0):
        found = start_positions({"s": s, "particles": 50, "prior_variance": 4.0})
        spread = float((found - anchor).std())
        assert spread == pytest.approx(ANCHOR_NOISE * math.sqrt(4 * s), rel=0.05)


def test_the_start_at_the_prior_is_a_draw_from_it():
    found = start_positions({"s": 1.0, "particles": 50, "prior_variance": 4.0, "start": "prior"})
    assert float(found.std()) == pytest.approx(2.0, rel=0.05)


def test_particles_start_at_the_members_in_turn():
    members = [make_net() for _ in range(3)]
    for shift, member in enumerate(members):
        with torch.no_grad():
            member[0].bias += shift
    for start in (members, tuple(members), nn.ModuleList(members)):
        found = start_positions({"particles": 5, "islands": 2, "start": start})
        rows = [torch.cat([p.flatten() for p in m.parameters()]).detach() for m in members]
        expected = torch.stack([rows[i] for i in (0, 1, 2, 0, 1)]).double().expand(2, -1, -1)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_the_start_at_an_ensemble():
    ensemble = sbmc.train_ensemble(nn.Linear(4, 3), DATA, members=2, max_epochs=1)
    still = HMC(steps=1, leapfrog=1, step_size=1e-9, adapt=False, warmup=0.0)
    posterior = fit(nn.Linear(4, 3), DATA, sampler=still, particles=2, start=ensemble)
    torch.testing.assert_close(posterior.positions[0], ensemble.positions, rtol=0, atol=1e-5)
    assert posterior.settings["start"] == "members"


def test_double_precision_of_a_single_precision_model():
    posterior = fit(
        make_net(), DATA, sampler=QUICK, particles=2, compute=sbmc.Compute(dtype=torch.float64)
    )
    assert posterior.positions.dtype == torch.float64
    assert posterior.predict(DATA[0]).probs.shape == (EXAMPLES, 3)


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x, y):
        return torch.tanh(self.fc(x + 2 * y))


def test_several_inputs_and_all_forms_of_data():
    x, labels = DATA
    plain = fit(Sum(), ((x, x + 1), labels), sampler=QUICK, particles=2)
    torch.manual_seed(0)
    results = []
    for data in (
        ((x, x + 1), labels),
        ({"x": x, "y": x + 1}, labels),
        DataLoader(
            [{"x": a, "y": a + 1, "label": int(b)} for a, b in zip(x, labels, strict=True)],
            batch_size=5,
            shuffle=True,
        ),
    ):
        torch.manual_seed(0)
        posterior = fit(Sum(), data, sampler=QUICK, particles=2)
        results.append(posterior.positions)
    assert plain.settings["path"] == "fused"
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
    by_name = posterior.predict({"x": x, "y": x + 1}).probs
    assert torch.equal(by_name, posterior.predict((x, x + 1)).probs)


def test_a_data_set_a_loader_and_arrays_are_the_same_data():
    x, labels = DATA
    forms = [
        DATA,
        (x.numpy(), labels.numpy()),
        TensorDataset(x, labels),
        DataLoader(TensorDataset(x, labels), batch_size=5, shuffle=True),
    ]
    positions = [fit(make_net(), data, sampler=QUICK, particles=2).positions for data in forms]
    assert all(torch.equal(found, positions[0]) for found in positions)


def test_a_callable_likelihood_is_the_built_in_one_if_it_says_the_same():
    def log_softmax(outputs, targets):
        return outputs.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)

    net = make_net().double()
    ours = fit(net, DATA, sampler=QUICK, particles=3, likelihood=log_softmax)
    theirs = fit(net, DATA, sampler=QUICK, particles=3)
    torch.testing.assert_close(ours.positions, theirs.positions, rtol=1e-8, atol=1e-10)


def test_regression_against_the_exact_posterior():
    """Bayesian linear regression, whose posterior is known in closed form.

    With 400 particles, a mean is off by more than five standard errors in fewer than one run in a
    million; the seed is fixed besides.
    """
    noise = torch.Generator().manual_seed(4)
    x = torch.randn(30, 2, generator=noise, dtype=torch.float64)
    y = x @ torch.tensor([1.0, -2.0]).double() + 0.3 * torch.randn(
        30, generator=noise, dtype=torch.float64
    )
    net = nn.Linear(2, 1, bias=False).double()
    posterior = fit(
        net,
        (x, y),
        s=1.0,
        prior_variance=0.5,
        likelihood=Gaussian(noise_variance=0.09),
        sampler=HMC(steps=30, step_size=0.1),
        particles=400,
    )
    covariance = torch.linalg.inv(x.T @ x / 0.09 + torch.eye(2) / 0.5)
    mean = covariance @ x.T @ y / 0.09
    test = torch.randn(5, 2, generator=noise, dtype=torch.float64)
    prediction = posterior.predict(test)
    spread = ((test @ covariance) * test).sum(-1)
    error = (prediction.mean.squeeze(-1) - test @ mean).abs() / (spread / 400).sqrt()
    assert float(error.max()) < 5
    assert prediction.mean.shape == (5, 1)
    assert torch.allclose(prediction.aleatoric, torch.tensor(0.09).double())
    # The variance of 400 draws has a relative standard error of sqrt(2 / 400), 7 per cent.
    ratio = prediction.epistemic.squeeze(-1) / spread
    assert ((ratio - 1).abs() < 5 * math.sqrt(2 / 400)).all()
    torch.testing.assert_close(prediction.total, prediction.aleatoric + prediction.epistemic)


def test_the_callers_gradient_mode_does_not_matter():
    with torch.no_grad():
        quiet = fit(make_net(), DATA, sampler=QUICK, particles=2)
    assert torch.equal(quiet.positions, fit(make_net(), DATA, sampler=QUICK, particles=2).positions)


# Failures in mid-run


def cliff(outputs, targets):
    """Flat, and NaN wherever the outputs are far from zero."""
    wall = torch.where(outputs.abs().amax(-1) > 8, torch.nan, 0.0)
    return outputs.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1) + wall


def strict(outputs, targets):
    """A likelihood that answers NaN with an error, as torch.distributions does."""
    return torch.distributions.Categorical(
        logits=outputs + 0 * cliff(outputs, targets)[:, None]
    ).log_prob(targets)


WIDE = {
    "s": 1.0,
    "prior_variance": 1.0,
    "start": "prior",
    "particles": 1,
    "islands": 6,
    "sampler": HMC(steps=2, leapfrog=1, step_size=1e-3, adapt=False),
}


@pytest.mark.parametrize("likelihood", [cliff, strict])
def test_an_island_that_fails_is_reported_and_the_others_are_kept(likelihood):
    net = nn.Linear(4, 3)
    with pytest.warns(RuntimeWarning, match=r"\d of 6 islands failed and are left out \(island"):
        posterior = fit(net, DATA, likelihood=likelihood, **WIDE)
    outcomes = [island.outcome for island in posterior.islands]
    assert sorted(set(outcomes)) == ["completed", "failed"]
    kept = outcomes.count("completed")
    assert posterior.positions.shape[0] == posterior.weights.shape[0] == kept
    assert float(posterior.weights.sum()) == pytest.approx(1)
    assert torch.isfinite(posterior.positions).all()
    for island in posterior.islands:
        assert bool(island.message) == (island.outcome == "failed")
    # The islands that go on are those that would have gone on alone.
    from sbmc.randomness import Stream, generator

    starts = [torch.randn(1, 15, generator=generator(0, Stream.ISLANDS, i)) for i in range(6)]
    far = [(DATA[0] @ z[0, :12].view(3, 4).T + z[0, 12:]).abs().max() > 8 for z in starts]
    assert [outcome == "failed" for outcome in outcomes] == [bool(value) for value in far]
    good = [z for z, bad in zip(starts, far, strict=True) if not bad]
    torch.testing.assert_close(posterior.positions, torch.stack(good), rtol=0, atol=0.05)


def test_throw_raises_where_an_island_fails():
    with pytest.raises(RuntimeError, match=r"\d of 6 islands failed \(island \d: "):
        fit(nn.Linear(4, 3), DATA, likelihood=cliff, compute=sbmc.Compute(throw=True), **WIDE)


def test_members_with_huge_weights_fail_in_words():
    huge = make_net()
    with torch.no_grad():
        huge[4].weight.fill_(3e38)
    with pytest.raises(RuntimeError, match=r"1 of 1 islands failed \(island 0: log likelihood or"):
        fit(make_net(), DATA, sampler=QUICK, particles=2, start=[huge])


def test_a_mistake_in_the_likelihood_is_told_with_its_message():
    calls = []

    def breaks(outputs, targets):
        calls.append(1)
        if len(calls) > 12:  # the first ones are trials
            raise ValueError("out of luck")
        return outputs.sum(-1)

    with pytest.raises(RuntimeError, match=r"1 of 1 islands failed .*ValueError: out of luck"):
        fit(nn.Linear(4, 3), DATA, likelihood=breaks, sampler=QUICK, particles=2)


# Sequential Monte Carlo

# A prior this narrow around the anchor leaves islands of much the same evidence.
NARROW = {"s": 0.05, "particles": 8, "islands": 3, "seed": 5}


def smc_fit(sampler=None, **options):
    arguments = {"sampler": sampler or SMC(mutations=4), **NARROW, **options}
    return fit(make_net().double(), DATA, **in_groups(arguments))


def test_smc_is_combined_by_evidence_unless_told_otherwise():
    posterior = smc_fit()
    equal = smc_fit(island_weights="equal")
    assert posterior.positions.shape[:2] == (3, 8)
    assert torch.equal(posterior.positions, equal.positions)
    assert (posterior.weighting, equal.weighting) == ("evidence", "equal")
    assert posterior.settings["island_weights"] == "evidence"
    assert posterior.settings["start"] == "prior"
    expected = posterior.log_evidence.softmax(0)
    torch.testing.assert_close(posterior.weights.sum(1), expected)
    torch.testing.assert_close(equal.weights, torch.full((3, 8), 1 / 24, dtype=torch.float64))
    assert torch.equal(posterior.reweighted("equal").weights, equal.weights)
    assert posterior.island_ess < equal.island_ess == pytest.approx(3)
    assert posterior.evidence == equal.evidence
    assert posterior.evidence.standard_error > 0
    logs = [island.log_evidence for island in posterior.islands]
    assert logs == posterior.log_evidence.tolist()
    assert len(set(logs)) == 3


def test_smc_says_what_it_did_at_each_temperature():
    posterior = smc_fit()
    for island in posterior.islands:
        heats = [each["temperature"] for each in island.temperatures]
        assert heats == sorted(set(heats))
        assert heats[-1] == 1.0
        assert island.steps == len(heats)
        # The first evaluation, the moves, and the search for a step size.
        made = sum(each["mutations"] for each in island.temperatures)
        assert 1 + made < island.epochs <= 1 + made + 12
        assert island.acceptance == island.temperatures[-1]["acceptance"]
    spent = [island.epochs for island in posterior.islands]
    assert posterior.cost.epochs == pytest.approx(sum(spent) / 3)
    assert posterior.cost.total_epochs == pytest.approx(sum(spent) * 8)
    assert posterior.cost.forward_epochs == 0


def test_smc_islands_are_the_same_whatever_their_number():
    many, few = smc_fit(), smc_fit(islands=2)
    torch.testing.assert_close(many.first(2).positions, few.positions, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(many.first(2).weights, few.weights, rtol=1e-7, atol=1e-9)
    assert many.first(2).evidence.log == pytest.approx(few.evidence.log)
    assert many.first(2).cost.total_epochs == few.cost.total_epochs


@pytest.mark.parametrize("move", [MALA(), HMC(), PCN()])
def test_any_kernel_moves_smc(move):
    posterior = smc_fit(SMC(mutations=3, move=move))
    described = posterior.settings["sampler_settings"]["move"]
    assert described["name"] == type(move).__name__
    without_gradient = isinstance(move, PCN)
    assert (posterior.cost.epochs == 0) == without_gradient
    assert (posterior.cost.forward_epochs > 0) == without_gradient


def test_waste_free_smc_gives_all_the_states():
    posterior = smc_fit(SMC(mutations=4, waste_free=True))
    assert posterior.positions.shape[:2] == (3, 32)
    assert float(posterior.weights.sum()) == pytest.approx(1)
    # Four draws of the prior for each of the chains, then three moves at each temperature.
    for island in posterior.islands:
        assert 4 + 3 * island.steps < island.epochs <= 4 + 3 * island.steps + 12
    assert posterior.cost.total_epochs == pytest.approx(posterior.cost.epochs * 8 * 3)


def test_a_pilot_is_frozen_paid_for_and_shared_by_all_islands():
    posterior = smc_fit(SMC(mutations=3, pilot=True))
    frozen = posterior.settings["frozen"]
    for island in posterior.islands:
        assert [each["temperature"] for each in island.temperatures] == frozen["temperatures"]
        assert [each["step_size"] for each in island.temperatures] == frozen["step_sizes"]
        assert island.epochs == 1 + 3 * len(frozen["temperatures"])
    pilot = posterior.settings["pilot_epochs"]
    assert pilot > posterior.islands[0].epochs  # it also searched for a step size
    spent = sum(island.epochs for island in posterior.islands) + pilot
    assert posterior.cost.total_epochs == spent * 8
    assert posterior.first(1).cost.total_epochs == (posterior.islands[0].epochs + pilot) * 8


def test_a_population_that_has_collapsed_is_told_in_words():
    still = SMC(mutations=1, temperatures=(1.0,), move=HMC(leapfrog=1, step_size=50.0))
    words = (
        r"The population of 1 of 1 islands has collapsed \(island 0: only \d of its 8 particles "
        r"differ, the moves having been rejected\), so that epistemic uncertainty will be too "
        r"small\."
    )
    with pytest.warns(RuntimeWarning, match=words):
        posterior = smc_fit(still, s=1.0, islands=1)
    assert "only" in posterior.islands[0].collapsed


def test_an_evidence_that_leaves_few_islands_is_told_in_words():
    # With two particles and one temperature, the evidence is all chance. They are never resampled:
    # the populations do not collapse.
    rough = SMC(mutations=2, temperatures=(1.0,), resample_below=0.01)
    options = {"s": 1.0, "particles": 2, "islands": 6, "prior_variance": 4.0}
    words = r"The evidence leaves 1\.\d\d effective islands of 6 \(`posterior\.island_ess`\)"
    with pytest.warns(RuntimeWarning, match=words):
        posterior = smc_fit(rough, **options)
    assert posterior.island_ess < 2
    assert smc_fit(rough, **options, island_weights="equal").island_ess == pytest.approx(6)


def test_islands_of_smc_that_fail_are_left_out_with_their_outcome():
    # Random walks in the wide prior: the likelihood is not a number for some first draws.
    options = {**WIDE, "sampler": SMC(mutations=2), "likelihood": cliff, "particles": 1}
    with pytest.warns(RuntimeWarning, match=r"\d of 6 islands failed and are left out \(island"):
        posterior = fit(
            nn.Linear(4, 3), DATA, compute=sbmc.Compute(island_weights="equal"), **options
        )
    outcomes = [island.outcome for island in posterior.islands]
    assert set(outcomes) == {"completed", "non-finite"}
    kept = outcomes.count("completed")
    assert posterior.positions.shape[0] == posterior.log_evidence.shape[0] == kept
    completed = [i.log_evidence for i in posterior.islands if i.outcome == "completed"]
    assert posterior.log_evidence.tolist() == completed
    for island in posterior.islands:
        assert ("not finite for 1 of 1 particles" in island.message) == (
            island.outcome == "non-finite"
        )


# Bad input


def spoiled(value):
    net = make_net()
    with torch.no_grad():
        net[0].weight[1, 1] = value
    return net


def nan_data():
    inputs = DATA[0].clone()
    inputs[3, 2] = torch.nan
    return inputs, DATA[1]


class Augmented(torch.utils.data.Dataset):
    def __len__(self):
        return EXAMPLES

    def __getitem__(self, index):
        return DATA[0][index] + torch.rand(1), int(DATA[1][index])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"s": -0.1}, "`s` must be in [0, 1], but got -0.1."),
        ({"s": 1.5}, "`s` must be in [0, 1], but got 1.5."),
        ({"s": math.nan}, "`s` must be in [0, 1], but got nan."),
        ({"s": "0.1"}, "`s` must be in [0, 1] or \"auto\", but got '0.1'."),
        ({"s": True}, '`s` must be in [0, 1] or "auto", but got True.'),
        ({"prior_variance": 0}, "`prior_variance` must be positive and finite, but got 0.0."),
        ({"prior_variance": -1}, "`prior_variance` must be positive and finite, but got -1.0."),
        ({"s": 0, "prior_variance": -1}, "`prior_variance` must be positive and finite"),
        ({"particles": 0}, "`particles` must be a positive integer, but got 0."),
        ({"particles": 2.0}, "`particles` must be a positive integer, but got 2.0."),
        ({"islands": -1}, "`islands` must be a positive integer, but got -1."),
        ({"islands": True}, "`islands` must be a positive integer, but got True."),
        ({"chunk_size": 0}, "`chunk_size` must be a positive integer or None, but got 0."),
        ({"seed": -1}, "`seed` must be an integer from 0 to 2**128 - 1, but got -1."),
        ({"s": 0, "seed": 0.5}, "`seed` must be an integer from 0 to 2**128 - 1, but got 0.5."),
        ({"path": "fusd"}, "but got 'fusd'. Did you mean 'fused'?"),
        (
            {"sampler": "hmc"},
            "`sampler` must be settings such as sbmc.HMC(...) or sbmc.SMC(...), b",
        ),
        ({"sampler": HMC}, "settings such as sbmc.HMC(...) or sbmc.SMC(...), but got <class"),
        ({"dtype": torch.int64}, "`dtype` must be a floating-point torch.dtype, but got torch.in"),
        ({"dtype": "float64"}, "`dtype` must be a floating-point torch.dtype, but got 'float64'."),
        ({"anchor_epochs": -1}, "`anchor_epochs` must be a non-negative number, but got -1."),
        ({"model": "net"}, "`model` must be a torch.nn.Module, but got 'net'."),
        (
            {"model": spoiled(torch.nan)},
            "must be of finite weights, but got NaN or infinity in 0.w",
        ),
        ({"model": spoiled(torch.inf)}, "`model` must be of finite weights"),
        ({"model": nn.Tanh()}, "`model` must be a module with trainable parameters, but got none"),
        (
            {"model": make_net().requires_grad_(False)},
            "`model` must be a module with trainable parameters, but got none that require grad.",
        ),
        ({"parameters": "nothing"}, "`parameters` must be a selection that matches a trainable"),
        ({"data": nan_data()}, "`data inputs` must be finite, but got 1 value that is NaN or inf"),
        ({"data": (DATA[0] * torch.inf, DATA[1])}, "`data inputs` must be finite, but got 48"),
        ({"data": (DATA[0][:0], DATA[1][:0])}, "`data inputs` must be non-empty, but got 0 examp"),
        ({"data": (DATA[0], DATA[1][:5])}, "`data targets` must be as many as the inputs (12), b"),
        ({"data": (DATA[0], DATA[1] + 1)}, "class labels below the model's 3 outputs, but got l"),
        ({"data": (DATA[0], DATA[1] - 1)}, "`targets` must be class labels of at least 0, but"),
        ({"data": (DATA[0], DATA[1].float())}, '"categorical" takes integer targets of shape (exa'),
        (
            {"data": (DATA[0], DATA[1].bool())},
            "`likelihood` must be given for targets of shape (12",
        ),
        ({"data": (DATA[0], DATA[0])}, "`likelihood` must be given for targets of shape (12, 4)"),
        (
            {"data": (DATA[0], DATA[1].float()), "likelihood": "categorical"},
            "`targets` must be integer class labels, but got dtype torch.float32",
        ),
        (
            {"data": (DATA[0], DATA[1][:, None])},
            'with outputs of shape (examples, 3), but got None. "categorical" takes integer '
            "targets of shape (examples,); targets[:, 0] makes labels of one column.",
        ),
        ({"data": Augmented()}, "`data` must be the same each time it is read"),
        ({"data": DATA[0]}, "`data` must be a pair (inputs, targets), a map-style data set or a D"),
        ({"model": nn.Linear(4, 2)}, "must be class labels below the model's 2 outputs, but got"),
        (
            {"model": nn.Linear(4, 1)},
            '"poisson" or "negative-binomial" for counts, "gaussian" for n',
        ),
        ({"likelihood": "categoricle"}, "Did you mean 'categorical'?"),
        ({"likelihood": Gaussian(noise_variance=1.0)}, "`targets` must be of shape (examples, 3)"),
        ({"likelihood": lambda o, t: o.sum()}, "must be a function that returns one value per ex"),
        ({"start": "anhcor"}, "but got 'anhcor'. Did you mean 'anchor'?"),
        ({"start": 3}, "`start` must be 'anchor', 'prior', an ensemble or a list of modules, but"),
        ({"start": []}, "an ensemble or a list of modules, but got no modules."),
        ({"start": make_net()}, "an ensemble or a list of modules, but got a module of type Seq"),
        ({"start": [make_net(), nn.Linear(4, 3)]}, "of `model`, but got another module at 1."),
        ({"start": [spoiled(torch.nan)]}, "`start` must be modules of finite weights, but got"),
        (
            {"sampler": SMC(), "start": "anchor"},
            "`start` must be 'prior' for SMC, but got 'anchor'",
        ),
        ({"sampler": SMC(), "start": [make_net()]}, "must be 'prior' for SMC, but got members."),
        (
            {"island_weights": "evidence"},
            "`island_weights` must be 'equal' for AutoHMC, which estimates no evidence, but got",
        ),
        ({"island_weights": "equals"}, "but got 'equals'. Did you mean 'equal'?"),
        ({"sampler": SMC(), "island_weights": None, "start": 3}, "'prior' for SMC, but got membe"),
        ({"alpha": lambda s: math.nan}, "`alpha` must be a rule with finite values, but got nan."),
        ({"covariance": lambda s, v: -v}, "`covariance` must be a rule with positive, finite va"),
    ],
)
def test_bad_input_is_refused_before_any_computing(changes, words, monkeypatch):
    def computed(*_, **__):
        raise AssertionError("the data were gone through before the argument was refused")

    monkeypatch.setattr("sbmc.target.engine.LikelihoodEngine.__call__", computed)
    monkeypatch.setattr("sbmc.target.engine.LikelihoodEngine.__init__", computed)
    arguments = {"model": make_net(), "data": DATA, "particles": 2, **changes}
    with pytest.raises(BadInput, match=re.escape(words)):
        fit(arguments.pop("model"), arguments.pop("data"), **in_groups(arguments))


@pytest.mark.parametrize(
    ("changes", "name"), [({"steps": 0}, "steps"), ({"steps": -3}, "steps"), ({"epochs": 0}, "ep")]
)
def test_steps_are_refused_with_the_settings(changes, name):
    with pytest.raises(BadInput, match=f"`{name}"):
        HMC(**changes)


def test_data_are_checked_though_s_is_zero():
    with pytest.raises(BadInput, match="class labels below"):
        fit(make_net(), (DATA[0], DATA[1] + 1), s=0)


def test_integers_of_other_libraries_are_integers():
    posterior = fit(
        make_net(),
        DATA,
        s=np.float32(0.25),
        sampler=QUICK,
        particles=np.int64(2),
        islands=np.int32(2),
        seed=np.int64(3),
        compute=sbmc.Compute(chunk_size=np.int64(5)),
    )
    same = fit(
        make_net(),
        DATA,
        s=0.25,
        sampler=QUICK,
        particles=2,
        islands=2,
        seed=3,
        compute=sbmc.Compute(chunk_size=5),
    )
    assert torch.equal(posterior.positions, same.positions)
    assert {type(posterior.settings[name]) for name in ("particles", "islands", "seed")} == {int}


def test_the_posterior_does_not_move_with_the_model():
    net = make_net()
    posterior = fit(net, DATA, sampler=QUICK, particles=2, parameters="last")
    before = posterior.predict(DATA[0]).probs
    copied = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    posterior._evaluator = None
    assert torch.equal(posterior.predict(DATA[0]).probs, before)
    assert not torch.equal(copied[0].weight, net[0].weight)
