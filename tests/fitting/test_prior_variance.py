"""`prior_variance` in `fit` and in training: the exact posterior, the settings, the evidence."""

from __future__ import annotations

import inspect
import json

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.diagnostics.conditioning import condition_number
from sbmc.fitting.forecast import check
from sbmc.prior import original as original_module
from tests.checks import mean_and_covariance_fit

NOISE = 0.5
QUICK = sbmc.HMC(steps=4, leapfrog=2, step_size=0.05)


class Gains(nn.Module):
    """Outputs that are linear in the gain and the shift of a LayerNorm: Σ_j g_j x̂_j + b_j."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(3)

    def forward(self, inputs):
        return self.norm(inputs).sum(-1, keepdim=True)


def gain_problem(gains=0.25):
    """A network with gains, its data, and the posterior in closed form at s = 1."""
    rng = torch.Generator().manual_seed(0)
    inputs = torch.randn(8, 3, generator=rng, dtype=torch.float64)
    targets = torch.randn(8, 1, generator=rng, dtype=torch.float64)
    net = Gains().double()
    with torch.no_grad():
        net.norm.weight.copy_(torch.tensor([1.4, 0.8, 1.1]))
        net.norm.bias.fill_(0.2)
    features = nn.functional.layer_norm(inputs, (3,))
    design = torch.cat([features, torch.ones(8, 3).double()], 1)
    centre = torch.tensor([1.0, 1, 1, 0, 0, 0], dtype=torch.float64)
    variance = torch.tensor([gains, gains, gains, 1, 1, 1], dtype=torch.float64)
    covariance = torch.linalg.inv(design.T @ design / NOISE + torch.diag(1 / variance))
    mean = covariance @ (design.T @ targets[:, 0] / NOISE + centre / variance)
    return net, (inputs, targets), mean, covariance


def test_the_target_with_gains_is_the_one_in_closed_form():
    """The log density is quadratic in z: its gradients give mean and covariance exactly."""
    net, data, mean, covariance = gain_problem()
    likelihood = sbmc.Gaussian(noise_variance=NOISE)
    target = sbmc.build_target(net, data, s=1.0, likelihood=likelihood)
    points = torch.cat([torch.zeros(1, 6), torch.eye(6)]).double()
    gradients = target(points).gradient - points
    hessian = gradients[1:] - gradients[0]
    centre = target.prior.to_parameters(-torch.linalg.solve(hessian, gradients[0]))
    scale = torch.diag(target.prior.scale)
    torch.testing.assert_close(centre, mean)
    torch.testing.assert_close(scale @ torch.linalg.inv(-hessian) @ scale, covariance)


def gain_samples():
    net, data, *expected = gain_problem()
    posterior = sbmc.fit(
        net,
        data,
        s=1.0,
        likelihood=sbmc.Gaussian(noise_variance=NOISE),
        sampler=sbmc.HMC(steps=25, step_size=0.1),
        particles=400,
        start="prior",
        seed=1,
        progress=False,
    )
    return posterior.positions[0], *expected


def test_the_posterior_with_gains_is_the_one_in_closed_form():
    """Mean and covariance of 400 chains; a false alarm in one of 100,000 seeds."""
    assert mean_and_covariance_fit(*gain_samples(), false_alarm=1e-5)


def test_gains_around_zero_are_caught(monkeypatch):
    """A planted bug: the centre is forgotten."""
    right = original_module._collected

    def wrong(parameters, given, dtype):
        prior = right(parameters, given, dtype)
        return original_module.OriginalPrior(prior.variance, None, prior.parameters, given)

    monkeypatch.setattr(original_module, "_collected", wrong)
    assert not mean_and_covariance_fit(*gain_samples(), false_alarm=1e-5)


# Everything else on a small network


def make_net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 2)).double()


RNG = torch.Generator().manual_seed(1)
INPUTS = torch.randn(24, 4, generator=RNG, dtype=torch.float64)
DATA = INPUTS, (INPUTS[:, 0] > 0).long()


def fit(net=None, **options):
    given = {"sampler": QUICK, "particles": 3, "progress": False, **options}
    return sbmc.fit(make_net() if net is None else net, DATA, **given)


pytestmark = pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")


@pytest.mark.parametrize(
    "function",
    [
        sbmc.fit,
        sbmc.expect,
        check,
        sbmc.build_target,
        sbmc.train_map,
        sbmc.train_ensemble,
        sbmc.describe_prior,
        condition_number,
    ],
)
def test_auto_is_the_default_everywhere(function):
    assert inspect.signature(function).parameters["prior_variance"].default == "auto"


def test_the_settings_have_what_was_resolved():
    posterior = fit()
    described = sbmc.describe_prior(make_net())
    settings = posterior.settings["prior_by_parameter"]
    assert posterior.settings["prior_variance"] == "auto"
    assert settings == {each.name: each.as_setting() for each in described.parameters}
    assert settings["1.weight"] == {"rule": "norm gain", "variance": 0.25, "centre": 1.0}
    assert json.loads(json.dumps(posterior.settings)) == posterior.settings
    assert "prior_by_parameter" not in fit(prior_variance=1.0).settings


def test_the_particles_use_what_the_settings_say():
    posterior = fit(s=1.0)
    (prior,) = posterior.priors
    space = posterior.space
    for name, values in space.split(prior.scale.square()).items():
        expected = posterior.settings["prior_by_parameter"][name]
        torch.testing.assert_close(values, torch.full_like(values, expected["variance"]))
        mean = space.split(prior.mean)[name]
        torch.testing.assert_close(mean, torch.full_like(mean, expected.get("centre", 0.0)))


@pytest.mark.parametrize(
    "asked", ["auto", sbmc.WeightDecay(0.01, exempt="bias"), {"bias": 2.0, ".": "auto"}]
)
def test_a_saved_posterior_keeps_its_prior(tmp_path, asked):
    posterior = fit(prior_variance=asked)
    posterior.save(tmp_path / "posterior")
    again = sbmc.load(tmp_path / "posterior", make_net())
    assert again.settings == posterior.settings
    assert torch.equal(again.predict(INPUTS).probs, posterior.predict(INPUTS).probs)


def test_parts_of_one_prior_are_merged_and_others_refused():
    one = fit(islands=1)
    two = fit(islands=1, compute=sbmc.Compute(first_island=1))
    merged = sbmc.merge([one, two])
    torch.testing.assert_close(merged.positions, fit(islands=2).positions)
    assert merged.settings["prior_by_parameter"] == one.settings["prior_by_parameter"]
    other = fit(
        islands=1, prior_variance=sbmc.ByLayer(gains=0.1), compute=sbmc.Compute(first_island=1)
    )
    with pytest.raises(BadInput, match=r"`posteriors` must be parts of one run.*prior_variance"):
        sbmc.merge([one, other])


def test_a_checkpoint_knows_its_prior(tmp_path):
    compute = sbmc.Compute(checkpoint=tmp_path)
    first = fit(compute=compute)
    assert torch.equal(fit(compute=compute).positions, first.positions)
    grown = fit(compute=compute, islands=2)
    assert torch.equal(grown.positions[0], first.positions[0])
    with pytest.raises(BadInput, match=r"`checkpoint` must be of the same run.*by_layer"):
        fit(compute=compute, prior_variance=sbmc.ByLayer(gains=0.1))


def test_anchors_share_one_prior_and_islands_can_be_added():
    anchors = [make_net(seed) for seed in (1, 2, 3)]
    with torch.no_grad():
        for factor, anchor in zip((8.0, 4.0, 2.0), anchors, strict=True):
            anchor[0].weight.fill_(factor)
    few = fit(anchors=anchors, islands=1)
    every = fit(anchors=anchors, islands=3)
    assert few.settings["prior_by_parameter"] == every.settings["prior_by_parameter"]
    # The median of 64, 16 and 4 is 16.
    assert few.settings["prior_by_parameter"]["0.weight"]["variance"] == pytest.approx(8.0)
    assert torch.equal(few.positions[0], every.positions[0])


def large_net():
    net = make_net()
    with torch.no_grad():
        net[3].weight.mul_(40)
    return net


SMC = sbmc.SMC(mutations=2, move=sbmc.HMC(leapfrog=2))


@pytest.mark.filterwarnings("ignore:The evidence leaves", "ignore:The population")
def test_the_evidence_is_withheld_where_the_prior_was_read_off_the_weights(tmp_path):
    usual = fit(sampler=SMC, islands=2)
    assert usual.evidence is not None
    assert "evidence_withheld" not in usual.settings
    posterior = fit(large_net(), sampler=SMC, islands=2)
    assert posterior.evidence is None
    assert "3.weight" in posterior.settings["evidence_withheld"]
    assert "withheld (empirical Bayes" in posterior._repr_html_()
    assert "withheld" not in usual._repr_html_()
    # Islands of one run share the prior, and are weighted by their estimates all the same.
    assert posterior.weighting == "evidence"
    expected = torch.softmax(posterior.log_evidence, 0)
    torch.testing.assert_close(posterior.weights.sum(1), expected)
    posterior.save(tmp_path / "posterior")
    assert sbmc.load(tmp_path / "posterior", make_net()).evidence is None
    given = fit(large_net(), sampler=SMC, islands=2, prior_variance=10.0)
    assert given.evidence is not None


@pytest.mark.filterwarnings("ignore:The evidence leaves", "ignore:The population")
def test_evidence_as_the_prior_withholds_it_as_well():
    pytest.importorskip("laplace")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    posterior = fit(net, prior_variance="evidence", sampler=SMC)
    assert posterior.evidence is None
    assert posterior.settings["prior_variance"] == "evidence"
    assert posterior.cost.prior_epochs == 2  # a backward pass for each output
    described = sbmc.describe_prior(net, "evidence", data=DATA)
    settings = {each.name: each.as_setting() for each in described.parameters}
    assert posterior.settings["prior_by_parameter"] == settings


def test_a_weight_decay_counts_the_data_of_fit():
    posterior = fit(prior_variance=sbmc.WeightDecay(0.5))
    assert posterior.settings["prior_by_parameter"]["0.weight"]["variance"] == 1 / 12
    assert posterior.settings["prior_variance"]["weight_decay"]["examples"] == 24


def test_only_the_last_layer_has_its_own_rows():
    posterior = fit(parameters="last")
    assert list(posterior.settings["prior_by_parameter"]) == ["3.weight", "3.bias"]


@pytest.mark.parametrize("s", [0, 0.1])
def test_a_wrong_word_is_refused_for_every_s(s):
    with pytest.raises(BadInput, match="Did you mean 'auto'"):
        fit(s=s, prior_variance="uato")


# Training


TRAINING = {
    "likelihood": sbmc.Gaussian(noise_variance=NOISE),
    "learning_rate": 0.02,
    "batch_size": 8,
    "max_epochs": 700,
    "progress": False,
}


@pytest.mark.parametrize(("asked", "gains"), [("auto", 1.0), (sbmc.ByLayer(), 0.25)])
def test_train_map_ends_at_the_maximum_with_gains_around_one(asked, gains):
    net, data, mean, _ = gain_problem(gains)  # of a Gaussian posterior the mean is the maximum
    trained = sbmc.train_map(net, data, prior_variance=asked, **TRAINING)
    found = torch.cat([trained.norm.weight, trained.norm.bias]).detach()
    torch.testing.assert_close(found, mean, rtol=0, atol=1e-4)


def test_a_maximum_with_gains_around_zero_is_another_one():
    net, data, mean, _ = gain_problem(1.0)
    plain = sbmc.train_map(net, data, prior_variance=1.0, **TRAINING)
    assert (plain.norm.weight - mean[:3]).abs().max() > 0.05


def test_training_by_a_decay_and_by_patterns_is_training_by_their_numbers():
    net, data, *_ = gain_problem()
    quick = {**TRAINING, "max_epochs": 5}

    def weights(asked):
        return sbmc.train_map(net, data, prior_variance=asked, **quick).norm.weight

    torch.testing.assert_close(weights(sbmc.WeightDecay(0.25)), weights(0.5))
    torch.testing.assert_close(weights({".": 0.5}), weights(0.5))
    assert not torch.equal(weights("auto"), weights(0.5))


def test_draws_from_the_prior_are_centred_where_it_is():
    """Members that start at the prior, and are trained with a rate too small to move them."""
    net, data, *_ = gain_problem()
    still = {**TRAINING, "learning_rate": 1e-12, "max_epochs": 1, "members": 400}
    still["prior_variance"] = sbmc.ByLayer()
    drawn = sbmc.train_ensemble(net, data, initial="prior", **still).positions
    deviation = torch.tensor([0.5, 0.5, 0.5, 1, 1, 1], dtype=torch.float64)
    centre = torch.tensor([1.0, 1, 1, 0, 0, 0], dtype=torch.float64)
    # Five standard errors of 400 draws; a false alarm in about one of 300,000 for each of six.
    assert bool(((drawn.mean(0) - centre).abs() < 5 * deviation / 20).all())
    assert bool((drawn.std(0) / deviation - 1).abs().max() < 5 / 28)


def test_members_that_are_drawn_to_centres_of_their_own_scatter_around_the_prior():
    """Without data to speak of (huge noise) each member ends at its draw from N(c, v)."""
    net, data, *_ = gain_problem()
    free = {**TRAINING, "likelihood": sbmc.Gaussian(noise_variance=1e6), "max_epochs": 400}
    free["prior_variance"] = sbmc.ByLayer()
    found = sbmc.train_ensemble(net, data, members=40, anchored=True, **free).positions
    gains, shifts = found[:, :3], found[:, 3:]
    # Means of 120 draws with deviations 0.5 and 1, to five standard errors.
    assert abs(float(gains.mean()) - 1) < 5 * 0.5 / 120**0.5
    assert abs(float(shifts.mean())) < 5 / 120**0.5


def test_weights_that_training_begins_with_widen_the_prior_and_others_do_not():
    data = INPUTS, DATA[1]
    quick = {"max_epochs": 2, "progress": False, "batch_size": 24, "learning_rate": 1e-9}

    def losses(net, **options):
        return sbmc.train_map(net, data, **quick, **options).history.train_loss

    kept = losses(large_net())
    narrow = losses(large_net(), prior_variance=sbmc.ByLayer(least=1.0, widen=False))
    assert narrow[0] > kept[0] + 1
    anew = losses(large_net(), initial="reset")
    rules = sbmc.ByLayer(least=1.0, widen=False)
    same = losses(large_net(), initial="reset", prior_variance=rules)
    assert anew == same


def test_training_by_the_evidence_is_refused_with_a_remedy():
    with pytest.raises(BadInput, match='Train with "auto", and give "evidence" to `fit`'):
        sbmc.train_map(make_net(), DATA, max_epochs=1, prior_variance="evidence")
