"""Anchors, priors around them, cold posteriors: closed forms, and one anchor for each island."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import torch
from grouped import in_groups
from targets import target_of
from torch import nn

import sbmc
from sbmc import HMC, SGLD, SMC, BadInput, Gaussian, fit
from sbmc.fitting.anchors import Anchoring
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.prior.original import OriginalPrior
from sbmc.target.minibatch import MiniBatches
from sbmc.target.target import Target
from tests.checks import mean_and_covariance_fit
from tests.targets import conjugate_regression

QUICK = HMC(steps=3, leapfrog=2, step_size=0.1)
STILL = HMC(steps=1, leapfrog=1, step_size=1e-9, adapt=False, warmup=0.0)
NOISE = torch.Generator().manual_seed(1)
INPUTS = torch.randn(12, 4, generator=NOISE, dtype=torch.float64)
DATA = INPUTS, torch.randint(3, (12,), generator=NOISE)


def make_net(seed=2):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


MEMBERS = [make_net(seed) for seed in (11, 12, 13)]


# Closed forms: with a Gaussian likelihood, a prior N(m, S) and a power p, the posterior is Gaussian

PROBLEM = conjugate_regression()
# Noisier than the data are, so that the prior has a say.
SIGMA2 = 5.0
ANCHOR = PROBLEM.model.weight.detach()[0]
V = PROBLEM.prior_variance
# One output, so the information of parameter j is Σ_i x_ij² / σ².
FISHER = PROBLEM.inputs.square().sum(0) / SIGMA2


def expected_posterior(mean, variance, power):
    """Mean and covariance from the normal equations."""
    variance = torch.as_tensor(variance, dtype=torch.float64).expand(3)
    precision = power * PROBLEM.inputs.T @ PROBLEM.inputs / SIGMA2
    covariance = torch.linalg.inv(precision + torch.diag(1 / variance))
    pull = power * PROBLEM.inputs.T @ PROBLEM.targets / SIGMA2
    return covariance @ (pull + mean / variance), covariance


def regression_samples(options):
    posterior = fit(
        PROBLEM.model,
        (PROBLEM.inputs, PROBLEM.targets),
        prior_variance=V,
        likelihood=Gaussian(noise_variance=SIGMA2),
        sampler=HMC(steps=25, step_size=0.1),
        particles=400,
        start="prior",
        seed=1,
        progress=False,
        **in_groups(options),
    )
    return posterior.positions[0]


LAPLACE = 0.3 * V / (1 + 0.7 * V * FISHER)
REST = 1 / (0.2 * FISHER + 0.2 / V)
# options, and the mean, the variances and the power that they stand for
VARIANTS = {
    "factor": ({"factor_variance": 0.4}, V / (V + 0.4) * ANCHOR, V * 0.4 / (V + 0.4), 1.0),
    "laplace": ({"s": 0.3, "covariance": "laplace"}, ANCHOR, LAPLACE, 1.0),
    "split": ({"split": 0.2}, ANCHOR, REST, 0.8),
    "cold": ({"s": 1.0, "posterior_temperature": 0.25}, 0 * ANCHOR, 0.25 * V, 4.0),
    "warm": ({"s": 0.2, "posterior_temperature": 3.0}, ANCHOR, 3 * 0.2 * V, 1 / 3),
    "cold factor": (
        {"factor_variance": 0.4, "posterior_temperature": 0.5},
        V / (V + 0.4) * ANCHOR,
        0.5 * V * 0.4 / (V + 0.4),
        2.0,
    ),
    "cold split": ({"split": 0.2, "posterior_temperature": 0.5}, ANCHOR, 0.5 * REST, 1.6),
    "cold laplace": (
        {"s": 0.3, "covariance": "laplace", "posterior_temperature": 0.5},
        ANCHOR,
        0.5 * LAPLACE,
        2.0,
    ),
}


def fits(name, false_alarm=1e-5):
    options, mean, variance, power = VARIANTS[name]
    samples = regression_samples(options)
    return mean_and_covariance_fit(
        samples, *expected_posterior(mean, variance, power), false_alarm=false_alarm
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_the_posterior_is_the_one_in_closed_form(name):
    """Mean and covariance of 400 chains; a false alarm in one of 100,000 seeds."""
    assert fits(name)


def no_shrink(anchor, factor_variance, variance, centre=None):
    share = variance / (factor_variance + variance)
    return AnchoredPrior(anchor, (share * factor_variance).sqrt(), anchor)


BUGS = {
    "centre not shrunk": ("factor", "sbmc.fitting.anchors.factor_prior", no_shrink),
    "power forgotten": ("split", "sbmc.fitting.anchors.Anchoring.power", 1.0),
    "power of T forgotten": ("cold", "sbmc.fitting.anchors.Anchoring.power", 1.0),
    "prior not tempered": (
        "warm",
        "sbmc.prior.gaussian.AnchoredPrior.tempered",
        lambda self, heat: self,
    ),
    "curvature not used": (
        "laplace",
        "sbmc.fitting.anchors.laplace_variance",
        lambda s, variance, information: s * variance,
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug, monkeypatch):
    name, place, wrong = BUGS[bug]
    monkeypatch.setattr(place, wrong)
    assert not fits(name)


def test_a_cold_posterior_has_t_times_the_covariance_and_the_same_mean():
    centre, covariance = expected_posterior(*VARIANTS["cold"][1:])
    usual = PROBLEM._replace(noise_variance=SIGMA2).posterior(1.0)
    torch.testing.assert_close(centre, usual[0])
    torch.testing.assert_close(covariance, 0.25 * usual[1])


def test_a_temperature_of_one_changes_no_bit():
    for options in ({"s": 0.2}, {"factor_variance": 0.2}):
        plain = fit(make_net(), DATA, sampler=QUICK, particles=3, **in_groups(options))
        options = in_groups({**options, "posterior_temperature": 1})
        one = fit(make_net(), DATA, sampler=QUICK, particles=3, **options)
        assert torch.equal(plain.positions, one.positions)
        assert plain.settings == one.settings
        assert "posterior_temperature" not in plain.settings


def test_the_anchor_is_the_mode_of_what_a_split_approximates():
    """At the MAP of N(0, v), the gradient of a·ℓ + log N(0, v/a) is zero too."""
    mode, _ = PROBLEM._replace(noise_variance=SIGMA2).posterior(1.0)
    slope = PROBLEM.inputs.T @ (PROBLEM.targets - PROBLEM.inputs @ mode) / SIGMA2
    a = 0.2
    torch.testing.assert_close(a * slope - mode / (V / a), torch.zeros(3).double())


def test_evidence_of_a_power_of_the_likelihood():
    """One temperature and no moves: Z is the mean over prior draws of L^power."""
    found = fit(
        PROBLEM.model,
        (PROBLEM.inputs, PROBLEM.targets),
        s=0.001,
        prior=sbmc.Prior(posterior_temperature=2.0),
        likelihood=Gaussian(noise_variance=SIGMA2),
        sampler=SMC(mutations=1, temperatures=(1.0,), resample_below=0.01),
        particles=2000,
    )
    spread = 2 * 0.001 * torch.eye(3).double()
    # ∫ L^{1/2} dN(anchor, spread): L^{1/2} is a normal density of noise 2σ², times a constant.
    noise, count = SIGMA2, len(PROBLEM.inputs)
    covariance = PROBLEM.inputs @ spread @ PROBLEM.inputs.T + 2 * noise * torch.eye(count)
    normal = torch.distributions.MultivariateNormal(PROBLEM.inputs @ ANCHOR, covariance)
    change = count / 2 * torch.log(torch.tensor(4 * torch.pi * noise).double())
    change = change - count / 4 * torch.log(torch.tensor(2 * torch.pi * noise).double())
    exact = float(normal.log_prob(PROBLEM.targets) + change)
    # L^{1/2} varies by a relative standard deviation below 1/2 over so narrow a prior: five
    # standard errors of the log are below 0.056, and a power that was forgotten costs tens.
    assert found.evidence.log == pytest.approx(exact, abs=0.056)


# The power in the target


def make_target(power, likelihood="categorical"):
    net = make_net()
    theta = weights(net)
    space = sbmc.model.parameters.select_parameters(net)
    forward = sbmc.model.forward.build_forward(net, space, INPUTS)
    prior = AnchoredPrior(theta, torch.linspace(0.2, 0.5, len(theta)).double(), theta)
    examples = sbmc.model.data.Examples(*DATA)
    return target_of(forward, examples, sbmc.Categorical(), prior, power=power)


def test_a_power_multiplies_every_value_and_every_gradient():
    whole, part = make_target(1.0), make_target(0.3)
    z = torch.randn(5, whole.dim, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    index = torch.arange(12).expand(5, 12)[:, :7]
    pairs = [
        (part(z), whole(z)),
        ((part.log_likelihood(z),), (whole.log_likelihood(z),)),
        (MiniBatches(part)(z, index), MiniBatches(whole)(z, index)),
        *((p(z), w(z)) for p, w in zip(part.split(3), whole.split(3), strict=True)),
    ]
    for found, plain in pairs:
        for one, other in zip(found, plain, strict=True):
            torch.testing.assert_close(one, 0.3 * other, rtol=1e-12, atol=1e-12)
            assert float(other.abs().max()) > 0.1


def test_targets_of_several_priors_share_an_engine_and_count_apart():
    target = make_target(0.3)
    centre = torch.zeros(target.dim).double()
    prior = AnchoredPrior(centre, torch.ones(target.dim).double(), centre)
    other = Target(target.engine, prior, target.power)
    z = torch.randn(2, target.dim, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    same = prior.to_parameters(z)
    torch.testing.assert_close(
        other.log_likelihood(z), target.log_likelihood(target.prior.to_whitened(same))
    )
    assert target.evaluations.forward == other.evaluations.forward == 2


# One anchor for each island


@pytest.mark.parametrize("start", ["anchor", "prior"])
@pytest.mark.parametrize(
    "options",
    [
        {"s": 0.2},
        {"factor_variance": 0.3},
        {"s": 0.2, "covariance": "laplace"},
        {"split": 0.4, "posterior_temperature": 0.5},
    ],
)
def test_an_island_is_what_its_anchor_alone_would_give(monkeypatch, start, options):
    monkeypatch.setattr("sbmc.islands.job.FOLD_PARTICLES", 2)  # so that all folds are one island
    options = {"sampler": QUICK, "particles": 2, "start": start, "islands": 4, **in_groups(options)}
    several = fit(make_net(), DATA, anchors=MEMBERS, **options)
    assert [report.index for report in several.islands] == [0, 1, 2, 3]
    for index in (1, 3):
        alone = fit(MEMBERS[index % 3], DATA, **options)
        assert torch.equal(several.positions[index], alone.positions[index])
        assert several.islands[index] == alone.islands[index]
    assert several.settings["anchors"] == 3


def test_islands_of_one_anchor_are_folded_without_a_trace(monkeypatch):
    options = {"s": 0.2, "anchors": MEMBERS, "sampler": QUICK, "particles": 2, "islands": 7}
    together = fit(make_net(), DATA, **options)
    monkeypatch.setattr("sbmc.islands.job.FOLD_PARTICLES", 2)
    apart = fit(make_net(), DATA, **options)
    torch.testing.assert_close(together.positions, apart.positions, rtol=1e-8, atol=1e-10)
    assert together.islands[5].index == 5


def test_mini_batch_samplers_take_the_anchors_too():
    options = {"sampler": SGLD(epochs=2, batch_size=5, step_size=1e-3), "particles": 2}
    several = fit(make_net(), DATA, anchors=MEMBERS, islands=2, **options)
    alone = fit(MEMBERS[1], DATA, islands=2, **options)
    torch.testing.assert_close(several.positions[1], alone.positions[1], rtol=1e-9, atol=1e-10)


def test_the_models_own_weights_are_not_used():
    first, second = (
        fit(make_net(seed), DATA, anchors=MEMBERS[:1], sampler=QUICK, particles=2)
        for seed in (3, 4)
    )
    assert torch.equal(first.positions, second.positions)
    assert torch.equal(first.positions, fit(MEMBERS[0], DATA, sampler=QUICK, particles=2).positions)


def test_an_ensemble_is_anchors_and_its_histories_are_the_cost():
    ensemble = sbmc.train_ensemble(nn.Linear(4, 3).double(), DATA, members=2, max_epochs=3)
    options = {"s": 0.001, "sampler": STILL, "particles": 3, "islands": 2}
    posterior = fit(nn.Linear(4, 3).double(), DATA, anchors=ensemble, **options)
    centre = ensemble.positions.unsqueeze(1)
    torch.testing.assert_close(posterior.positions, centre.expand(2, 3, -1), rtol=0, atol=5e-3)
    assert posterior.cost.anchor_epochs == ensemble.total_epochs == 6
    assert posterior.cost.total_epochs == posterior.cost.epochs * 3 * 2 + 6
    for islands in (1, 2):
        first = posterior.first(islands)
        assert first.settings["anchors"] == islands
        assert first.cost.total_epochs == posterior.cost.epochs * 3 * islands + 6


def test_histories_of_modules_are_added_up_unless_told_otherwise():
    members = [make_net(seed) for seed in (3, 4, 5)]
    for epochs, member in zip((7, 11), members[:2], strict=True):
        member.history = SimpleNamespace(epochs=epochs)
    model = make_net()
    model.history = SimpleNamespace(epochs=100)  # not an anchor, so not counted
    assert fit(model, DATA, s=0, anchors=iter(members)).cost.anchor_epochs == 18
    compute = sbmc.Compute(anchor_epochs=5)
    assert fit(model, DATA, s=0, anchors=members, compute=compute).cost.anchor_epochs == 5


def test_s_of_zero_gives_the_anchors_themselves():
    posterior = fit(make_net(), DATA, s=0, anchors=MEMBERS, islands=2, particles=9)
    expected = torch.stack([weights(member) for member in MEMBERS[:2]]).unsqueeze(1)
    assert torch.equal(posterior.positions, expected)
    assert posterior.weights.tolist() == [[0.5], [0.5]]
    assert posterior.settings["islands"] == posterior.settings["anchors"] == 2
    assert len(fit(make_net(), DATA, s=0, anchors=MEMBERS, islands=9).positions) == 3


def test_curvature_is_paid_for_once_for_each_anchor():
    prior = sbmc.Prior(split=0.3)
    options = {"prior": prior, "sampler": QUICK, "particles": 2, "anchors": MEMBERS}
    posterior = fit(make_net(), DATA, islands=4, **options)
    assert posterior.settings["prior_epochs"] == posterior.cost.prior_epochs == 3 * 3
    assert posterior.cost.total_epochs == 7 * 2 * 4 + 9
    for islands in (1, 2, 4):
        run = fit(make_net(), DATA, islands=islands, **options)
        first = posterior.first(islands)
        assert first.cost.total_epochs == run.cost.total_epochs
        assert first.settings == run.settings
        torch.testing.assert_close(first.positions, run.positions, rtol=1e-8, atol=1e-10)
    single = fit(make_net(), DATA, prior=prior, sampler=QUICK, particles=2, islands=2)
    assert single.first(1).cost.prior_epochs == single.cost.prior_epochs == 3


@pytest.mark.parametrize("options", [{"s": 0.1}, {"split": 0.1}])
def test_the_failure_of_an_anchor_stays_its_own(options):
    broken = make_net()
    with torch.no_grad():
        broken[2].weight.fill_(1e308)
    options = {"sampler": QUICK, "particles": 2, "islands": 3, **in_groups(options)}
    with pytest.warns(RuntimeWarning, match=r"1 of 3 islands failed and are left out \(island 1: "):
        posterior = fit(make_net(), DATA, anchors=[MEMBERS[0], broken, MEMBERS[2]], **options)
    assert [r.outcome for r in posterior.islands] == ["completed", "failed", "completed"]
    for place, index in enumerate((0, 2)):
        alone = fit(MEMBERS[index], DATA, **options)
        torch.testing.assert_close(
            posterior.positions[place], alone.positions[index], rtol=1e-8, atol=1e-10
        )


SMC_OPTIONS = {"s": 0.05, "particles": 8, "seed": 5, "sampler": SMC(mutations=3)}


def test_islands_of_smc_are_combined_equally_since_their_priors_differ():
    posterior = fit(make_net(), DATA, anchors=MEMBERS, islands=3, **SMC_OPTIONS)
    assert posterior.weighting == posterior.settings["island_weights"] == "equal"
    torch.testing.assert_close(posterior.weights.sum(1), torch.full((3,), 1 / 3).double())
    assert posterior.evidence is None
    assert len(set(posterior.log_evidence.tolist())) == 3
    assert posterior.first(1).evidence.log == posterior.islands[0].log_evidence
    words = "`weighting` must be 'equal' with `anchors`, since evidence compares islands of one p"
    with pytest.raises(BadInput, match=words):
        posterior.reweighted("evidence")
    assert torch.equal(posterior.reweighted("equal").weights, posterior.weights)
    alone = fit(
        MEMBERS[2], DATA, islands=3, compute=sbmc.Compute(island_weights="equal"), **SMC_OPTIONS
    )
    assert alone.evidence is not None
    torch.testing.assert_close(posterior.positions[2], alone.positions[2], rtol=1e-7, atol=1e-9)
    assert posterior.islands[2].log_evidence == pytest.approx(alone.islands[2].log_evidence)


def test_a_pilot_learns_at_the_first_anchor():
    options = {**SMC_OPTIONS, "sampler": SMC(mutations=3, pilot=True)}
    posterior = fit(make_net(), DATA, anchors=MEMBERS, islands=3, **options)
    alone = fit(MEMBERS[0], DATA, islands=1, **options)
    assert posterior.settings["frozen"] == alone.settings["frozen"]
    torch.testing.assert_close(posterior.positions[0], alone.positions[0], rtol=1e-7, atol=1e-9)


class Body(nn.Module):
    """A fixed buffer, a body and a head."""

    def __init__(self, shift=0.0):
        super().__init__()
        torch.manual_seed(4)
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)
        self.register_buffer("shift", torch.tensor(shift))

    def forward(self, x):
        return self.head(self.body(x + self.shift).tanh())


def test_anchors_that_differ_in_what_is_not_sampled_are_refused():
    words = "must be modules that equal `model` in all that is not sampled, but got another shift"
    with pytest.raises(BadInput, match=words):
        fit(Body().double(), DATA, anchors=[Body().double(), Body(1.0).double()])
    other = Body().double()
    with torch.no_grad():
        other.body.weight += 1
    with pytest.raises(BadInput, match=r"but got another body\.weight at 0"):
        fit(Body().double(), DATA, anchors=[other], parameters="last")
    posterior = fit(Body().double(), DATA, anchors=[other], sampler=QUICK, particles=2)
    assert posterior.settings["anchors"] == 1


def test_a_network_with_dropout_and_averaged_weights_are_anchors():
    torch.manual_seed(6)
    dropped = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 3)).double()
    averaged = torch.optim.swa_utils.AveragedModel(dropped)
    averaged.update_parameters(dropped)
    for model in (dropped, averaged.module):
        posterior = fit(model, DATA, s=1e-6, sampler=STILL, particles=2)
        torch.testing.assert_close(
            posterior.positions[0], weights(model).expand(2, -1), rtol=0, atol=1e-3
        )


# Settings


def test_settings_name_the_options_that_were_used_and_no_others():
    def settings(**options):
        found = fit(make_net(), DATA, sampler=QUICK, particles=2, **in_groups(options)).settings
        return {n: value for n, value in found.items() if n not in ("identity", "probe")}

    plain = settings()
    assert plain["s"] == 0.1
    extra = {
        "factor_variance": {"factor_variance": 0.2, "s": None},
        "split": {"split": 0.2, "s": None, "prior_epochs": 3},
        "covariance": {"covariance": "laplace", "prior_epochs": 3},
        "posterior_temperature": {"posterior_temperature": 0.5},
        "anchors": {"anchors": 1},
    }
    given = {
        "factor_variance": 0.2,
        "split": 0.2,
        "covariance": "laplace",
        "posterior_temperature": 0.5,
        "anchors": MEMBERS,
    }
    for name, changed in extra.items():
        assert settings(**{name: given[name]}) == {**plain, **changed}
    assert settings(covariance="linear") == plain


@pytest.mark.parametrize(
    ("options", "power"),
    [
        ({}, 1.0),
        ({"posterior_temperature": 0.25}, 4.0),
        ({"split": 0.25}, 0.75),
        ({"split": 0.25, "posterior_temperature": 0.5}, 1.5),
        ({"factor_variance": 0.1}, 1.0),
    ],
)
def test_the_power_of_the_likelihood(options, power):
    assert Anchoring(options=sbmc.Prior(**options)).power == power


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"anchors": 3}, "`anchors` must be an ensemble or a list of modules, but got 3."),
        ({"anchors": "map"}, "`anchors` must be an ensemble or a list of modules, but got 'map'."),
        ({"anchors": []}, "an ensemble or a list of modules, but got no modules."),
        ({"anchors": make_net()}, "list of modules, but got a module of type Sequential."),
        ({"anchors": [nn.Linear(4, 3)]}, "`anchors` must be modules with the parameters of `mod"),
        (
            {"anchors": MEMBERS, "sampler": SMC(), "island_weights": "evidence"},
            "`island_weights` must be 'equal' with `anchors`, since evidence compares islands of o",
        ),
        ({"factor_variance": 0}, "`factor_variance` must be positive and finite, but got 0."),
        ({"factor_variance": "1"}, "`factor_variance` must be positive and finite, but got '1'."),
        ({"factor_variance": float("inf")}, "positive and finite, but got inf."),
        (
            {"factor_variance": 0.1, "s": 0.2},
            "`factor_variance` must be given alone, since it replaces `s`, but got both, with s = ",
        ),
        ({"split": 0.0}, "`split` must be in (0, 1), but got 0.0."),
        ({"split": 1}, "`split` must be in (0, 1), but got 1."),
        ({"split": True}, "`split` must be in (0, 1), but got True."),
        ({"split": 0.1, "s": 0}, "`split` must be given alone, since it replaces `s`, but got bo"),
        ({"split": 0.1, "factor_variance": 0.1}, "since it replaces `s`, but got both, with spl"),
        (
            {"split": 0.1, "covariance": "laplace"},
            "`covariance` must be left out with `split`, which has no s to apply it to, but got 'l",
        ),
        ({"factor_variance": 0.1, "alpha": lambda s: s}, "`alpha` must be left out with `factor_"),
        ({"covariance": "laplce"}, "but got 'laplce'. Did you mean 'laplace'?"),
        ({"covariance": 3}, "`covariance` must be 'linear', 'laplace' or a rule, but got 3."),
        ({"posterior_temperature": 0}, "`posterior_temperature` must be positive and finite, but"),
        ({"posterior_temperature": None}, "positive and finite, but got None."),
        ({"posterior_temperature": float("nan")}, "positive and finite, but got nan."),
        (
            {"covariance": "laplace", "likelihood": lambda o, t: o.sum(-1)},
            "`covariance` must be left out for a likelihood of your own, whose Fisher information ",
        ),
        (
            {"split": 0.5, "likelihood": lambda o, t: o.sum(-1)},
            "`split` must be left out for a likelihood of your own, whose Fisher information is no",
        ),
    ],
)
def test_bad_options_are_refused_before_any_computing(options, words, monkeypatch):
    def computed(*_, **__):
        raise AssertionError("the data were gone through before the argument was refused")

    monkeypatch.setattr("sbmc.target.engine.LikelihoodEngine.__init__", computed)
    with pytest.raises(BadInput, match=re.escape(words)):
        fit(make_net(), DATA, particles=2, **in_groups(options))


def test_a_curved_prior_is_not_built_without_its_information():
    original = OriginalPrior(torch.ones(3).double(), None, (), 1.0)
    with pytest.raises(RuntimeError, match="before its information was computed"):
        Anchoring(options=sbmc.Prior(split=0.5)).prior(ANCHOR, original)
