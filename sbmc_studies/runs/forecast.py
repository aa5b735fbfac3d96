"""What a run of a study would take: its training and its sampling, before either begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sbmc
from sbmc_studies.experiments.context import Context
from sbmc_studies.experiments.methods import Method
from sbmc_studies.experiments.methods.sampled import fit_options, needs_anchor

if TYPE_CHECKING:
    from sbmc.fitting.forecast import Expectation


@dataclass(frozen=True)
class Forecast:
    """What one run would take.

    Attributes:
        networks: how many are trained.
        training_epochs: passes that each makes, at most.
        training: what that takes, if there are any.
        sampling: what the islands take, if there are any.
    """

    networks: int
    training_epochs: int
    training: Expectation | None
    sampling: Expectation | None

    @property
    def seconds(self) -> float:
        """Of both."""
        return sum(part.seconds for part in (self.training, self.sampling) if part is not None)

    @property
    def total_epochs(self) -> float:
        """Of both, at most."""
        sampled = self.sampling.total_epochs if self.sampling is not None else 0.0
        return sampled + self.networks * self.training_epochs


def forecast(context: Context, method: Method) -> Forecast:
    """Say what a run would take; nothing is trained, sampled or written.

    Args:
        context: settings, data, network; its folder is where the checkpoint would be.
        method: what would be run.

    Returns:
        The forecast. Training may stop earlier than it says.
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
            context.network, context.data.train, s=1.0, sampler=passes, particles=networks
        )
    if method.sampler is not None:
        own = not method.grows
        anchors = [context.network] * settings["islands"] if own else None
        begins = settings["start"] == "ensemble"
        members = [context.network] * settings["particles"] if begins else None
        options = fit_options(context, method.sampler, anchors, members)
        data = context.data.train_and_validation
        sampling = sbmc.expect(context.network, data, **options)
    return Forecast(networks, epochs, training, sampling)


def _networks(method: Method, settings: dict) -> int:
    """How many networks are trained."""
    if method.sampler is None:
        several = "islands" in method.uses
        return settings["particles"] * settings["islands"] if several else 1
    started = settings["particles"] if settings["start"] == "ensemble" else 0
    if not method.grows:
        return settings["islands"] + started
    return int(needs_anchor(settings)) + started
