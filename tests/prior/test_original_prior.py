"""`prior_variance` in all its forms, the centre, and the table that describes them."""

from __future__ import annotations

import json
import math
import re
import sys

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.likelihoods import Custom, Gaussian, as_likelihood
from sbmc.model.data import Examples
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import anchored_prior, factor_prior, resolve_variance
from sbmc.prior.original import resolve_prior

ANCHOR = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
VARIANCE = torch.tensor([0.1, 1.0, 4.0], dtype=torch.float64)
CENTRE = torch.tensor([0.0, 1.0, -3.0], dtype=torch.float64)


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Tanh(), nn.Linear(3, 2)).double()


def resolve(asked, net=None, **options):
    net = make_net() if net is None else net
    space = select_parameters(net)
    given = {"trained": space.flatten(net).unsqueeze(0), "dtype": torch.float64, **options}
    return resolve_prior(asked, net, space, **given)


# The centre in the anchored prior


def test_at_s_of_one_the_mean_is_the_centre_and_below_a_half_the_anchor():
    assert torch.equal(anchored_prior(ANCHOR, 1.0, VARIANCE, centre=CENTRE).mean, CENTRE)
    assert torch.equal(anchored_prior(ANCHOR, 0.3, VARIANCE, centre=CENTRE).mean, ANCHOR)


def test_a_rule_in_between_mixes_anchor_and_centre():
    prior = anchored_prior(ANCHOR, 0.25, VARIANCE, alpha=lambda s: 1 - s, centre=CENTRE)
    torch.testing.assert_close(prior.mean, 0.75 * ANCHOR + 0.25 * CENTRE)
    torch.testing.assert_close(prior.to_parameters(torch.zeros(3).double()), prior.mean)


@pytest.mark.parametrize("s", [0.1, 0.5, 1.0])
def test_a_centre_of_zero_has_the_bits_of_none(s):
    with_zeros = anchored_prior(ANCHOR, s, VARIANCE, centre=torch.zeros_like(ANCHOR))
    without = anchored_prior(ANCHOR, s, VARIANCE)
    assert torch.equal(with_zeros.mean, without.mean)
    assert torch.equal(with_zeros.scale, without.scale)


def test_the_factor_is_the_product_of_two_densities():
    """Up to a constant: log N(θ; c, V) + log N(θ; anchor, f) − log of the result."""
    f, prior = 0.4, factor_prior(ANCHOR, 0.4, VARIANCE, CENTRE)
    theta = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def log_density(mean, variance):
        return -0.5 * ((theta - mean).square() / variance).sum(-1)

    difference = log_density(CENTRE, VARIANCE) + log_density(ANCHOR, f)
    difference -= log_density(prior.mean, prior.scale.square())
    torch.testing.assert_close(difference, difference[:1].expand(6))


# Forms


@pytest.mark.parametrize(
    "asked",
    [0.3, 2, torch.tensor(0.3), {"weight": 0.1, ".": torch.tensor(2.0)}, torch.rand(29) + 0.1],
    ids=["number", "integer", "tensor", "patterns", "per parameter"],
)
def test_a_number_a_mapping_and_a_tensor_are_as_before(asked):
    space = select_parameters(make_net())
    prior = resolve(asked)
    assert torch.equal(prior.variance, resolve_variance(asked, space, torch.float64))
    assert prior.centre is None
    assert prior.empirical is None
    assert set(prior.settings) == {"prior_variance"}


def test_auto_is_by_layer_with_its_defaults():
    auto, by_layer = resolve("auto"), resolve(sbmc.ByLayer())
    assert torch.equal(auto.variance, by_layer.variance)
    assert auto.settings == by_layer.settings
    sizes = {name: tuple(p.shape) for name, p in make_net().named_parameters()}
    expected = {"0.weight": 1.25, "1.weight": 0.25, "3.weight": 5 / 3}
    parts = [torch.full(size, expected.get(n, 1.0)).flatten() for n, size in sizes.items()]
    torch.testing.assert_close(auto.variance, torch.cat(parts).double())
    assert auto.centre.tolist() == [0.0] * 15 + [1.0] * 3 + [0.0] * 11


def test_without_gains_there_is_no_centre():
    assert resolve("auto", nn.Linear(3, 2).double()).centre is None


def test_other_scales_are_in_the_settings():
    prior = resolve(sbmc.ByLayer(weights=2.0, widen=False))
    assert prior.settings["prior_variance"] == {"by_layer": {"weights": 2.0, "widen": False}}
    assert prior.parameters[0].variance == 0.5


def test_a_pattern_may_leave_parameters_to_the_rules():
    prior = resolve({"bias": 3.0, "weight": "auto"})
    auto = {each.name: each for each in resolve("auto").parameters}
    for each in prior.parameters:
        if "bias" in each.name:
            assert (each.variance, each.rule) == (3.0, "given")
        else:
            assert each == auto[each.name]
    assert prior.centre.sum() == 3
    assert prior.settings["prior_variance"] == {"bias": 3.0, "weight": "auto"}
    space = select_parameters(make_net())
    parts = space.split(prior.variance)
    assert float(parts["0.weight"][0, 0]) == 1.25
    assert set(parts["3.bias"].tolist()) == {3.0}


