"""Numbers with a long budget: networks are trained, and long chains begin at each of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sbmc
from sbmc.fitting import further_networks
from sbmc.fitting import long_chains as long
from sbmc.fitting.mixture_plan import NETWORK

EPOCHS = 10


def numbers(count, seed):
    rng = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 2, generator=rng)
    return inputs, inputs[:, 0].sin() + 0.3 * torch.randn(count, generator=rng)


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
    return sbmc.train_map(
        net,
        numbers(40, 0),
        likelihood="gaussian-network",
        max_epochs=EPOCHS,
        learning_rate=0.05,
        progress=False,
    )


def fit(model, epochs_each, **options):
    """A fit whose budget leaves each of ten chains so many epochs, beside nine trainings."""
    total = 10 * epochs_each + 9 * EPOCHS
    settings = {
        "likelihood": "gaussian-network",
        "budget": sbmc.Budget(trainings=total / EPOCHS),
        "progress": False,
        **options,
    }
    return sbmc.fit(model, numbers(40, 0), **settings)


@pytest.fixture(scope="module")
def posterior(trained):
    return fit(trained, 1_000)


def test_the_full_posterior_is_sampled_from_ten_networks(posterior):
    assert posterior.settings["s"] == 1.0
    assert posterior.settings["sampler"] == "MCLMC"
    assert posterior.positions.shape == (1, long.CHAINS * long.DRAWS, 22)
    assert "1000 epochs a chain" in posterior.settings["budget"]
    assert "9 further networks trained for 10 epochs" in posterior.settings["budget"]
    assert posterior.cost.epochs == 1_000
    assert posterior.cost.total_epochs == 10_000 + (1 + 9) * EPOCHS
    assert posterior.mixture is None


def test_further_networks_are_trained_at_their_own_learning_rate(trained, monkeypatch):
    rates = []

    def note(*arguments, **options):
        rates.append(options["learning_rate"])
        raise KeyboardInterrupt

    monkeypatch.setattr(further_networks, "train_ensemble", note)
    with pytest.raises(KeyboardInterrupt):
        fit(trained, 1_000)
    assert rates == [long.LEARNING_RATE]


def test_the_noise_is_found(posterior):
    prediction = posterior.predict(numbers(200, 1)[0])
    assert prediction.aleatoric.sqrt().mean().item() == pytest.approx(0.3, abs=0.1)


def test_unseen_rows_mix_it_with_the_networks(trained):
    mixed = fit(trained, 1_000, validation=numbers(30, 2))
    names = [member.name for member in mixed.mixture.members]
    assert names == [
        NETWORK,
        "10 networks, 9 of them trained here",
        "s = 1, prior variance 5 / fan-in",
    ]
    assert sum(member.weight for member in mixed.mixture.members) == pytest.approx(1)


@pytest.mark.parametrize(
    ("epochs", "options"),
    [
        (999, {}),
        (
            1_000,
            {"likelihood": sbmc.Likelihood.of(lambda o: torch.distributions.Normal(o[:, :1], 1))},
        ),
    ],
)
def test_fewer_epochs_and_other_likelihoods_take_the_other_way(
    trained, epochs, options, monkeypatch
):
    found = []
    plan = long.long_chains

    def note(*arguments):
        found.append(plan(*arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr("sbmc.fitting.single_fits.long_chains", note)
    with pytest.raises(KeyboardInterrupt):
        fit(trained, epochs, **options)
    assert found == [None]


def test_draws_of_large_networks_are_fewer(trained, monkeypatch):
    monkeypatch.setattr(long, "MOST_NUMBERS", 10 * 22 * 3)
    request = sbmc.fitting.request.FitRequest(
        trained,
        sbmc.model.data.as_examples(numbers(40, 0)),
        likelihood="gaussian-network",
        budget=sbmc.Budget(trainings=1_100),
    )
    planned = long.long_chains(request, lambda request: 1.0)
    assert planned.request.sampler.draws == 3


def test_a_budget_of_time_is_measured_with_its_own_sampler(trained):
    request = sbmc.fitting.request.FitRequest(
        trained,
        sbmc.model.data.as_examples(numbers(40, 0)),
        likelihood="gaussian-network",
        budget="40s",
    )
    measured = []

    def seconds(short):
        measured.append(short.sampler)
        return (1 if len(measured) % 2 else 3) / 1024

    planned = long.long_chains(request, seconds)
    assert isinstance(measured[0], sbmc.MCLMC)
    assert len(measured) == long.MOST_MEASURED  # which takes no time here
    assert planned.request.sampler.epochs == (20_480 - 9 * EPOCHS) // 10
    assert planned.words.startswith("2039 epochs a chain: 40 seconds for 10 chains")


def test_the_forecast_counts_the_trainings(trained):
    expected = sbmc.expect(
        trained,
        numbers(40, 0),
        likelihood="gaussian-network",
        budget=sbmc.Budget(trainings=1_009),
    )
    assert expected.total_epochs == 10_000 + (1 + 9) * EPOCHS
    assert "9 further networks are trained" in expected.notes[-1]
