"""Predictions in batches of any size, parts of a posterior, and ensembles as posteriors."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import sbmc
from sbmc import HMC, BadInput, Gaussian
from sbmc.islands.cost import Cost
from sbmc.islands.island import IslandReport
from sbmc.likelihoods import Categorical, Custom
from sbmc.model.parameters import select_parameters
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.weights import island_weights
from sbmc.prediction.prediction import concatenate

EXAMPLES = 11
INPUTS = torch.randn(EXAMPLES, 4, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(EXAMPLES) % 3


def make_net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def make_posterior(
    islands=3, particles=4, likelihood=None, net=None, within=None, evidence=None, weighting="equal"
):
    net = net or make_net()
    space = select_parameters(net)
    noise = torch.Generator().manual_seed(3)
    positions = space.flatten(net) + 0.5 * torch.randn(
        islands, particles, space.dim, generator=noise
    )
    given = [None] * islands if evidence is None else evidence
    return Posterior(
        net,
        space,
        likelihood or Categorical(),
        positions,
        log_evidence=torch.tensor([value or 0.0 for value in given], dtype=torch.float64),
        islands=[
            IslandReport(i, "completed", log_evidence=given[i], epochs=10.0 + i)
            for i in range(islands)
        ],
        cost=Cost(11.0, 0.0, 5.0, 11.0 * particles * islands + 5.0, 2.0),
        settings={"particles": particles, "islands": islands},
        within=within,
        weighting=weighting,
    )


def outputs_by_hand(posterior, inputs):
    net = make_net()
    results = []
    for theta in posterior.positions.flatten(0, 1):
        posterior.space.write(theta, net)
        results.append(net(inputs).detach().double())
    return torch.stack(results)


def assert_same(ours, theirs, tolerance=1e-6):
    for name in ("probs", "total", "aleatoric", "epistemic"):
        first, second = getattr(ours, name), getattr(theirs, name)
        torch.testing.assert_close(first, second, rtol=tolerance, atol=tolerance)


def test_the_prediction_is_the_weighted_mixture():
    within = torch.rand(3, 4, dtype=torch.float64)
    within[1, 2] = 0
    within /= within.sum(1, keepdim=True)
    posterior = make_posterior(within=within, evidence=[0.3, -0.2, 1.0], weighting="evidence")
    across = torch.tensor([0.3, -0.2, 1.0], dtype=torch.float64).softmax(0)
    torch.testing.assert_close(posterior.weights, across[:, None] * within)
    probs = outputs_by_hand(posterior, INPUTS).softmax(-1)
    w = posterior.weights.flatten()[:, None, None]
    prediction = posterior.predict(INPUTS)
    mixture = (w * probs).sum(0)
    torch.testing.assert_close(prediction.probs, mixture, rtol=1e-5, atol=1e-6)
    total = torch.special.entr(mixture).sum(-1)
    aleatoric = (w * torch.special.entr(probs)).sum((0, 2))
    torch.testing.assert_close(prediction.total, total, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(prediction.epistemic, total - aleatoric, rtol=1e-4, atol=1e-6)


class Stream(IterableDataset):
    def __iter__(self):
        yield from INPUTS


class Named(Dataset):
    def __len__(self):
        return EXAMPLES

    def __getitem__(self, index):
        return {"input": INPUTS[index], "labels": int(LABELS[index])}


@pytest.mark.parametrize("batch_size", [1, 2, 5, 10, 11, 100, None])
def test_batches_of_any_size_give_the_same(batch_size):
    posterior = make_posterior()
    prediction = posterior.predict(INPUTS, batch_size=batch_size)
    assert len(prediction) == EXAMPLES
    assert_same(prediction, make_posterior().predict(INPUTS, batch_size=4))


@pytest.mark.parametrize("limit", [0, 100])
@pytest.mark.parametrize("likelihood", [Categorical(), Gaussian(noise_variance=0.2)], ids=repr)
def test_results_are_put_together_on_the_way(monkeypatch, limit, likelihood):
    posterior = make_posterior(likelihood=likelihood)
    whole = posterior.predict(INPUTS)
    joins = []

    def note(parts):
        joins.append(len(parts))
        return concatenate(parts)

    monkeypatch.setattr("sbmc.posterior.streaming.concatenate", note)
    monkeypatch.setattr("sbmc.posterior.streaming.JOIN_BYTES", limit)
    prediction = posterior.predict(INPUTS, batch_size=1)
    assert len(joins) > 2
    assert len(prediction) == EXAMPLES
    for name in ("probs", "epistemic") if likelihood == Categorical() else ("mean", "epistemic"):
        torch.testing.assert_close(getattr(prediction, name), getattr(whole, name))


@pytest.mark.parametrize(
    "inputs",
    [
        INPUTS.numpy(),
        INPUTS.tolist(),
        INPUTS.double(),
        (INPUTS,),
        {"input": INPUTS},
        DataLoader(TensorDataset(INPUTS), batch_size=4),
        DataLoader(TensorDataset(INPUTS, LABELS), batch_size=4),
        DataLoader(list(INPUTS), batch_size=3),
        DataLoader(Named(), batch_size=5),
        DataLoader(Stream(), batch_size=5),
    ],
)
def test_forms_of_inputs(inputs):
    assert_same(make_posterior().predict(inputs, progress=False), make_posterior().predict(INPUTS))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("parameters", ["all", "last"])
def test_prediction_where_gradients_are_off(mode, parameters):
    sampler = HMC(steps=2, leapfrog=1, step_size=0.1)
    posterior = sbmc.fit(
        make_net(), (INPUTS, LABELS), sampler=sampler, particles=2, parameters=parameters
    )
    with mode():
        quiet = posterior.predict(INPUTS)
    assert_same(quiet, posterior.predict(INPUTS))
    assert not quiet.probs.requires_grad


def test_many_particles_go_through_in_parts(monkeypatch):
    whole = make_posterior().predict(INPUTS)
    monkeypatch.setattr("sbmc.model.predicting.PARTICLES_AT_ONCE", 5)
    monkeypatch.setattr("sbmc.model.predicting.MOST_AT_ONCE", 5)
    assert_same(make_posterior().predict(INPUTS), whole)


def test_regression():
    posterior = make_posterior(likelihood=Gaussian(noise_variance=0.2))
    outputs = outputs_by_hand(posterior, INPUTS)
    prediction = posterior.predict(INPUTS, batch_size=4)
    torch.testing.assert_close(prediction.mean, outputs.mean(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        prediction.epistemic, outputs.var(0, correction=0), rtol=1e-5, atol=1e-6
    )
    torch.testing.assert_close(prediction.aleatoric, torch.full((EXAMPLES, 3), 0.2).double())


@pytest.mark.parametrize("classification", [True, False])
def test_a_callable_likelihood_says_what_is_predicted(classification):
    family = Custom(lambda outputs, targets: outputs.sum(-1), classification)
    prediction = make_posterior(likelihood=family).predict(INPUTS)
    if classification:
        assert_same(prediction, make_posterior().predict(INPUTS))
    else:
        assert (prediction.aleatoric == 0).all()
        assert (prediction.epistemic > 0).all()


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        (INPUTS[:0], {}, "`inputs` must be non-empty, but got 0 examples."),
        (DataLoader(TensorDataset(INPUTS[:0])), {}, "`inputs` must be non-empty, but got no batc"),
        (INPUTS / 0, {}, "`inputs` must be finite, but got 44 values that are NaN or infinite."),
        ("words", {}, "`inputs` must be a tensor or an array, but got 'words'."),
        (object(), {}, "`inputs` must be a tensor or an array, but got a value of type object."),
        (INPUTS, {"batch_size": 0}, "`batch_size` must be a positive integer or None, but got 0."),
        (
            INPUTS,
            {"batch_size": 2.5},
            "`batch_size` must be a positive integer or None, but got 2.5.",
        ),
    ],
)
def test_refusals(inputs, options, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        make_posterior().predict(inputs, **options)


def test_progress_is_shown_when_asked_for(capsys):
    make_posterior().predict(INPUTS, batch_size=4, progress=True)
    assert "11/11 examples" in capsys.readouterr().err
    make_posterior().predict(INPUTS, batch_size=4)
    assert not capsys.readouterr().err


def test_the_first_islands_are_what_a_smaller_run_gives():
    whole = make_posterior(islands=3)
    part = whole.first(2)
    assert torch.equal(part.positions, whole.positions[:2])
    assert float(part.weights.sum()) == pytest.approx(1)
    assert part.cost.epochs == 10.5
    assert part.cost.total_epochs == 10.5 * 4 * 2 + 5
    assert part.cost.wall_seconds is None
    assert part.settings["islands"] == 2
    assert whole.settings["islands"] == 3
    assert_same(part.predict(INPUTS), without_the_last().predict(INPUTS))
    assert_same(whole.first(3).predict(INPUTS), whole.predict(INPUTS))


def without_the_last():
    return make_posterior(evidence=[0.0, 0.0, -1e4], weighting="evidence")


def test_the_first_islands_of_a_fit():
    options = {"sampler": HMC(steps=2, leapfrog=1, step_size=0.1), "particles": 2}
    many = sbmc.fit(make_net().double(), (INPUTS, LABELS), islands=4, **options)
    few = sbmc.fit(make_net().double(), (INPUTS, LABELS), islands=2, **options)
    torch.testing.assert_close(many.first(2).positions, few.positions, rtol=1e-8, atol=1e-10)
    assert many.first(2).cost.total_epochs == few.cost.total_epochs


def test_failed_islands_count_among_the_first():
    whole = make_posterior(islands=2)
    failed = IslandReport(0, "failed", message="not finite")
    whole.islands.insert(0, failed)  # its positions are not there
    assert torch.equal(whole.first(2).positions, whole.positions[:1])
    with pytest.raises(BadInput, match="`islands` must be enough for one that completed, but got"):
        whole.first(1)


@pytest.mark.parametrize("islands", [0, 4, 1.5, True])
def test_first_refusals(islands):
    words = f"`islands` must be an integer from 1 to 3, but got {islands!r}."
    with pytest.raises(BadInput, match=re.escape(words)):
        make_posterior().first(islands)


# Islands that are combined by their evidence


def even(islands, particles):
    return torch.full((islands, particles), 1 / particles, dtype=torch.float64)


def test_evidence_decides_between_islands():
    logs = torch.tensor([0.0, math.log(3), -1e4], dtype=torch.float64)
    weights = island_weights(logs, even(3, 2), "evidence")
    expected = torch.tensor([[1, 1], [3, 3], [0, 0]]).double() / 8
    torch.testing.assert_close(weights, expected, rtol=1e-12, atol=0)
    # Logs that no exponential could hold.
    far = torch.tensor([-5e5, -5e5 - 800.0])
    assert island_weights(far, even(2, 1), "evidence").tolist() == [[1.0], [0.0]]
    equal = island_weights(logs, even(3, 2), "equal")
    torch.testing.assert_close(equal, torch.full((3, 2), 1 / 6, dtype=torch.float64))
    posterior = make_posterior(evidence=logs.tolist(), weighting="evidence")
    assert posterior.island_ess == pytest.approx(1.6)
    assert make_posterior(evidence=logs.tolist()).island_ess == pytest.approx(3)


def test_weights_inside_an_island_stay_what_they_are():
    within = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]], dtype=torch.float64)
    for weighting, across in (("evidence", [0.2, 0.8]), ("equal", [0.5, 0.5])):
        weights = island_weights(torch.tensor([1.0, 4.0]).double().log(), within, weighting)
        expected = torch.tensor(across, dtype=torch.float64)[:, None] * within
        torch.testing.assert_close(weights, expected)


def test_the_evidence_is_the_mean_over_islands_with_its_standard_error():
    values = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)
    # Far below what an exponential could hold, where only the differences count.
    logs = values.log() - 4e3
    found = make_posterior(evidence=logs.tolist(), weighting="evidence").evidence
    assert found.log == pytest.approx(math.log(3) - 4e3, abs=1e-9)
    # The sample of Z has the standard deviation √7; that of a log is relative to the mean.
    assert found.standard_error == pytest.approx(math.sqrt(7) / 3 / math.sqrt(3), rel=1e-9)
    # How islands are combined is no matter of how likely the data are.
    assert make_posterior(evidence=logs.tolist()).evidence == found


@pytest.mark.parametrize("islands", [1, 2])
def test_few_islands_tell_no_standard_error(islands):
    found = make_posterior(islands=islands, evidence=[-3.0] * islands).evidence
    assert found.log == pytest.approx(-3)
    assert found.standard_error is None


def test_there_is_no_evidence_where_none_was_estimated():
    assert make_posterior().evidence is None
    sampler = HMC(steps=2, leapfrog=1, step_size=0.1)
    assert sbmc.fit(make_net(), (INPUTS, LABELS), sampler=sampler, particles=2).evidence is None


def test_an_island_that_failed_does_not_hide_the_evidence_of_the_others():
    posterior = make_posterior(islands=1, evidence=[-3.0])
    posterior.islands.append(IslandReport(1, "stuck", message="no temperature above 0"))
    assert posterior.evidence == (pytest.approx(-3), None)


def test_reweighted_changes_the_combination_and_nothing_else():
    within = torch.rand(3, 4, dtype=torch.float64)
    within /= within.sum(1, keepdim=True)
    options = {"within": within, "evidence": [0.0, -1.0, 2.0]}
    ours = make_posterior(**options, weighting="evidence")
    before = ours.weights.clone()
    equal = ours.reweighted("equal")
    assert (ours.weighting, equal.weighting) == ("evidence", "equal")
    assert torch.equal(ours.weights, before)
    assert torch.equal(equal.weights, make_posterior(**options).weights)
    assert not torch.allclose(equal.weights, ours.weights)
    assert torch.equal(equal.positions, ours.positions)
    assert equal.settings["island_weights"] == "equal"
    assert "island_weights" not in ours.settings
    assert_same(equal.predict(INPUTS), make_posterior(**options).predict(INPUTS))
    assert torch.equal(equal.reweighted("evidence").weights, before)


def test_reweighted_refuses_other_words():
    words = "`weighting` must be one of evidence, equal, but got 'evidense'. Did you mean 'ev"
    with pytest.raises(BadInput, match=re.escape(words)):
        make_posterior().reweighted("evidense")


def test_the_first_islands_may_be_the_ones_that_the_evidence_left_nothing():
    # Beside the last island, the first two underflow; by themselves they share as 1 to 3.
    logs = [-5e3, -5e3 + math.log(3), 0.0]
    whole = make_posterior(evidence=logs, weighting="evidence")
    assert whole.weights[:2].sum() == 0
    part = whole.first(2)
    expected = torch.tensor([1.0, 3.0], dtype=torch.float64) / 4
    torch.testing.assert_close(part.weights.sum(1), expected, rtol=1e-9, atol=0)
    assert part.weighting == "evidence"
    assert part.evidence.log == pytest.approx(-5e3 + math.log(2))
    assert part.evidence.standard_error is None
    assert torch.isfinite(part.predict(INPUTS).probs).all()


def test_words():
    assert repr(make_posterior()) == "Posterior(islands=3, particles=4, dim=43)"


class WithStatistics(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU())
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.body(x))


@pytest.mark.parametrize("islands", [1, 2])
def test_members_of_an_ensemble_keep_their_own_statistics(islands):
    data = INPUTS, LABELS
    ensemble = sbmc.train_ensemble(
        WithStatistics(), data, members=4, max_epochs=3, batch_size=4, prior_variance=0.3
    )
    members = ensemble.models
    means = torch.stack([member.body[1].running_mean for member in members])
    assert len(means.unique(dim=0)) == 4
    posterior = ensemble.posterior(islands=islands)
    assert posterior.positions.shape[:2] == (islands, 4 // islands)
    probs = torch.stack([member(INPUTS).softmax(-1).detach().double() for member in members])
    prediction = posterior.predict(INPUTS)
    torch.testing.assert_close(prediction.probs, probs.mean(0), rtol=1e-5, atol=1e-6)
    assert posterior.cost.total_epochs == 12


def test_an_ensemble_without_buffers():
    ensemble = sbmc.train_ensemble(make_net(), (INPUTS, LABELS), members=3, max_epochs=1)
    posterior = ensemble.posterior()
    assert torch.equal(posterior.positions[0], ensemble.positions)
    probs = torch.stack([member(INPUTS).softmax(-1).detach().double() for member in ensemble])
    torch.testing.assert_close(posterior.predict(INPUTS).probs, probs.mean(0), rtol=1e-5, atol=1e-6)
    with pytest.raises(
        BadInput, match=r"`islands` must be a divisor of the 3 members, but got 2\."
    ):
        ensemble.posterior(islands=2)


def test_arviz_gets_the_posterior_and_the_number_of_draws(monkeypatch):
    given = []
    monkeypatch.setattr(
        "sbmc.diagnostics.arviz.to_arviz",
        lambda posterior, draws=None: given.append((posterior, draws)) or "data",
    )
    posterior = make_posterior()
    assert posterior.to_arviz() == posterior.to_arviz(draws=2) == "data"
    assert given == [(posterior, None), (posterior, 2)]