def test_a_weight_decay_is_the_prior_whose_log_posterior_is_n_times_the_loss():
    """n · (w/2) ‖θ‖² is −log N(θ; 0, v), up to a constant."""
    n, decay = 40, 0.02
    prior = resolve(sbmc.WeightDecay(decay), examples=n)
    theta = torch.linspace(-1, 2, 29, dtype=torch.float64)
    penalty = 0.5 * (theta.square() / prior.variance).sum()
    assert float(penalty) == pytest.approx(n * decay / 2 * float(theta.square().sum()))
    assert prior.centre is None
    assert prior.empirical is None
    assert prior.settings["prior_variance"] == {
        "weight_decay": {"weight_decay": decay, "examples": n}
    }


def test_a_weight_decay_decides_even_against_the_trained_weights():
    net = make_net()
    with torch.no_grad():
        net[0].weight.fill_(100.0)
    prior = resolve(sbmc.WeightDecay(1.0), net, examples=10)
    assert set(prior.variance.tolist()) == {0.1}
    assert prior.empirical is None


def test_examples_of_the_decay_go_before_those_of_the_data():
    assert resolve(sbmc.WeightDecay(0.1, examples=5), examples=40).parameters[0].variance == 2.0


@pytest.mark.parametrize("exempt", [r"bias|^1\.", lambda name: "bias" in name or name[0] == "1"])
def test_exempt_parameters_follow_the_rules(exempt):
    prior = resolve(sbmc.WeightDecay(0.1, examples=5, exempt=exempt))
    auto = {each.name: each for each in resolve("auto").parameters}
    decayed = [each.name for each in prior.parameters if each.rule == "weight decay 0.1"]
    assert decayed == ["0.weight", "3.weight"]
    assert all(each == auto[each.name] for each in prior.parameters if each.name not in decayed)
    assert float(prior.centre.sum()) == 3


def test_a_decoupled_decay_says_so():
    prior = resolve(sbmc.WeightDecay(0.1, examples=5, decoupled=True))
    assert "decoupled" in prior.parameters[0].rule
    assert prior.settings["prior_variance"]["weight_decay"]["decoupled"] is True


def test_what_was_widened_is_said_and_is_no_evidence():
    net = make_net()
    with torch.no_grad():
        net[0].weight.fill_(10.0)
        net[3].bias.fill_(10.0)
    prior = resolve("auto", net)
    assert prior.empirical == "the prior was widened to the trained weights of 0.weight, 3.bias"
    assert prior.settings["evidence_withheld"].startswith("empirical Bayes: the prior was widened")
    assert prior.settings["prior_by_parameter"]["0.weight"] == {
        "rule": "weight",
        "variance": 50.0,
        "fan_in": 4,
        "widened": True,
    }
    assert json.loads(json.dumps(prior.settings)) == prior.settings


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: resolve("atuo"),
            'must be "auto", "evidence", a number, .* Did you mean \'auto\'?',
        ),
        (lambda: resolve("evidence"), '`prior_variance` must be .*but got "evidence".*`fit`'),
        (lambda: resolve({"weight": "auto"}), "none of which matches '0.bias'"),
        (lambda: resolve({"weight": "auto", "bais": 1.0, ".": 1.0}), "but got 'bais'"),
        (lambda: resolve({"weight": "wide", ".": 1.0}), "\"auto\" as values, but got 'wide'"),
        (
            lambda: resolve(True),
            r'must be "auto", .* a number, a mapping, a tensor, .* or sbmc\.WeightDecay.*got True',
        ),
        (lambda: resolve(sbmc.WeightDecay(0.1)), "`examples` must be given in WeightDecay"),
        (lambda: sbmc.WeightDecay(-1e-4), "`weight_decay` must be positive"),
        (lambda: sbmc.WeightDecay(0), 'use prior_variance="auto"'),
        (lambda: sbmc.WeightDecay(math.nan), "`weight_decay` must be positive"),
        (lambda: sbmc.WeightDecay(0.1, examples=0), "`examples` must be a positive integer"),
        (lambda: sbmc.WeightDecay(0.1, exempt=3), "`exempt` must be a regular expression or"),
        (lambda: sbmc.WeightDecay(0.1, exempt="("), "`exempt` must be a regular expression, but"),
        (lambda: sbmc.WeightDecay(0.1, decoupled=1), "`decoupled` must be True or False"),
        (
            lambda: resolve(sbmc.WeightDecay(0.1, examples=5, exempt="nrom")),
            "`exempt` must be a selection that matches some",
        ),
        (
            lambda: resolve(sbmc.WeightDecay(0.1, examples=5, exempt=".")),
            "`exempt` must be a selection that leaves some",
        ),
    ],
)
def test_bad_forms_are_refused_with_a_remedy(make, words):
    with pytest.raises(BadInput, match=words):
        make()


# By the marginal likelihood


