"""Sampling that did not happen must not pass for a posterior: every fit ends with a verdict."""

import dataclasses
import json
import re
import sys
import warnings
from itertools import pairwise

import pytest
import torch
from every_sampler import discover, small
from torch import nn

import sbmc
from sbmc.fitting.preparation import describe_sampler
from sbmc.islands.displacement import FISHER_ROWS, with_displacement
from sbmc.islands.health import Health, HealthWarning, assess
from sbmc.islands.island import IslandReport
from sbmc.samplers import HMC, MALA, SGHMC, SMC
from sbmc.target.curvature import diagonal_fisher, estimate_fisher


def digits(rows=300):
    from sklearn.datasets import load_digits

    found = load_digits()
    inputs = torch.tensor(found.images / 16, dtype=torch.float32).flatten(1)
    return inputs[:rows], torch.tensor(found.target[:rows])


def deep_network(data, layers=5, width=32, passes=40):
    sizes = [64, *[width] * layers]
    parts = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), nn.ReLU()]
    net = nn.Sequential(*parts, nn.Linear(width, 10))
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(passes):
        for rows in torch.randperm(len(data[1])).split(25):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(data[0][rows]), data[1][rows]).backward()
            optimiser.step()
    return net


@pytest.fixture(scope="module")
def frozen():
    """A deep network that HMC cannot move with the prior N(0, 1)."""
    torch.manual_seed(0)
    data = digits()
    net = deep_network(data)
    sampler = HMC(epochs=160)
    with pytest.warns(HealthWarning) as said:
        posterior = sbmc.fit(net, data, prior_variance=1.0, sampler=sampler, progress=False)
    return net, data, posterior, [str(each.message) for each in said]


def linear_data(rows=400, dim=3, classes=2):
    inputs = torch.randn(rows, dim)
    return inputs, (inputs[:, 0] + 0.5 * torch.randn(rows) > 0).long() % classes


def test_a_sampler_that_did_not_move_is_not_ok_and_says_so(frozen):
    _, _, posterior, said = frozen
    health = posterior.health
    assert health.ok is False
    assert health.figures["accepted_too_little"] + health.figures["moved_too_little"] > 0
    (words,) = said
    assert words.startswith("The posterior is not ok: ")
    assert all(reason in words for reason in health.reasons)
    assert all(remedy in words for remedy in health.remedies)


def test_the_first_remedy_works_when_it_is_followed(frozen):
    net, data, posterior, _ = frozen
    call = re.search(r"sampler=(sbmc\.\w+\([^)]*\))", posterior.health.remedies[0])
    assert call is not None
    sampler = eval(call[1], {"sbmc": sbmc})
    mended = sbmc.fit(net, data, prior_variance=1.0, progress=False, sampler=sampler)
    assert mended.health.ok is True, str(mended.health)


