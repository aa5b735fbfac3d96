"""`s="auto"` for numbers, counts and labels: one likelihood for all members, and learned noise."""

import pytest
import torch
from torch import nn

import sbmc
from sbmc.fitting import further_networks
from sbmc.fitting.mixture_plan import NETWORK
from sbmc.likelihoods import Gaussian
from sbmc.model import inferred_likelihood
from sbmc.model.data import Examples
from sbmc.model.noise import NOISE
from sbmc.posterior.log_scores import log_scores

BUDGET = sbmc.Budget(trainings=5, trained_epochs=10)
OPTIONS = {"budget": BUDGET, "progress": False}


def numbers(count, seed):
    rng = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 3, generator=rng)
    return inputs, inputs.sum(1).sin() + 0.3 * torch.randn(count, generator=rng)


def network(outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, outputs))


@pytest.fixture(scope="module")
def trained():
    return sbmc.train_map(network(), numbers(60, 0), max_epochs=40, progress=False)


@pytest.fixture(scope="module")
def mixed(trained):
    return sbmc.fit(trained, numbers(60, 0), validation=numbers(40, 1), **OPTIONS)


def test_numbers_are_mixed_with_noise_that_every_member_learns(trained, mixed):
    names = [member.name for member in mixed.mixture.members]
    assert names[:2] == [NETWORK, "3 networks, 2 of them trained here"]
    assert mixed.likelihood == Gaussian()
    assert "targets are numbers" in mixed.settings["likelihood_reason"]
    # Outputs are means here, and are not scaled.
    assert mixed.mixture.output_factors == (1.0, 1.0, 1.0)
    single = sbmc.fit(trained, numbers(60, 0), s=0.0, likelihood="gaussian")
    assert single.space.names[-1] == NOISE
    assert torch.equal(mixed.positions[0, 0], single.positions[0, 0])
    # The three networks of the second member, each with the noise of its own residuals.
    assert torch.equal(mixed.positions[1, 0], mixed.positions[0, 0])
    assert torch.pdist(mixed.positions[1:4, 0, :-1]).min() > 0.1
    assert torch.pdist(mixed.positions[1:4, 0, -1:]).min() > 0


def test_log_scores_of_numbers_are_densities_of_the_unseen_rows(trained, mixed):
    inputs, targets = numbers(40, 1)
    single = sbmc.fit(trained, numbers(60, 0), s=0.0)
    with torch.no_grad():
        means = trained(inputs).squeeze(1).double()
    deviation = (0.5 * single.positions[0, 0, -1].double()).exp()
    expected = torch.distributions.Normal(means, deviation).log_prob(targets.double()).mean()
    assert mixed.mixture.members[0].log_score == pytest.approx(float(expected), abs=1e-5)
    # What chooses the weights is what the prediction says of the same rows.
    scores = log_scores(mixed, Examples(inputs, targets.unsqueeze(1)))
    predicted = mixed.predict(inputs).log_prob(targets.unsqueeze(1))
    torch.testing.assert_close(scores, predicted, rtol=1e-5, atol=1e-5)


def test_a_mixture_of_numbers_is_saved_and_gives_plain_networks(trained, mixed, tmp_path):
    mixed.save(tmp_path / "mixed.sbmc")
    loaded = sbmc.load(tmp_path / "mixed.sbmc", network())
    inputs = numbers(5, 3)[0]
    assert loaded.mixture == mixed.mixture
    ours, theirs = loaded.predict(inputs), mixed.predict(inputs)
    assert torch.equal(ours.mean, theirs.mean)
    assert torch.equal(ours.aleatoric, theirs.aleatoric)
    assert torch.equal(ours.quantile(0.9), theirs.quantile(0.9))
    modules, weights = zip(*loaded.models(), strict=True)
    assert sum(weights) == pytest.approx(1)
    assert all(set(module.state_dict()) == set(trained.state_dict()) for module in modules)
    with torch.no_grad():
        mean = sum(w * m(inputs).double() for m, w in zip(modules, weights, strict=True))
    torch.testing.assert_close(mean, theirs.mean.double(), rtol=1e-5, atol=1e-6)


def test_the_likelihood_is_inferred_once(trained, monkeypatch):
    found, used = [], []
    infer, train = inferred_likelihood.infer_likelihood, further_networks.train_ensemble

    def inferred(*parts):
        found.append(infer(*parts))
        return found[-1]

    def train_ensemble(*parts, **options):
        used.append(options)
        return train(*parts, **options)

    monkeypatch.setattr(inferred_likelihood, "infer_likelihood", inferred)
    monkeypatch.setattr(further_networks, "train_ensemble", train_ensemble)
    counts = torch.ones(60)
    posterior = sbmc.fit(
        trained, numbers(60, 0), validation=numbers(40, 1), weights=counts, **OPTIONS
    )
    assert len(found) == 1
    assert used[0]["likelihood"] is posterior.likelihood is found[0].likelihood
    assert used[0]["weights"] is counts


def test_unseen_rows_have_no_weights_and_training_rows_do(trained, mixed):
    """A weight of 2 is a row twice, for the noise and the posteriors; scores are of plain rows."""
    inputs, targets = numbers(60, 0)
    counts = 1 + (torch.arange(60) % 2)
    twice = tuple(each.repeat_interleave(counts, 0) for each in (inputs, targets))
    options = {"validation": numbers(40, 1), "sampler": sbmc.HMC(steps=6), "particles": 4}
    options |= {"compute": sbmc.Compute(path="vmap"), "progress": False}
    weighted = sbmc.fit(trained, (inputs, targets), weights=counts.float(), **options)
    repeated = sbmc.fit(trained, twice, **options)
    assert weighted.settings["weights"]
    scores = [[each.log_score for each in one.mixture.members] for one in (weighted, repeated)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)
    # The planted bug: rows of weight 1 have another noise, and other scores.
    assert scores[0][0] != pytest.approx(mixed.mixture.members[0].log_score, abs=1e-3)


def on_or_off(targets):
    return (targets > 0).long()


@pytest.mark.parametrize(
    ("likelihood", "outputs", "targets_of"),
    [
        (None, 1, on_or_off),
        (None, 2, lambda targets: torch.stack([on_or_off(targets), on_or_off(targets + 0.5)], 1)),
        ("student-t", 1, lambda targets: targets),
        ("gaussian-network", 2, lambda targets: targets),
        ("poisson", 1, lambda targets: (targets + 2).round().long().clamp(min=0)),
        ("negative-binomial", 1, lambda targets: (targets + 2).round().long().clamp(min=0)),
    ],
)
def test_other_outputs_are_mixed_without_scaling(likelihood, outputs, targets_of):
    (inputs, targets), (unseen, unseen_targets) = numbers(60, 0), numbers(40, 1)
    posterior = sbmc.fit(
        network(outputs),
        (inputs, targets_of(targets)),
        validation=(unseen, targets_of(unseen_targets)),
        likelihood=likelihood,
        **OPTIONS,
    )
    assert len(posterior.mixture.members) == 4
    assert posterior.mixture.output_factors == (1.0, 1.0, 1.0)
    scores = torch.tensor([member.log_score for member in posterior.mixture.members])
    assert bool(scores.isfinite().all())
    assert ("likelihood_reason" in posterior.settings) == (likelihood is None)
