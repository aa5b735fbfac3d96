"""After two halves of the data the posterior is that of all data: mean, covariance and evidence.

Closed forms of a linear regression; every check of one run raises a false alarm with probability
1e-4 if the seed were drawn anew. Planted bugs are caught by the same checks.
"""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch
from checks import averages_fit, mean_and_covariance_fit
from every_sampler import every_run, small
from samplers.test_posterior_of_every_sampler import budget_of, regression_moments
from targets import conjugate_regression
from torch import nn

import sbmc
from sbmc import BadInput
from sbmc.baselines import swag
from sbmc.fitting import updating
from sbmc.posterior.recipe import Recipe
from sbmc.samplers.smc import data_tempering
from sbmc.samplers.smc.data_tempering import DataTempering, GrowingState

S = 0.25
PROBLEM = conjugate_regression()
EVIDENCE = sbmc.SMC(mutations=5, move=sbmc.HMC(), ess=0.7)


def rows(*parts):
    """Some rows of the regression, by slices."""
    index = torch.cat([torch.arange(12)[part] for part in parts])
    return PROBLEM.inputs[index], PROBLEM.targets[index]


FIRST, SECOND = slice(0, 6), slice(6, 12)


def fitted(sampler, part=FIRST, particles=400, **options):
    options = {"s": S, "start": "prior", "seed": 1, "progress": False, **options}
    return sbmc.fit(
        PROBLEM.model,
        rows(part),
        prior_variance=PROBLEM.prior_variance,
        likelihood=sbmc.Gaussian(noise_variance=PROBLEM.noise_variance),
        sampler=sampler,
        particles=particles,
        **options,
    )


def draws(posterior, count=400):
    """Independent states; of a population with weights, some that are drawn by weight."""
    states, weights = posterior.positions.flatten(0, 1), posterior.weights.flatten()
    if posterior.weighting == "equal":
        return states
    return states[torch.multinomial(weights, count, generator=torch.Generator().manual_seed(1))]


def is_right(posterior, s=S):
    return mean_and_covariance_fit(draws(posterior), *PROBLEM.posterior(s))


@pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")
@every_run
def test_every_sampler_ends_at_the_posterior_of_all_data(sampler):
    plan = budget_of(sampler)
    settings = sampler(**plan.settings)
    evidence = settings.default_weights == "evidence"
    particles = 4 * plan.particles if evidence else plan.particles
    if sampler.__name__ not in sbmc.samplers.__all__:
        with pytest.raises(BadInput, match=r"sampler.*none of sbmc's samplers"):
            fitted(small(sampler), particles=4).update(rows(SECOND), progress=False)
    updated = fitted(settings, particles=particles).update(
        rows(SECOND), sampler=settings, progress=False
    )
    states = draws(updated, plan.particles)
    assert mean_and_covariance_fit(states, *regression_moments(settings, plan.stated))


def evidences(part=FIRST, more=(SECOND,), islands=12, **options):
    """Relative errors of the islands' evidence of all data: 1 is the closed form."""
    posterior = fitted(EVIDENCE, part, particles=100, islands=islands, **options)
    for each in more:
        posterior = posterior.update(rows(each), progress=False)
    return (posterior.log_evidence - PROBLEM.log_evidence(S)).exp(), posterior


@pytest.mark.filterwarnings("ignore:The evidence leaves")
@pytest.mark.parametrize(
    ("part", "more"),
    [
        (FIRST, (SECOND,)),
        (SECOND, (FIRST,)),
        (slice(0, 11), (slice(11, 12),)),
        (slice(0, 3), (slice(3, 6), slice(6, 8), slice(8, 12))),
    ],
    ids=["halves", "other way round", "one row", "three updates"],
)
def test_the_evidence_of_smc_is_that_of_all_data(part, more):
    relative, posterior = evidences(part, more)
    # Temperatures adapt, so that there is a bias, of a few per cent here.
    error = float(relative.std() / len(relative) ** 0.5)
    assert abs(float(relative.mean()) - 1) < 4 * error + 0.05
    assert posterior.evidence.standard_error == pytest.approx(error, rel=0.3)
    assert is_right(posterior)
    assert [each["rows"] for each in posterior.settings["updates"]] == [
        each.stop - each.start for each in more
    ]


