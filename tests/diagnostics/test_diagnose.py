"""`diagnose`: the right numbers of the right draws, and plain words where there are too few."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
import torch
from diagnostics.posteriors import make_net, normal_values, posterior_of
from torch import nn
from torch.func import functional_call

import sbmc
from sbmc import HMC, BadInput, Gaussian
from sbmc.diagnostics import (
    diagnose,
    effective_sample_size,
    integrated_autocorrelation_time,
    nested_rhat,
    rhat,
)
from sbmc.prior.gaussian import AnchoredPrior, anchored_prior

INPUTS = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
LABELS = torch.tensor([0, 1, 2, 1])


def outputs_by_hand(values):
    """Outputs `(..., examples, classes)` of every parameter vector, one by one."""
    net = make_net()
    flat = values.reshape(-1, values.shape[-1])
    shapes = {name: p.shape for name, p in net.named_parameters()}
    found = []
    for theta in flat:
        parts = theta.split([shape.numel() for shape in shapes.values()])
        named = {n: p.view(shape) for (n, shape), p in zip(shapes.items(), parts, strict=True)}
        found.append(functional_call(net, named, INPUTS).detach())
    return torch.stack(found).view(*values.shape[:-1], len(INPUTS), 3)


def expected(values):
    """All statistics of each quantity of `(islands, chains, draws, quantities)`, worst first."""
    each = [values[..., i].numpy() for i in range(values.shape[-1])]
    chains = [x.reshape(-1, x.shape[-1]) for x in each]
    columns = {
        "rhat": [rhat(x) for x in chains],
        "nested_rhat": [nested_rhat(x) for x in each],
        "integrated_autocorrelation_time": [integrated_autocorrelation_time(x) for x in chains],
        "effective_sample_size": [effective_sample_size(x) for x in chains],
    }
    worst = {name: max(column) for name, column in columns.items()}
    worst["effective_sample_size"] = min(columns["effective_sample_size"])
    return worst, {name: float(np.median(column)) for name, column in columns.items()}


def assert_summary(summary, values):
    worst, median = expected(values)
    assert summary.quantities == values.shape[-1]
    for name in worst:
        assert getattr(summary, name).worst == pytest.approx(worst[name], rel=1e-9), name
        assert getattr(summary, name).median == pytest.approx(median[name], rel=1e-9), name


def test_long_chains_have_every_statistic_of_every_quantity():
    values = normal_values(2, 3, 12)
    values += torch.arange(2).view(2, 1, 1, 1)  # islands apart
    values = values.cumsum(2)  # draws that remember: their order matters
    found = diagnose(posterior_of(values), INPUTS, data=(INPUTS, LABELS))
    assert (found.islands, found.chains, found.draws) == (2, 3, 12)
    assert found.nested_expected is None
    outputs = outputs_by_hand(values)
    assert_summary(found["parameters"], values)
    assert_summary(found["predictions"], outputs.softmax(-1).flatten(-2))
    likelihood = outputs.log_softmax(-1)[..., torch.arange(4), LABELS].sum(-1, keepdim=True)
    assert_summary(found["log likelihood"], likelihood)


def test_draws_taken_for_chains_would_be_noticed():
    values = normal_values(2, 3, 12).cumsum(2)
    mixed = values.transpose(1, 2).reshape(2, 3, 12, -1)  # the planted bug: no reordering
    right, _ = expected(values)
    wrong, _ = expected(mixed)
    name = "integrated_autocorrelation_time"
    assert wrong[name] != pytest.approx(right[name], rel=0.05)
    assert diagnose(posterior_of(values))["parameters"].integrated_autocorrelation_time.worst == (
        pytest.approx(right[name])
    )


def test_the_draws_of_a_fit_are_found_again():
    # Chains of a flat likelihood, each held at its own start by tiny steps: a chain's draws are
    # close together, and chains are apart.
    net = nn.Linear(2, 2).double()
    data = torch.zeros(4, 2, dtype=torch.float64), torch.tensor([0, 1, 0, 1])
    run = HMC(steps=10, leapfrog=1, step_size=1e-4, draws=5, thinning=1)
    posterior = sbmc.fit(
        net, data, sampler=run, particles=3, islands=2, start="prior", s=1, progress=False
    )
    found = diagnose(posterior)
    assert (found.islands, found.chains, found.draws) == (2, 3, 5)
    assert found["parameters"].rhat.median > 3


def test_log_density_is_likelihood_and_prior():
    values = normal_values(2, 2, 8)
    net = make_net()
    theta = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    prior = anchored_prior(theta, 0.2, torch.full_like(theta, 3.0))
    other = AnchoredPrior(prior.mean + 1, prior.scale, prior.anchor)
    found = diagnose(posterior_of(values), data=(INPUTS, LABELS), prior=[prior, other], power=0.5)
    likelihood = outputs_by_hand(values).log_softmax(-1)[..., torch.arange(4), LABELS].sum(-1)
    centre = torch.stack([prior.mean, other.mean]).view(2, 1, 1, -1)
    density = 0.5 * likelihood - ((values - centre) ** 2).sum(-1) / (2 * 0.2 * 3.0)
    assert_summary(found["log density"], density.unsqueeze(-1))
    assert_summary(found["log likelihood"], likelihood.unsqueeze(-1))


def test_one_draw_of_each_chain_has_nested_rhat_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)  # which it does not need
    values = normal_values(4, 5, 1)
    found = diagnose(posterior_of(values), INPUTS)
    summary = found["parameters"]
    each = [nested_rhat(values[..., i]) for i in range(17)]
    assert summary.nested_rhat.worst == pytest.approx(max(each))
    assert summary.nested_rhat.median == pytest.approx(float(np.median(each)))
    assert summary.rhat is summary.effective_sample_size is None
    assert found["predictions"].nested_rhat.worst >= found["predictions"].nested_rhat.median
    assert found.nested_expected == pytest.approx(math.sqrt(1 + 1 / 5))
    assert any("need 4 draws" in note for note in found.notes)
    assert any("started alike" in note for note in found.notes)


def test_starts_can_be_the_superchains():
    values = normal_values(4, 5, 1)
    found = diagnose(posterior_of(values), superchains="starts")
    each = [nested_rhat(values[..., i].transpose(0, 1)) for i in range(17)]
    assert found["parameters"].nested_rhat.worst == pytest.approx(max(each))
    assert found.nested_expected == pytest.approx(math.sqrt(1 + 1 / 4))
    assert not any("started alike" in note for note in found.notes)


def test_islands_with_anchors_of_their_own_did_not_start_alike():
    found = diagnose(posterior_of(normal_values(4, 5, 1), settings={"anchors": 4}))
    assert not any("started alike" in note for note in found.notes)


def test_particles_of_smc_count_by_their_weights():
    values = normal_values(3, 4, 1)
    within = torch.tensor([[0.7, 0.1, 0.1, 0.1]] * 3, dtype=torch.float64)
    options = {"settings": {"sampler": "SMC", "sampler_settings": {"mutations": 2}}}
    found = diagnose(posterior_of(values, within=within, **options))
    each = [nested_rhat(values[..., i], within) for i in range(17)]
    assert found["parameters"].nested_rhat.worst == pytest.approx(max(each))
    assert found.nested_expected == pytest.approx(math.sqrt(1 + 0.52))
    assert any("weights" in note for note in found.notes)


def test_many_parameters_are_looked_at_in_random_projections():
    values = normal_values(3, 4, 6)
    posterior = posterior_of(values)
    found = diagnose(posterior, projections=5)
    assert found["random projections"].quantities == 5
    assert found == diagnose(posterior, projections=5)
    assert found != diagnose(posterior, projections=5, seed=1)
    # Islands that lie apart in every parameter do so in most directions.
    apart = posterior_of(values + 9 * torch.arange(3).view(3, 1, 1, 1))
    assert diagnose(apart, projections=5)["random projections"].rhat.median > 1.5


def test_a_parameter_in_other_units_changes_no_projection():
    values = normal_values(3, 4, 6)
    units = torch.ones(17, dtype=torch.float64)
    units[3] = 1e4
    plain = diagnose(posterior_of(values), projections=5)["random projections"]
    scaled = diagnose(posterior_of(values * units), projections=5)["random projections"]
    assert scaled.rhat.worst == pytest.approx(plain.rhat.worst, rel=1e-6)


def test_a_parameter_that_never_changes_has_no_say():
    values = normal_values(2, 3, 6)
    values[..., 4] = 1.5
    found = diagnose(posterior_of(values))["parameters"]
    for extent in (found.rhat, found.nested_rhat, found.effective_sample_size):
        assert math.isfinite(extent.worst)


def test_one_island_of_one_chain_still_has_an_autocorrelation():
    found = diagnose(posterior_of(normal_values(1, 1, 20)))["parameters"]
    assert found.rhat is None
    assert found.nested_rhat is None
    assert found.integrated_autocorrelation_time.median > 0


def test_regression_looks_at_outputs():
    values = normal_values(2, 3, 5)
    posterior = posterior_of(values, likelihood=Gaussian(noise_variance=0.1))
    assert_summary(diagnose(posterior, INPUTS)["predictions"], outputs_by_hand(values).flatten(-2))


def test_it_prints_a_table_and_is_plain_values():
    found = diagnose(posterior_of(normal_values(2, 3, 6)), INPUTS)
    text = str(found)
    for word in ("2 islands × 3 chains × 6 draws", "nested R-hat", "ESS", "predictions", " / "):
        assert word in text
    plain = json.loads(json.dumps(found.as_dict()))
    assert plain["summaries"][0]["rhat"]["worst"] == found["parameters"].rhat.worst
    with pytest.raises(KeyError, match="'weights' is none of"):
        found["weights"]


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        ((2, 2, 1), {"superchains": "chains"}, "`superchains` must be one of islands, starts"),
        ((2, 2, 1), {"projections": 0}, "`projections` must be a positive integer"),
        ((2, 2, 1), {"draws": 3}, "`draws` must be a positive divisor of the 2 rows of an island"),
        ((2, 2, 1), {"power": 0}, "`power` must be positive"),
        ((2, 2, 1), {"prior": "normal"}, "`data` must be given with `prior`"),
        ((2, 2, 1), {"seed": -1}, "`seed`"),
        (
            (2, 2, 1),
            {"prior": [], "data": (INPUTS, LABELS)},
            "`prior` must be an AnchoredPrior of 17 parameters, or one for each of 2 islands",
        ),
    ],
)
def test_bad_arguments_are_refused(shape, options, words):
    with pytest.raises(BadInput, match=words):
        diagnose(posterior_of(normal_values(*shape)), **options)


@pytest.mark.parametrize("shape", [(1, 5, 1), (3, 1, 1), (1, 1, 1)])
def test_where_there_is_nothing_to_compare_it_says_what_is_needed(shape):
    found = diagnose(posterior_of(normal_values(*shape)), INPUTS, data=(INPUTS, LABELS))
    assert found.summaries == ()
    assert "nested R-hat needs at least two islands of several draws" in found.notes[0]
    assert "worst / median" not in str(found)
    assert "nothing to compare" in str(found)


def test_of_default_posteriors_it_says_what_the_run_found(recwarn):
    import sbmc

    torch.manual_seed(0)
    net, labels = torch.nn.Linear(3, 2), torch.arange(60) % 2
    inputs = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    data, unseen = (inputs[:40], labels[:40]), (inputs[40:], labels[40:])
    options = {"budget": sbmc.Budget(trainings=20, trained_epochs=10), "progress": False}
    single = sbmc.fit(net, data, **options)
    found = diagnose(single, inputs)
    assert "nothing to compare" in found.notes[0]
    assert found.notes[1].startswith(f"Health: {single.health.word}")
    assert found.notes[2] == single.settings["settling"]
    mixture = diagnose(sbmc.fit(net, data, validation=unseen, **options), inputs)
    assert mixture.summaries == ()
    assert mixture.notes[0].startswith("This is a mixture of posteriors with different targets")
    assert mixture.notes[1].startswith("Health: ")


def test_something_else_than_a_posterior_is_refused():
    words = r"`posterior` must be a sbmc\.Posterior, but got a Tensor of shape \(3,\)"
    with pytest.raises(BadInput, match=words):
        diagnose(torch.zeros(3))


def test_the_priors_of_fit_give_the_log_density_without_being_asked_for(tmp_path):
    import sbmc

    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    data = x, (x[:, 0] > 0).long()
    run = {"sampler": sbmc.HMC(steps=3), "particles": 4, "islands": 3, "progress": False}
    posterior = sbmc.fit(nn.Linear(2, 2), data, prior=sbmc.Prior(posterior_temperature=0.5), **run)
    names = [each.name for each in diagnose(posterior, data=data).summaries]
    assert "log density" in names
    given = diagnose(posterior, data=data, prior=posterior.priors, power=2.0)
    found = diagnose(posterior, data=data)
    assert posterior.power == 2.0
    assert found["log density"].nested_rhat.worst == given["log density"].nested_rhat.worst
    few = diagnose(posterior.first(2), data=data)
    assert "log density" in [each.name for each in few.summaries]
    posterior.save(tmp_path / "saved.sbmc")
    loaded = sbmc.load(tmp_path / "saved.sbmc", nn.Linear(2, 2))
    again = diagnose(loaded, data=data)
    assert again["log density"].nested_rhat.worst == found["log density"].nested_rhat.worst
    loaded.priors = None
    assert "log density" not in [each.name for each in diagnose(loaded, data=data).summaries]
