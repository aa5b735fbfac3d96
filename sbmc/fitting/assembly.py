"""Assembles the posterior from the islands: parameters, weights, cost and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sbmc.islands.cost import Cost
from sbmc.islands.island import Island, IslandReport
from sbmc.likelihoods import Likelihood
from sbmc.log import logger, warn_user
from sbmc.model.parameters import ParameterSpace
from sbmc.posterior.dtypes import as_dtype
from sbmc.posterior.posterior import Posterior
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.storage.mapped import mapped_tensor, release_pages

# How many numbers are converted to parameters at a time.
CONVERTED_NUMBERS = 2**24
# Warn when the evidence leaves fewer effective islands than this.
FEWEST_EFFECTIVE = 2.0


class Subject(NamedTuple):
    """A network, the parameters that are sampled, and the likelihood of its outputs."""

    model: nn.Module
    space: ParameterSpace
    likelihood: Likelihood


def point_posterior(
    subject: Subject, anchors: Tensor, epochs: float, settings: dict[str, Any]
) -> Posterior:
    """The Dirac at each anchor, for s = 0: no sampling, no epochs.

    Args:
        subject: what would be sampled.
        anchors: `(anchors, dim)`, one for each island.
        epochs: the cost of the anchors.
        settings: the settings of the run.

    Returns:
        The posterior.
    """
    count = len(anchors)
    return Posterior(
        *subject,
        anchors.unsqueeze(1).to(
            as_dtype(settings.get("store_dtype", str(anchors.dtype))), copy=True
        ),
        log_evidence=torch.zeros(count, dtype=torch.float64),
        islands=[IslandReport(index, "completed") for index in range(count)],
        cost=Cost(0.0, 0.0, epochs, epochs, 0.0),
        settings={**settings, "particles": 1, "islands": count},
    )


def assemble_posterior(
    results: list[Island],
    priors: Sequence[AnchoredPrior],
    subject: Subject,
    anchor_epochs: float,
    seconds: float,
    settings: dict[str, Any],
    power: float = 1.0,
    *,
    on_disk: bool = False,
    folder: str | None = None,
) -> Posterior:
    """Make a posterior of the islands that completed.

    Args:
        results: all islands, in order.
        priors: the priors, which the islands take in turn.
        subject: what was sampled.
        anchor_epochs: the cost of the anchors.
        seconds: the time of the run.
        settings: the settings of the run, with the epochs of a pilot and of a curved prior.
        power: the exponent of the likelihood in the target.
        on_disk: whether the posterior's positions are in a mapped file.
        folder: of that file; None for the folder for temporary files.

    Returns:
        The posterior, in the model's own coordinates.
    """
    completed = [island for island in results if island.positions is not None]
    completed_priors = [priors[island.report.index % len(priors)] for island in completed]
    whitened = [island.positions for island in completed if island.positions is not None]
    dtype = as_dtype(settings.get("store_dtype", str(whitened[0].dtype)))
    shape = len(whitened), *whitened[0].shape
    positions = (
        mapped_tensor(shape, dtype, folder)
        if on_disk
        else torch.empty(shape, dtype=dtype, device=whitened[0].device)
    )
    _convert(whitened, completed_priors, positions)
    spent = sum(island.report.epochs for island in results) + settings.get("pilot_epochs", 0)
    forward = sum(island.report.forward_epochs for island in results)
    forward += settings.get("pilot_forward_epochs", 0)
    curvature = float(settings.get("prior_epochs", 0))
    total = spent * settings["particles"] + anchor_epochs + curvature
    each = spent / len(results), forward / len(results)
    weighted = [island.weights for island in completed if island.weights is not None]
    logger.debug("%d islands in %.1f s", len(results), seconds)
    posterior = Posterior(
        *subject,
        positions,
        log_evidence=torch.tensor(
            [island.report.log_evidence or 0.0 for island in completed], dtype=torch.float64
        ),
        islands=[island.report for island in results],
        cost=Cost(*each, anchor_epochs, total, seconds, curvature),
        settings=settings,
        within=torch.stack(weighted) if weighted else None,
        weighting=settings["island_weights"],
    )
    posterior.priors, posterior.power = completed_priors, power
    return posterior


def _convert(
    whitened: Sequence[Tensor], priors: Sequence[AnchoredPrior], parameters: Tensor
) -> None:
    """Fill in the parameters `(islands, particles, dim)`, a few rows at a time."""
    together = max(1, CONVERTED_NUMBERS // parameters.shape[-1])
    for rows, island, prior in zip(parameters, whitened, priors, strict=True):
        for to, some in zip(rows.split(together), island.split(together), strict=True):
            to.copy_(prior.to_parameters(some))
            release_pages(some)
            release_pages(to)


def report_failures(results: list[Island], throw: bool) -> None:
    """Warn of islands that failed; raise if all did, or if one did and `throw` is set."""
    failed = [island.report for island in results if island.positions is None]
    if not failed:
        return
    causes = "; ".join(f"island {r.index}: {r.message}" for r in failed)
    if throw or len(failed) == len(results):
        raise RuntimeError(f"{len(failed)} of {len(results)} islands failed ({causes}).")
    warn_user(
        f"{len(failed)} of {len(results)} islands failed and are left out ({causes}).",
        RuntimeWarning,
    )


def warn_of_few_islands(posterior: Posterior) -> None:
    """Warn if predictions rest on few islands."""
    count, effective = len(posterior.log_evidence), posterior.island_ess
    # Two islands are hardly ever worth two effective ones, so that 1.5 is enough for them.
    if posterior.weighting == "evidence" and effective < min(FEWEST_EFFECTIVE, 0.75 * count):
        warn_user(
            f"The evidence leaves {effective:.2f} effective islands of {count} "
            f"(`posterior.island_ess`): predictions rest on few of them. More particles make the "
            f'evidence less noisy; `island_weights="equal"` uses all islands.',
            RuntimeWarning,
        )
