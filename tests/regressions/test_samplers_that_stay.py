"""Chains that stay where they are must be seen, and must not be caused by the warm-up itself."""

from __future__ import annotations

import json

import pytest
import torch
from interrupting import Interrupting
from targets import AnalyticTarget, island_noise, skewed_log_likelihood

from sbmc.samplers import GHMC, HMC, MALA, PCN


def skewed() -> AnalyticTarget:
    return AnalyticTarget(skewed_log_likelihood)


class TestAcceptanceOfEachParticle:
    """A mean over an island hides the few chains that are never accepted."""

    SETTINGS = (HMC(steps=12, step_size=0.3), MALA(steps=9), PCN(steps=9), GHMC(epochs=20))

    @pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: type(each).__name__)
    def test_is_counted_after_warmup(self, settings):
        start = torch.zeros(12, 2, dtype=torch.float64)
        for run in settings.run(skewed(), island_noise(4, islands=3), start):
            assert run.sampling_steps == run.steps - run.warm_steps > 0
            assert run.accepted_sum.shape == (4,)
            assert run.accepted_sum.dtype == torch.float64
            assert run.particle_acceptance.mean() == pytest.approx(run.sampling_acceptance)

    def test_shows_a_chain_that_never_moves(self):
        """The last particle starts in a well that this step size cannot leave."""

        def log_likelihood(z):
            return torch.where(z[:, 0] < 50, 0.0, -1e6 * (z[:, 0] - 100).square())

        start = torch.zeros(4, 1, dtype=torch.float64)
        start[3] = 100
        settings = HMC(steps=20, leapfrog=3, step_size=0.3, adapt=False)
        (run,) = settings.run(AnalyticTarget(log_likelihood), island_noise(4), start)
        assert run.sampling_acceptance > 0.7
        assert run.particle_acceptance[:3].min() > 0.9
        assert run.particle_acceptance[3] < 0.01

    def test_is_kept_in_snapshots(self):
        def through(keeper):
            start = torch.zeros(8, 2, dtype=torch.float64)
            settings = HMC(steps=10, step_size=0.3)
            return settings.run(skewed(), island_noise(4, islands=2), start, keeper=keeper)

        keeper = Interrupting()
        undisturbed = through(keeper)
        assert len(keeper.offers) == 11
        for offer in keeper.offers:
            for run, other in zip(undisturbed, through(Interrupting(offer)), strict=True):
                assert torch.equal(run.accepted_sum, other.accepted_sum)
                assert torch.equal(run.launched, other.launched)
                assert run.sampling_steps == other.sampling_steps == 5

    def test_goes_on_from_snapshots_that_had_none(self):
        """What was not counted then is not counted now; the rest of the steps are."""

        def through(keeper):
            start = torch.zeros(4, 2, dtype=torch.float64)
            return HMC(steps=10, step_size=0.3).run(skewed(), island_noise(4), start, keeper=keeper)

        keeper = Interrupting()
        (undisturbed,) = through(keeper)
        text, tensors = keeper.offers[8]["chains"]
        values = json.loads(text)
        for name in ("sampling_steps", "accepted_sum", "launched"):
            values["runs"][0].pop(name, None)
            tensors.pop(f"run.0.{name}", None)
        (run,) = through(Interrupting({"chains": (json.dumps(values), tensors)}))
        assert torch.equal(run.draws[0], undisturbed.draws[0])
        assert run.sampling_steps == 2
        assert run.particle_acceptance.mean() == pytest.approx(sum(run.acceptance[-2:]) / 2)