@pytest.mark.parametrize("rows", [200, 5000])
def test_linear_models_with_many_examples_are_ok(rows):
    data = linear_data(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = sbmc.fit(nn.Linear(3, 2), data, s=1, sampler=HMC(epochs=400), progress=False)
    assert posterior.health.ok is True, str(posterior.health)
    assert posterior.health.reasons == ()


def test_linear_regression_with_many_examples_is_ok():
    inputs = torch.randn(600, 4)
    weights = torch.tensor([1.0, -1, 0.5, 0])
    targets = inputs @ weights + 0.3 * torch.randn(600)
    net = nn.Linear(4, 1)
    net.weight.data, net.bias.data = weights.view(1, 4), torch.zeros(1)
    posterior = sbmc.fit(
        net,
        (inputs, targets),
        likelihood=sbmc.Gaussian(noise_variance=0.09),
        s=1,
        sampler=HMC(leapfrog=8, steps=40),
        progress=False,
    )
    assert posterior.health.ok is True, str(posterior.health)


def report(index=0, **given):
    usual = {
        "steps": 10,
        "moves": 5,
        "displacement": [1.0] * 20,
        "particle_acceptance": [0.8] * 20,
        "returned": 0,
        "distinct": 20,
    }
    return IslandReport(index, "completed", **{**usual, **given})


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, None),
        ({"displacement": [0.29, *[1.0] * 19]}, None),  # one of twenty is not more than 5 %
        ({"displacement": [0.29, 0.0, *[1.0] * 18]}, "moved less than 0.3"),
        ({"displacement": [float("nan"), 0.0, *[1.0] * 18]}, "moved less than 0.3"),
        ({"displacement": [0.3, 0.3, *[1.0] * 18]}, None),
        ({"particle_acceptance": [0.0, *[0.9] * 19]}, None),
        ({"particle_acceptance": [0.19, 0.1, *[0.9] * 18]}, "accepted less than 20%"),
        ({"particle_acceptance": []}, None),  # a sampler that rejects nothing
        ({"moves": 2}, None),
        ({"moves": 1}, "Only one move followed the warm-up"),
        ({"moves": 0}, "No move followed the warm-up"),
        ({"collapsed": "only 2 of its 8 particles differ"}, "collapsed"),
        ({"restarted": 1}, None),
        ({"restarted": 2}, "2 of 20 particles blew up and were put back in the last half"),
        ({"relaxing": "the log likelihood rose"}, "still relaxing (island 0: the log likelihood"),
    ],
)
def test_the_thresholds_are_those_that_were_fixed(changes, word):
    health = assess([report(**changes)], {"sampler": "HMC", "sampler_settings": {"epochs": 160}})
    assert health.ok is (word is None)
    if word is not None:
        assert any(word in reason for reason in health.reasons)
        assert health.remedies


def test_single_particles_count_and_not_means_of_islands():
    """Nine good islands do not excuse one that never moved."""
    good = [report(i) for i in range(9)]
    bad = report(9, displacement=[0.0] * 20, particle_acceptance=[0.0] * 20, returned=20)
    health = assess([*good, bad], {})
    assert health.ok is False
    assert "20 of 200 particles" in health.reasons[0]
    assert "20 are where they began" in str(health)


def test_what_was_not_sampled_is_ok_and_what_was_not_checked_is_neither():
    assert assess([IslandReport(0, "completed")], {}).ok is True
    old = assess([IslandReport(0, "completed", steps=30, acceptance=0.7)], {})
    assert old.ok is None
    assert "earlier version" in str(old)


@pytest.mark.parametrize("kind", discover(), ids=lambda kind: kind.__name__)
def test_every_sampler_says_what_the_verdict_needs(kind):
    posterior = sbmc.fit(
        nn.Linear(3, 2), linear_data(60), sampler=small(kind), particles=4, progress=False
    )
    (found,) = posterior.islands
    population = posterior.positions.shape[1]
    assert len(found.displacement) in (4, population)
    assert all(value >= 0 for value in found.displacement)
    assert found.moves >= 1
    assert found.distinct >= 1
    rejects = not issubclass(kind, (SGHMC, sbmc.SGLD, sbmc.UBU, sbmc.MCLMC))
    # Nothing is known of acceptance after warm-up if no move came after it.
    assert len(found.particle_acceptance) == (4 if rejects else 0)
    assert posterior.health.ok in (True, False)


def test_particles_of_smc_are_compared_with_the_draws_that_they_descend_from():
    """Without moves every particle is still its first ancestor, whatever was resampled."""
    still = SMC(mutations=2, move=HMC(leapfrog=1, step_size=80.0))
    posterior = sbmc.fit(nn.Linear(3, 2), linear_data(60), sampler=still, progress=False)
    figures = posterior.health.figures
    assert figures["returned"] == figures["particles"] == 10
    assert posterior.health.ok is False


