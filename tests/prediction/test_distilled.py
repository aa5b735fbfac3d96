"""Questions to a prediction without particles: a Dirichlet of probabilities, a normal target."""

from __future__ import annotations

import pickle

import pytest
import torch
from scipy import stats

from sbmc import BadInput
from sbmc.prediction.distilled import (
    dirichlet_concentration,
    distilled_prediction,
    mutual_information,
)

PROBS = torch.tensor([[0.7, 0.2, 0.1], [0.98, 0.01, 0.01]], dtype=torch.float64)
TOTAL = torch.special.entr(PROBS).sum(-1)


def classes(share=(0.3, 0.01)):
    epistemic = TOTAL * torch.tensor(share, dtype=torch.float64)
    return distilled_prediction(PROBS, TOTAL, TOTAL - epistemic, epistemic, classes=True)


def numbers():
    noise, epistemic = (
        torch.tensor([[a, b]] * 3, dtype=torch.float64) for a, b in ((4, 1), (5, 8))
    )
    means = torch.arange(6.0, dtype=torch.float64).view(3, 2)
    return distilled_prediction(means, noise + epistemic, noise, epistemic, classes=False)


def test_the_information_of_a_dirichlet_is_that_of_draws():
    """The standard error of the mean entropy of 200,000 draws is below 1e-3; 5 of them allowed."""
    draws = stats.dirichlet.rvs(3.0 * PROBS[0].numpy(), 200_000, random_state=0)
    within = torch.special.entr(torch.from_numpy(draws)).sum(-1).mean()
    found = mutual_information(PROBS[:1], torch.tensor([3.0]))
    assert found.item() == pytest.approx(float(TOTAL[0] - within), abs=5e-3)


@pytest.mark.parametrize("concentration", [1e-3, 0.5, 20.0, 1e5])
def test_the_concentration_is_the_one_whose_information_is_given(concentration):
    values = torch.full((2,), concentration, dtype=torch.float64)
    found = dirichlet_concentration(PROBS, mutual_information(PROBS, values))
    torch.testing.assert_close(found, values, rtol=1e-5, atol=0)


def test_particles_that_agree_have_the_largest_concentration():
    found = dirichlet_concentration(PROBS, torch.zeros(2, dtype=torch.float64))
    assert (found > 1e12).all()


def test_the_spread_of_probabilities():
    prediction = classes()
    for row in range(2):
        parameters = prediction.dirichlet[row].numpy()
        variance = stats.dirichlet.var(parameters).sum()
        split = prediction.split("variance")
        assert split.epistemic[row].item() == pytest.approx(variance, rel=1e-9)
        assert split.total[row].item() == pytest.approx(1 - float(PROBS[row].square().sum()))
        interval = prediction.interval(0.8, kind="credible")
        for y in range(3):
            marginal = stats.beta(parameters[y], parameters.sum() - parameters[y])
            assert interval.lower[row, y].item() == pytest.approx(marginal.ppf(0.1), rel=1e-6)
            assert interval.upper[row, y].item() == pytest.approx(marginal.ppf(0.9), rel=1e-6)
    assert prediction.quantile(0.5, kind="credible").shape == (2, 3)


def test_labels_are_drawn_by_their_probabilities():
    draws = classes().sample(4000)
    assert draws.shape == (4000, 2)
    counts = torch.stack([(draws[:, 0] == y).double().mean() for y in range(3)])
    # Five standard errors of 4,000 draws.
    assert (counts - PROBS[0]).abs().max() < 5 * 0.5 / 4000**0.5
    assert torch.equal(draws, classes().sample(4000))


def test_what_only_particles_know_is_refused_with_a_remedy():
    for ask in (lambda p: p.features(), lambda p: p.split("zero-one")):
        with pytest.raises(BadInput, match="particles"):
            ask(classes())
    with pytest.raises(BadInput, match=r"Ask `posterior\.predict"):
        classes()._need_particles()
    with pytest.raises(BadInput, match="'credible' for classes"):
        classes().interval()
    with pytest.raises(BadInput, match="between 0 and 1"):
        classes().quantile(1.5, kind="credible")


def test_numbers_are_normal():
    prediction = numbers()
    target = stats.norm(prediction.mean.numpy(), prediction.total.sqrt().numpy())
    targets = prediction.mean + 0.5
    interval = prediction.interval(0.9)
    torch.testing.assert_close(interval.lower, torch.from_numpy(target.ppf(0.05)))
    torch.testing.assert_close(prediction.cdf(targets), torch.from_numpy(target.cdf(targets)))
    density = torch.from_numpy(target.logpdf(targets)).sum(-1)
    torch.testing.assert_close(prediction.log_prob(targets), density)
    mean = stats.norm(prediction.mean.numpy(), prediction.epistemic.sqrt().numpy())
    credible = prediction.interval(0.9, kind="credible")
    torch.testing.assert_close(credible.upper, torch.from_numpy(mean.ppf(0.95)))
    entropies = prediction.split("entropy")
    torch.testing.assert_close(entropies.total, torch.from_numpy(target.entropy()))
    assert prediction.sample(5).shape == (5, 3, 2)
    assert prediction.crps(targets).shape == (3, 2)


@pytest.mark.parametrize("make", [classes, numbers])
def test_rows_can_be_chosen_and_pickled(make):
    prediction = make()
    one = prediction[1]
    assert torch.equal(one.mean, prediction.mean[1:2])
    again = pickle.loads(pickle.dumps(prediction))
    assert torch.equal(again.epistemic, prediction.epistemic)
    assert repr(again).startswith("Distilled")
    if make is numbers:
        torch.testing.assert_close(one.interval().lower, prediction.interval().lower[1:2])
        assert torch.equal(again.interval().lower, prediction.interval().lower)
