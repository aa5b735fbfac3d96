"""The first islands of a posterior, as a posterior of their own."""

from __future__ import annotations

from dataclasses import replace

from sbmc.checks import Phrase, is_whole, require
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.weights import STACKED
from sbmc.prediction.kinds import PredictionT


def first_islands(posterior: Posterior[PredictionT], islands: int) -> Posterior[PredictionT]:
    """What a run with fewer islands would have given: islands need nothing of each other.

    Args:
        posterior: of all islands.
        islands: how many to take.

    Returns:
        The posterior, with their share of the cost and no wall time.

    Raises:
        BadInput: there are not so many, none of them completed, or they are members of a mixture.
    """
    rule = "of one target: the islands of a mixture are its members, not parts of one run"
    mixed = Phrase('a posterior of s="auto"')
    require(posterior.weighting != STACKED, "posterior", rule, mixed)
    most = len(posterior.islands)
    good = is_whole(islands) and 1 <= islands <= most
    require(good, "islands", f"an integer from 1 to {most}", islands)
    reports = posterior.islands[:islands]
    completed = sum(report.outcome == "completed" for report in reports)
    require(completed > 0, "islands", "enough for one that completed", islands)
    spent = sum(report.epochs for report in reports) + posterior.settings.get("pilot_epochs", 0)
    forward = sum(report.forward_epochs for report in reports)
    forward += posterior.settings.get("pilot_forward_epochs", 0)
    epochs = spent / islands
    particles = posterior.settings.get("particles", posterior.positions.shape[1])
    settings = {**posterior.settings, "islands": islands}
    curvature = posterior.cost.prior_epochs
    if "anchors" in settings:
        settings["anchors"] = min(islands, settings["anchors"])
        curvature = curvature / posterior.settings["anchors"] * settings["anchors"]
    if "prior_epochs" in settings:
        settings["prior_epochs"] = int(curvature)
    total = epochs * particles * islands + posterior.cost.anchor_epochs + curvature
    cost = replace(
        posterior.cost,
        epochs=epochs,
        forward_epochs=forward / islands,
        total_epochs=total,
        wall_seconds=None,
        prior_epochs=curvature,
    )
    smaller: Posterior[PredictionT] = Posterior(
        posterior.model,
        posterior.space,
        posterior.likelihood,
        posterior.positions[:completed],
        log_evidence=posterior.log_evidence[:completed],
        islands=reports,
        cost=cost,
        settings=settings,
        within=posterior.within[:completed],
        weighting=posterior.weighting,
    )
    smaller.priors = None if posterior.priors is None else posterior.priors[:completed]
    smaller.power = posterior.power
    smaller.recipe = posterior.recipe
    return smaller