def test_an_update_of_smc_with_a_fixed_schedule_is_unbiased(monkeypatch):
    """With temperatures and step sizes that are given, the mean over islands is the closed form."""
    posterior = fitted(
        sbmc.SMC(mutations=3, temperatures=(0.1, 0.4, 1.0), step_sizes=(0.3, 0.3, 0.3)),
        particles=40,
        islands=200,
        compute=sbmc.Compute(island_weights="equal"),
    )
    fixed = {"temperatures": (0.3, 1.0), "step_sizes": (0.2, 0.2)}
    made = updating.update_sampler
    monkeypatch.setattr(
        updating,
        "update_sampler",
        lambda *arguments: dataclasses.replace(made(*arguments), **fixed),
    )
    updated = posterior.update(rows(SECOND), progress=False)
    relative = (updated.log_evidence - PROBLEM.log_evidence(S)).exp()
    assert averages_fit(relative.unsqueeze(1), torch.ones(1))


def planted(monkeypatch, bug):
    if bug == "new data counted twice":
        whole = data_tempering.GrowingTarget.state

        def twice(self, position, with_gradient):
            state = whole(self, position, with_gradient)
            return state._replace(
                log_likelihood=2 * state.log_likelihood, gradient=2 * state.gradient
            )

        monkeypatch.setattr(data_tempering.GrowingTarget, "state", twice)
    elif bug == "old data forgotten in the moves":
        whole = data_tempering._Tempered.together

        def forgetful(self, state):
            nothing = {"old_log_likelihood": 0 * state.old_log_likelihood}
            nothing["old_gradient"] = 0 * state.old_gradient
            return whole(self, state._replace(**nothing))

        monkeypatch.setattr(data_tempering._Tempered, "together", forgetful)
    else:
        monkeypatch.setattr(updating, "_with_evidence", lambda island, before: island)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "bug", ["new data counted twice", "old data forgotten in the moves", "evidence not added"]
)
def test_planted_bugs_are_caught(monkeypatch, bug):
    planted(monkeypatch, bug)
    relative, posterior = evidences()
    error = float(relative.std() / len(relative) ** 0.5)
    evidence = abs(float(relative.mean()) - 1) < 4 * error + 0.05
    assert not (evidence and is_right(posterior))
    if bug == "evidence not added":
        assert not evidence
    else:
        assert not is_right(posterior)


def test_old_data_forgotten_by_chains_are_caught(monkeypatch):
    monkeypatch.setattr(updating, "concatenate", lambda old, new: new)
    sampler = sbmc.HMC(steps=20)
    assert not is_right(fitted(sampler).update(rows(SECOND), sampler=sampler, progress=False))


def test_chains_take_half_of_their_steps_each_time():
    posterior = fitted(sbmc.HMC(steps=60), slice(0, 4))
    for part in (slice(4, 8), slice(8, 12)):
        posterior = posterior.update(rows(part), progress=False)
        assert posterior.settings["sampler_settings"]["steps"] == 30
        assert {report.steps for report in posterior.islands} == {30}
    assert is_right(posterior)


def test_several_draws_go_on_from_the_last():
    posterior = fitted(sbmc.HMC(steps=20, draws=2, thinning=3), particles=5)
    found = {}
    job = updating.UpdateJob

    class Seen(job):
        def begin(self, island, rng):
            found["begin"] = super().begin(island, rng)
            return found["begin"]

    updating.UpdateJob = Seen
    try:
        updated = posterior.update(rows(SECOND), progress=False)
    finally:
        updating.UpdateJob = job
    last = posterior.priors[0].to_whitened(posterior.positions[0, -5:])
    torch.testing.assert_close(found["begin"], last)
    assert updated.positions.shape == posterior.positions.shape


@pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")
def test_it_is_deterministic_and_its_noise_is_its_own():
    posterior = fitted(sbmc.HMC(steps=4, step_size=0.1, adapt=False), particles=3, islands=2)
    one, same, other = (
        posterior.update(rows(SECOND), seed=seed, progress=False) for seed in (5, 5, 6)
    )
    assert torch.equal(one.positions, same.positions)
    assert not torch.equal(one.positions, other.positions)
    # With the seed of the fit the noise is still another: else chains would repeat their moves.
    again = posterior.update(rows(SECOND), progress=False)
    assert again.settings["seed"] == posterior.settings["seed"]
    drawn = {job.noise_of(0).initial_seed() for job in (plain_job(), update_job(1), update_job(2))}
    assert len(drawn) == 3


def plain_job():
    return updating.Job(None, None, [None], None, 1, seed=7)


def update_job(number):
    return updating.UpdateJob(None, None, [None], None, 1, seed=7, update=number)


@pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")
@pytest.mark.parametrize("sampler", [sbmc.HMC(steps=5), sbmc.SMC(mutations=2)], ids=["HMC", "SMC"])
def test_a_loaded_posterior_needs_its_data_and_gives_the_same_bits(sampler, tmp_path):
    posterior = fitted(sampler, particles=20)
    posterior.save(tmp_path / "a.sbmc")
    loaded = sbmc.load(tmp_path / "a.sbmc", PROBLEM.model)
    with pytest.raises(BadInput, match=r"data.*update\(new_data, data=old_data\)"):
        loaded.update(rows(SECOND))
    with pytest.raises(BadInput, match="data that the posterior was fitted to"):
        loaded.update(rows(SECOND), data=rows(SECOND))
    loaded.recipe = Recipe({"kind": "reference"}, {"kind": "arrays", "rows": 6})
    updated = loaded.update(rows(SECOND), data=rows(FIRST), progress=False)
    assert updated.recipe.data == {"kind": "arrays", "rows": 12}
    assert loaded.recipe.data["rows"] == 6
    updated.recipe = None
    expected = posterior.update(rows(SECOND), progress=False)
    assert torch.equal(updated.positions, expected.positions)
    assert torch.equal(updated.log_evidence, expected.log_evidence)
    # What an update gives is saved, loaded and updated as any other posterior.
    updated.save(tmp_path / "b.sbmc")
    again = sbmc.load(tmp_path / "b.sbmc", PROBLEM.model)
    assert torch.equal(again.predict(PROBLEM.inputs).mean, updated.predict(PROBLEM.inputs).mean)
    twice = again.update(rows(FIRST), data=rows(FIRST, SECOND), progress=False)
    assert [each["before"] for each in twice.settings["updates"]] == [6, 12]
    assert len(twice.training_data[1]) == 18


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sampler", [sbmc.HMC(steps=6), sbmc.SMC(mutations=2)], ids=["HMC", "SMC"])
def test_checkpoints_give_the_same_bits(sampler, tmp_path):
    posterior = fitted(sampler, particles=8, islands=2)
    alone = posterior.update(rows(SECOND), progress=False, compute=sbmc.Compute(path="loop"))
    compute = sbmc.Compute(path="loop", checkpoint=tmp_path / "run")
    first = posterior.update(rows(SECOND), progress=False, compute=compute)
    resumed = posterior.update(rows(SECOND), progress=False, compute=compute)
    assert torch.equal(first.positions, alone.positions)
    assert torch.equal(resumed.positions, alone.positions)
    with pytest.raises(BadInput, match="checkpoint"):
        posterior.update(rows(slice(6, 9)), progress=False, compute=compute)