def test_displacement_is_in_units_of_the_posterior(monkeypatch):
    """Exact draws of a Gaussian posterior around its mode have a displacement of one."""
    rows, dim, noise = 4000, 6, 0.5
    inputs = torch.randn(rows, dim)
    net = nn.Linear(dim, 1, bias=False)
    mean = net.weight.detach()[0]
    data = (inputs, inputs @ mean + noise**0.5 * torch.randn(rows))
    likelihood = sbmc.Gaussian(noise_variance=noise)
    options = {"s": 1, "prior_variance": 1.0, "likelihood": likelihood}
    options["sampler"] = HMC(steps=1, leapfrog=1)
    found = captured_work(monkeypatch, net, data, particles=400, **options)
    (island,) = found["islands"]
    covariance = torch.linalg.inv(inputs.mT @ inputs / noise + torch.eye(dim))
    draws = mean + torch.randn(400, dim) @ torch.linalg.cholesky(covariance).mT
    exact = dataclasses.replace(island, positions=draws)
    (measured,) = with_displacement([exact], dataclasses.replace(found["work"], start=at(mean)))
    displacement = torch.tensor(measured.report.displacement).double()
    # The standard error of the mean square over 400 particles in 6 dimensions is 3 %, and that of
    # the information from 128 rows 5 % in each of them.
    assert float(displacement.square().mean()) == pytest.approx(1, abs=0.2)
    # In units of the prior, whose width is 90 times the posterior's, all would seem to stay.
    assert float((draws - mean).square().mean(1).sqrt().max()) < 0.1


def at(point):
    return lambda prior, rng, particles: point.expand(particles, -1)


class Watched:
    """A forward that counts the examples it is given."""

    def __init__(self, forward):
        self._forward, self.examples = forward, 0

    def __call__(self, theta, inputs, **options):
        self.examples += len(theta)
        return self._forward(theta, inputs, **options)

    def __getattr__(self, name):
        return getattr(self._forward, name)


def captured_work(monkeypatch, net, data, **options):
    found = {}

    def capture(islands, work):
        found["work"], found["islands"] = work, islands
        return with_displacement(islands, work)

    monkeypatch.setattr(sys.modules["sbmc.fitting.fit"], "with_displacement", capture)
    found["posterior"] = sbmc.fit(net, data, progress=False, **options)
    return found


@pytest.mark.parametrize("rows", [40, 1000])
def test_the_verdict_costs_less_than_an_epoch(monkeypatch, rows):
    found = captured_work(
        monkeypatch, nn.Linear(3, 2), linear_data(rows), sampler=HMC(steps=4), islands=3
    )
    engine = found["work"].engine
    watched = Watched(engine._ranges.forward)
    monkeypatch.setattr(engine._ranges, "forward", watched)
    with_displacement(found["islands"], found["work"])
    assert 0 < watched.examples <= min(rows, FISHER_ROWS)


@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
def test_the_estimate_of_the_information_is_unbiased(monkeypatch, kind):
    inputs, labels = linear_data(150)
    likelihood = "categorical" if kind == "categorical" else sbmc.Gaussian(noise_variance=0.3)
    data = (inputs, labels if kind == "categorical" else torch.randn(150, 2))
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    found = captured_work(monkeypatch, net, data, sampler=HMC(steps=4), likelihood=likelihood)
    engine, anchor = found["work"].engine, found["work"].priors[0].anchor
    exact = diagonal_fisher(engine.parts(), anchor).diagonal
    rng = torch.Generator().manual_seed(0)
    drawn = torch.stack([estimate_fisher(engine.parts(), anchor, 150, rng) for _ in range(300)])
    error = drawn.std(0) / 300**0.5
    # Five standard errors for each of 26 parameters: a false alarm in 1 of 60,000.
    assert ((drawn.mean(0) - exact).abs() <= 5 * error + 1e-9).all()
    # A planted bug, a sum over the rows that is not scaled to all data, is caught.
    half = torch.stack([estimate_fisher(engine.parts(), anchor, 75, rng) for _ in range(300)]) / 2
    assert ((half.mean(0) - exact).abs() > 5 * error).any()