def regression(n=40, dim=3):
    rng = torch.Generator().manual_seed(3)
    inputs = torch.randn(n, dim, generator=rng, dtype=torch.float64)
    truth = torch.tensor([[1.5, -0.5, 0.8]], dtype=torch.float64)
    targets = inputs @ truth.T + 0.5 * torch.randn(n, 1, generator=rng, dtype=torch.float64)
    return inputs, targets


def log_evidence(inputs, targets, noise, v):
    """log N(y; 0, σ² I + v X Xᵀ)."""
    covariance = noise * torch.eye(len(inputs)).double() + v * inputs @ inputs.T
    normal = torch.distributions.MultivariateNormal(torch.zeros(len(inputs)).double(), covariance)
    return float(normal.log_prob(targets[:, 0]))


def at_the_map(inputs, targets, noise, v):
    net = nn.Linear(3, 1, bias=False).double()
    precision = inputs.T @ inputs / noise + torch.eye(3).double() / v
    with torch.no_grad():
        net.weight.copy_(torch.linalg.solve(precision, inputs.T @ targets / noise).T)
    return net


def test_the_evidence_of_a_linear_model_is_maximised():
    """The maximum is where the anchor is the MAP of the variance that is chosen: a fixed point."""
    pytest.importorskip("laplace")
    inputs, targets = regression()
    noise, likelihood = 0.25, Gaussian(noise_variance=0.25)
    v, examples = 1.0, Examples(inputs, targets)
    for _ in range(8):
        net = at_the_map(inputs, targets, noise, v)
        prior = resolve("evidence", net, examples=examples, likelihood=likelihood)
        v = prior.parameters[0].variance
    best = log_evidence(inputs, targets, noise, v)
    assert best > max(log_evidence(inputs, targets, noise, v * factor) for factor in (0.9, 1.1))
    assert prior.epochs == 1
    assert prior.parameters[0].rule == "evidence (weight)"
    assert "marginal likelihood" in prior.settings["evidence_withheld"]


def test_the_evidence_stays_within_reach_of_the_rule():
    """At weights of zero the marginal likelihood grows without end as v shrinks."""
    pytest.importorskip("laplace")
    net = nn.Linear(3, 1, bias=False).double()
    nn.init.zeros_(net.weight)
    inputs, targets = regression()
    options = {"examples": Examples(inputs, targets), "likelihood": Gaussian(noise_variance=0.25)}
    assert resolve("evidence", net, **options).parameters[0].variance == pytest.approx(5 / 3 / 1000)


@pytest.mark.parametrize(
    ("net", "inputs", "likelihood", "words"),
    [
        (make_net(), torch.randn(9, 4).double(), "categorical", 'must be "auto", .*by `sbmc.tune`'),
        (
            nn.Linear(4, 2).double(),
            torch.randn(9, 4).double(),
            Custom(lambda outputs, targets: -outputs[:, 0]),
            "`likelihood` must be 'categorical' or Gaussian",
        ),
    ],
)
def test_what_has_no_evidence_is_refused_with_a_remedy(net, inputs, likelihood, words):
    pytest.importorskip("laplace")
    data = Examples(inputs, torch.arange(9) % 2)
    with pytest.raises(BadInput, match=words):
        resolve("evidence", net, examples=data, likelihood=as_likelihood(likelihood))


def test_without_laplace_torch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "laplace", None)
    data = Examples(torch.randn(9, 4).double(), torch.arange(9) % 2)
    with pytest.raises(ImportError, match=re.escape("sbmc[laplace]")):
        resolve(
            "evidence",
            nn.Linear(4, 2).double(),
            examples=data,
            likelihood=as_likelihood("categorical"),
        )


# The table


def test_the_description_has_a_row_for_each_parameter():
    net = make_net()
    described = sbmc.describe_prior(net)
    lines = str(described).splitlines()
    assert [line.split()[0] for line in lines[1:7]] == [n for n, _ in net.named_parameters()]
    html = described._repr_html_()
    assert html.count("<tr>") == 7
    assert "norm gain" in html
    assert described.parameters[2].centre == 1.0


def test_the_description_escapes_names():
    net = nn.Module()
    net.add_module("<b>", nn.Linear(2, 1))
    assert "<b>" not in sbmc.describe_prior(net)._repr_html_()


def test_the_description_says_what_was_guessed():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.zeros(3, 4))

    notes = " ".join(sbmc.describe_prior(Odd()).notes)
    assert "the shape decided: table" in notes
    assert "layer_rules.register" in notes


def test_the_description_takes_the_forms_of_fit():
    net = make_net()
    assert sbmc.describe_prior(net, 0.3).parameters[0].rule == "given"
    last = sbmc.describe_prior(net, parameters="last")
    assert [each.name for each in last.parameters] == ["3.weight", "3.bias"]
    data = torch.randn(20, 4), torch.arange(20) % 2
    decayed = sbmc.describe_prior(net, sbmc.WeightDecay(0.01), data=data)
    assert decayed.parameters[0].variance == pytest.approx(5.0)