@pytest.mark.filterwarnings("ignore")
def test_other_processes_give_the_same_bits():
    posterior = fitted(sbmc.SMC(mutations=2), particles=8, islands=2)
    one, other = (
        posterior.update(rows(SECOND), progress=False, compute=sbmc.Compute(executor=executor))
        for executor in (sbmc.InProcess(fold=1), sbmc.Processes(workers=1))
    )
    assert torch.equal(one.positions, other.positions)
    assert torch.equal(one.log_evidence, other.log_evidence)


@pytest.mark.filterwarnings("ignore")
def test_islands_that_were_weighted_and_waste_free_smc():
    for sampler in (
        sbmc.SMC(mutations=4, resample_below=0.5, move=sbmc.HMC()),
        sbmc.SMC(mutations=4, waste_free=True, move=sbmc.HMC()),
        sbmc.SMC(mutations=4, pilot=True, move=sbmc.MALA()),
    ):
        posterior = fitted(sampler, particles=500, islands=2)
        updated = posterior.update(rows(SECOND), progress=False)
        assert updated.positions.shape == posterior.positions.shape
        assert is_right(updated)


def test_each_anchor_keeps_its_prior():
    other = conjugate_regression().model
    with torch.no_grad():
        other.weight.mul_(-1)
    posterior = fitted(sbmc.HMC(steps=30), islands=2, anchors=[PROBLEM.model, other])
    updated = posterior.update(rows(SECOND), progress=False)
    for before, after in zip(posterior.priors, updated.priors, strict=True):
        assert before is after
    mean, covariance = PROBLEM.posterior(S)
    assert mean_and_covariance_fit(updated.positions[0], mean, covariance)
    assert not mean_and_covariance_fit(updated.positions[1], mean, covariance)


def test_parts_of_one_run_that_were_merged_are_updated():
    parts = [
        fitted(sbmc.HMC(steps=20), particles=200, compute=sbmc.Compute(first_island=first))
        for first in (0, 1)
    ]
    merged = sbmc.merge(parts)
    sampler = sbmc.HMC(steps=20)
    updated = merged.update(rows(SECOND), data=rows(FIRST), sampler=sampler, progress=False)
    assert is_right(updated)


def test_learned_noise_keeps_its_prior():
    posterior = sbmc.fit(
        PROBLEM.model, rows(FIRST), s=1.0, sampler=sbmc.HMC(steps=10), progress=False
    )
    updated = posterior.update(rows(SECOND), progress=False)
    assert updated.priors[0] is posterior.priors[0]
    assert updated.positions.shape[-1] == 4


def test_a_chain_that_did_not_move_is_said():
    posterior = fitted(sbmc.HMC(steps=20), particles=20)
    stuck = sbmc.HMC(steps=3, step_size=1e-6, adapt=False)
    with pytest.warns(sbmc.HealthWarning):
        updated = posterior.update(rows(SECOND), sampler=stuck, progress=False)
    assert updated.health.ok is False


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


X = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
SHORT = {"s": 0.1, "sampler": sbmc.HMC(steps=4), "particles": 3, "progress": False}
NEW = X[:4], Y[:4]


@pytest.fixture(scope="module")
def classes():
    return sbmc.fit(net(), (X, Y), **SHORT)


