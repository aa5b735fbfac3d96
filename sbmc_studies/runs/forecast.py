"""Forecasts what a run of a study takes: its training and its sampling, before either begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sbmc
from sbmc_studies.experiments.context import Context
from sbmc_studies.experiments.methods import Method
from sbmc_studies.experiments.methods.sampled import needs_anchor, untrained_fit_options

if TYPE_CHECKING:
    from sbmc.fitting.forecast import Expectation


@dataclass(frozen=True)
class Forecast:
    """What one run is expected to take.

    Attributes:
        networks: how many networks are trained.
        training_epochs: epochs of each network, at most.
        training: what the training takes; None if there is none.
        sampling: what the islands take; None if nothing is sampled.
    """

    networks: int
    training_epochs: int
    training: Expectation | None
    sampling: Expectation | None

    @property
    def seconds(self) -> float:
        """Seconds of training and sampling together."""
        return sum(part.seconds for part in (self.training, self.sampling) if part is not None)

    @property
    def total_epochs(self) -> float:
        """Epochs of training and sampling together, at most."""
        sampled = self.sampling.total_epochs if self.sampling is not None else 0.0
        return sampled + self.networks * self.training_epochs


def forecast(context: Context, method: Method) -> Forecast:
    """Forecast what a run takes; nothing is trained, sampled or written.

    Args:
        context: settings, data, network; its folder is where the checkpoint would be.
        method: what would be run.

    Returns:
        The forecast. Training may stop earlier, by early stopping.
    """
    settings = context.settings
    networks = _networks(method, settings)
    averaged = "swa_epochs" in settings or settings.get("anchor") == "swa"
    epochs = context.baseline("swa")["epochs"] if averaged else settings["max_epochs"]
    training = sampling = None
    if networks:
        # An epoch of training is a pass in mini-batches, as those of SGLD are.
        passes = sbmc.SGLD(epochs=epochs, batch_size=settings["batch_size"], step_size=1e-3)
        training = sbmc.expect(
            context.network,
            context.data.train,
            s=1.0,
            prior_variance=settings["prior_variance"],
            sampler=passes,
            particles=networks,
        )
    if method.sampler is not None:
        options = untrained_fit_options(context, method.sampler, not method.grows)
        data = context.data.train_and_validation
        sampling = sbmc.expect(context.network, data, **options)
    return Forecast(networks, epochs, training, sampling)


def _networks(method: Method, settings: dict) -> int:
    if method.sampler is None:
        several = "islands" in method.uses
        return settings["particles"] * settings["islands"] if several else 1
    started = settings["particles"] if settings["start"] == "ensemble" else 0
    if not method.grows:
        return settings["islands"] + started
    return int(needs_anchor(settings)) + started