def test_the_verdict_changes_no_bit_of_the_posterior(monkeypatch):
    data, options = linear_data(), {"sampler": HMC(steps=6), "progress": False}
    net = nn.Linear(3, 2)
    judged = sbmc.fit(net, data, **options)
    monkeypatch.setattr(
        sys.modules["sbmc.fitting.fit"], "with_displacement", lambda islands, work: islands
    )
    assert torch.equal(sbmc.fit(net, data, **options).positions, judged.positions)


def test_the_verdict_goes_with_the_posterior(frozen, tmp_path):
    net, _, posterior, _ = frozen
    posterior.save(tmp_path / "frozen.sbmc")
    assert sbmc.load(tmp_path / "frozen.sbmc", net).health == posterior.health
    assert posterior.reweighted("equal").health == posterior.health
    json.dumps(posterior.health.as_dict(), allow_nan=False)


def test_a_part_of_the_islands_and_merged_ones_have_a_verdict_of_their_own():
    net, data = nn.Linear(3, 2), linear_data()
    options = {"sampler": HMC(steps=12), "progress": False, "islands": 2}
    one = sbmc.fit(net, data, **options)
    two = sbmc.fit(net, data, **options, compute=sbmc.Compute(first_island=2))
    assert one.health.figures["particles"] == 20
    assert one.first(1).health.figures["particles"] == 10
    assert sbmc.merge([one, two]).health.figures["particles"] == 40


def test_a_resumed_run_has_the_verdict_of_an_undisturbed_one(tmp_path):
    net, data = nn.Linear(3, 2), linear_data()
    options = {"sampler": HMC(steps=12), "progress": False}
    undisturbed = sbmc.fit(net, data, **options)
    for _ in range(2):  # the second time all islands are found finished
        again = sbmc.fit(net, data, **options, compute=sbmc.Compute(checkpoint=tmp_path / "run"))
        assert again.health == undisturbed.health


def test_repr_and_notebook_show_the_verdict(frozen):
    _, _, posterior, _ = frozen
    assert repr(posterior).endswith("health='not ok')")
    page = posterior._repr_html_()
    assert "not ok" in page
    assert "what to try" in page
    evil = dataclasses.replace(posterior.islands[0], collapsed="<script>alert(1)</script>")
    posterior_copy = posterior.reweighted("equal")
    posterior_copy.islands = [evil]
    assert "<script>" not in posterior_copy._repr_html_()


def test_chains_rejected_in_the_tails_are_seen():
    """One chain of ten that is always rejected is hidden by the island's mean acceptance."""
    found = report(particle_acceptance=[0.0, *[0.9] * 9], displacement=[1.0] * 10)
    health = assess([found], {"sampler": "MALA", "sampler_settings": {"epochs": 160}})
    assert health.ok is False
    assert "sbmc.SGHMC" in health.remedies[0]


@pytest.mark.parametrize(
    ("sampler", "epochs"), [(HMC(epochs=160), 640), (MALA(steps=40), 160), (HMC(leapfrog=4), 640)]
)
def test_remedies_are_calls_that_can_be_made(sampler, epochs):
    settings = {
        "sampler": type(sampler).__name__,
        "sampler_settings": describe_sampler(sampler),
    }
    bad = report(particle_acceptance=[0.0] * 20)
    first, second = assess([bad], settings).remedies
    for sentence, kind in ((first, SGHMC), (second, type(sampler))):
        call = re.search(r"sampler=(sbmc\.\w+\([^)]*\))", sentence)
        assert isinstance(eval(call[1], {"sbmc": sbmc}), kind)
    longer = eval(re.search(r"sampler=(sbmc\.\w+\([^)]*\))", second)[1], {"sbmc": sbmc})
    assert epochs in (longer.epochs, longer.steps)
    assert getattr(longer, "leapfrog", None) == getattr(sampler, "leapfrog", None)


def test_a_health_is_plain_to_read():
    assert str(Health(True)) == "ok"
    assert Health(False, ("It stayed.",), ("Do this.",)).word == "not ok"
    assert str(Health(False, ("It stayed.",), ("Do this.",))) == "not ok: It stayed. Do this."