def refused_posteriors(classes, kind):
    if kind == "mixture":
        options = {"validation": (X[20:], Y[20:]), "budget": 0.5, "progress": False}
        return sbmc.fit(net(), (X[:20], Y[:20]), **options)
    if kind == "thinned":
        return classes.thin(2)
    if kind == "ensemble":
        options = {"members": 2, "max_epochs": 1, "progress": False}
        return sbmc.train_ensemble(net(), (X, Y), **options).posterior()
    if kind == "baseline":
        return swag(net(), (X, Y), epochs=4, warmup_epochs=1, learning_rate=0.01, progress=False)
    if kind == "s = 0":
        return sbmc.fit(net(), (X, Y), s=0.0, progress=False)
    if kind == "weighted rows":
        return sbmc.fit(net(), (X, Y), weights=torch.ones(30), **SHORT)
    if kind == "units of a table":
        estimator = sbmc.SBMCClassifier(budget=0.1, hidden_layers=(3,), validation_fraction=0)
        return estimator.fit(X.numpy(), Y.numpy()).posterior_
    options = {**SHORT, "s": None, "prior": sbmc.Prior(split=0.5)}
    return sbmc.fit(net(), (X, Y), **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind",
    [
        *("mixture", "thinned", "ensemble", "baseline", "s = 0", "weighted rows"),
        *("units of a table", "split"),
    ],
)
def test_what_would_not_be_sound_is_refused_in_words(classes, kind):
    posterior = refused_posteriors(classes, kind)
    with pytest.raises(BadInput, match=r"posterior.*(Fit|Train)") as caught:
        posterior.update(NEW, data=(X, Y))
    assert re.search(r"\bagain\b|Train the network", str(caught.value))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"new_data": (X[:, :2], Y)}, "new_data"),
        ({"new_data": (X, Y + 5)}, "0 to 1|classes|targets"),
        ({"new_data": (X, X[:, 0])}, "new_data.*dtype"),
        ({"new_data": (X, torch.stack([Y, Y], 1))}, "new_data.*shape"),
        ({"new_data": (X[:0], Y[:0])}, "new_data"),
        ({"sampler": sbmc.SMC()}, "sampler.*SMC"),
        ({"sampler": 3}, "sampler"),
        ({"seed": -1}, "seed"),
        ({"compute": sbmc.Compute(dtype=torch.float64)}, "compute.*dtype"),
        ({"compute": "here"}, "compute"),
        ({"data": (X[:20], Y[:20])}, "data that the posterior was fitted to"),
    ],
)
def test_wrong_arguments_are_refused(classes, arguments, match):
    with pytest.raises(BadInput, match=match):
        classes.update(**{"new_data": NEW, "progress": False, **arguments})


@pytest.mark.filterwarnings("ignore")
def test_rounded_particles_are_refused_for_smc():
    posterior = fitted(
        sbmc.SMC(mutations=2), particles=9, compute=sbmc.Compute(store_dtype=torch.float32)
    )
    with pytest.raises(BadInput, match="rounded"):
        posterior.update(rows(SECOND))


@pytest.mark.filterwarnings("ignore")
def test_an_evidence_that_was_withheld_stays_so():
    posterior = fitted(sbmc.SMC(mutations=2), particles=20)
    posterior.settings["evidence_withheld"] = "empirical Bayes"
    assert posterior.update(rows(SECOND), progress=False).evidence is None


def test_the_moves_of_added_data_cost_no_second_evaluation():
    """Values at the end of a move are those of its last evaluation, or of its start."""
    calls = []

    class Counting(data_tempering.GrowingTarget):
        def state(self, position, with_gradient):
            calls.append(len(position))
            return super().state(position, with_gradient)

    problem = conjugate_regression()
    half = [
        problem._replace(inputs=problem.inputs[part], targets=problem.targets[part])
        for part in (FIRST, SECOND)
    ]
    target = Counting(*(each.target(S) for each in half))
    for kernel, expected in ((sbmc.HMC(leapfrog=3), 3), (sbmc.MALA(), 1), (sbmc.PCN(), 1)):
        moves = DataTempering(kernel)
        noise = sbmc.samplers.noise.IslandNoise(
            [torch.Generator().manual_seed(k) for k in (0, 1)], 5
        )
        state = moves.begin(torch.randn(10, 3, dtype=torch.float64), target)
        calls.clear()
        moved, _, costs = moves.advance(
            noise, state, target, step_sizes=[0.4, 0.1], temperature=torch.tensor([0.5, 1.0])
        )
        assert calls == [5] * (2 * expected)
        assert costs == [expected] * 2
        exact = target.state(moved.position, with_gradient=moves.with_gradient)
        for found, right in zip(moved, exact, strict=True):
            torch.testing.assert_close(found, right)
        assert isinstance(moved, GrowingState)
