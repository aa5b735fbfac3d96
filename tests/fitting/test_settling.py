"""What a fit makes of settling: a sentence, figures, and leftovers for the next candidates."""

from __future__ import annotations

import dataclasses
import logging
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import sbmc
from sbmc.fitting.request import FitRequest
from sbmc.fitting.settling import Leftovers, settling_in_words
from sbmc.posterior.identity import comparable

ROWS = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
LABELS = (ROWS[:, 0] > 0).long()
DATA = ROWS[:90], LABELS[:90]
UNSEEN = ROWS[90:], LABELS[90:]


@pytest.fixture
def net():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Linear(3, 2)


def fit(net, **options):
    return sbmc.fit(net, DATA, s=0.1, progress=False, **options)


class TestBudget:
    def test_chains_end_early_unless_they_are_told_not_to(self, net, caplog):
        budget = {"trainings": 80, "trained_epochs": 100}
        with caplog.at_level(logging.INFO, logger="sbmc"):
            early = fit(net, budget=sbmc.Budget(**budget))
        whole = fit(net, budget=sbmc.Budget(**budget, stop_early=False))
        assert early.cost.epochs < whole.cost.epochs == 800
        assert early.cost.total_epochs == 10 * early.cost.epochs
        figures = early.health.figures
        assert figures["unsettled"] == 0
        assert figures["settling"] == early.islands[0].settling
        assert early.islands[0].settled is True
        assert early.settings["settling"].startswith("Predictions have settled")
        assert early.settings["settling"] in caplog.messages
        assert "settling" not in whole.settings
        assert whole.health.figures["settling"] is whole.health.figures["unsettled"] is None

    def test_one_that_ends_unsettled_is_ok_and_says_that_more_would_have_helped(self, net):
        posterior = fit(net, budget=sbmc.Budget(trainings=3, trained_epochs=100))
        assert posterior.cost.epochs == 30
        assert posterior.health.figures["unsettled"] == 1
        assert posterior.health.ok
        words = posterior.settings["settling"]
        assert "have not settled in 1 of 1 islands" in words
        assert "More epochs would have helped" in words
        extended = fit(net, budget=sbmc.Budget(trainings=3, trained_epochs=100, extend=20))
        assert 30 < extended.cost.epochs < 600
        assert extended.health.figures["unsettled"] == 0
        # It explains a run, and is no setting by which runs are compared.
        assert "settling" not in comparable(extended)

    def test_other_samplers_say_nothing(self, net):
        posterior = fit(net, sampler=sbmc.HMC(epochs=40))
        assert "settling" not in posterior.settings
        assert posterior.health.figures["unsettled"] is None

    def test_a_run_that_goes_on_from_its_checkpoint_ends_where_it_would_have(self, net, tmp_path):
        options = {"budget": sbmc.Budget(trainings=80, trained_epochs=100)}
        undisturbed = fit(net, **options)
        saved = fit(net, compute=sbmc.Compute(checkpoint=tmp_path / "run"), **options)
        again = fit(net, compute=sbmc.Compute(checkpoint=tmp_path / "run"), **options)
        for posterior in (saved, again):
            assert torch.equal(posterior.positions, undisturbed.positions)
            assert posterior.islands == undisturbed.islands


def candidates(*epochs, particles=10, islands=2):
    request = FitRequest(nn.Linear(2, 2), None, particles=particles, islands=islands, s=0.5)
    return [dataclasses.replace(request, sampler=sbmc.AutoHMC(epochs=each)) for each in epochs]


def fits_that_spend(*spent):
    """A fit whose chains make so many epochs, and the epochs that it was allowed each time."""
    given, left = [], iter(spent)

    def fit_one(request):
        if request.s == 0:
            return "the network"
        given.append(request.sampler.epochs)
        epochs = next(left)
        if epochs is None:
            raise RuntimeError("all islands failed")
        return SimpleNamespace(cost=SimpleNamespace(epochs=epochs))

    return fit_one, given


class TestLeftovers:
    def test_are_shared_by_the_candidates_that_follow(self):
        fit_one, given = fits_that_spend(40, 120, 150)
        requests = candidates(100, 100, 100)
        shared = Leftovers(requests, fit_one)
        for request in requests:
            shared.fit(request)
        # 60 are left, 30 for each; then 10 of the second's 130 and nobody to share them with.
        assert given == [100, 130, 140]
        assert shared.epochs == 0  # the last one was extended, at nobody's cost

    def test_never_add_up_to_more_than_the_budget(self):
        fit_one, given = fits_that_spend(17, 33, 71, 90)
        requests = candidates(50, 50, 50, 50, particles=3, islands=1)
        shared = Leftovers(requests, fit_one)
        spent = [shared.fit(request).cost.epochs for request in requests[:3]]
        assert given == [50, 61, 75]
        shared.fit(requests[3])
        assert given[3] == 79
        assert sum(spent) + given[3] == 4 * 50

    def test_the_network_takes_none_and_a_failure_leaves_none(self):
        fit_one, given = fits_that_spend(None, 100)
        requests = candidates(100, 100)
        shared = Leftovers(requests, fit_one)
        assert shared.fit(dataclasses.replace(requests[0], s=0.0)) == "the network"
        with pytest.raises(RuntimeError):
            shared.fit(requests[0])
        shared.fit(requests[1])
        assert given == [100, 100]

    def test_a_mixture_uses_them(self, net, caplog):
        budget = sbmc.Budget(trainings=240, trained_epochs=100)
        with caplog.at_level(logging.INFO, logger="sbmc"):
            posterior = sbmc.fit(net, DATA, validation=UNSEEN, budget=budget, progress=False)
        spent = [report.epochs for report in posterior.islands if report.steps]
        further = [m for m in caplog.messages if "candidates before have left" in m]
        # An equal part for each of twelve chains, less the training of two further networks.
        assert min(spent) < (240 - 2) * 100 // 12
        assert further
        assert posterior.cost.total_epochs <= 240 * 100
        assert posterior.settings["settling"].startswith("Predictions have")


def test_words_name_the_islands_and_the_figure():
    assert settling_in_words({}) == ""
    words = settling_in_words({"settling": 1.5, "unsettled": 2, "islands": 3})
    assert "2 of 3 islands: the largest settling figure is 1.50" in words
    frozen = settling_in_words({"settling": None, "unsettled": 1, "islands": 1})
    assert "figure is not finite" in frozen
