"""How far particles have moved from where they began, in units of a rough posterior width.

In whitened coordinates the prior is N(0, I). With F the diagonal of the Fisher information at the
anchor, Σ the prior's variances and λ the power of the likelihood, a rough standard deviation of the
posterior along coordinate j is

    σ_j = 1 / sqrt(1 + λ Σ_j F_j),

in the model's own coordinates 1 / sqrt(1/Σ_j + λ F_j). The displacement of a particle is the root
mean square of (z_j − z_j at the start) / σ_j over all coordinates: about 1 or more for a particle
that has forgotten its start, and near 0 for one that has stayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from sbmc.islands.island import Island
from sbmc.islands.job import Job
from sbmc.log import logger
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.randomness import Stream, generator
from sbmc.storage.mapped import release_pages
from sbmc.target.curvature import estimate_fisher

# Examples for the Fisher information, over all anchors: a rough figure needs no more, and the check
# of a run's health must cost less than one epoch of one particle.
FISHER_ROWS = 128


def with_displacement(islands: Sequence[Island], job: Job) -> list[Island]:
    """Add the displacement of each particle to the reports of islands.

    The starts of particles are not stored: the same random stream gives the same starts again.

    Args:
        islands: the islands as they were sampled.
        job: what they were sampled from.

    Returns:
        The islands; those that failed are unchanged.
    """
    share = max(1, FISHER_ROWS // len(job.priors))
    inverse_widths: dict[int, Tensor] = {}
    measured = []
    for island in islands:
        if island.positions is None:
            measured.append(island)
            continue
        anchor = island.report.index % len(job.priors)
        prior = job.priors[anchor]
        if anchor not in inverse_widths:
            rng = generator(job.seed, Stream.HEALTH, anchor)
            inverse_widths[anchor] = inverse_width(job, prior, share, rng)
        begin = job.begin(island.report.index, job.noise_of(island.report.index))
        measured.append(_measured(island, begin, inverse_widths[anchor]))
        release_pages(island.positions)
    return measured


def inverse_width(job: Job, prior: AnchoredPrior, rows: int, rng: torch.Generator) -> Tensor:
    """1/σ of every whitened coordinate, `(dim,)` float64.

    Args:
        job: has the model, the data and the likelihood.
        prior: the prior, with the anchor at which the information is estimated.
        rows: how many examples to estimate it from.
        rng: for the targets that the model draws.

    Returns:
        The inverse widths; where the information is not finite they are 1, as for the prior.
    """
    information = estimate_fisher(job.engine.parts(prepare=False), prior.anchor, rows, rng)
    finite = torch.isfinite(information)
    if not bool(finite.all()):
        logger.warning(
            "the Fisher information at the anchor is not finite for %d of %d parameters: their "
            "movement is measured in prior standard deviations",
            int((~finite).sum()),
            len(finite),
        )
    information = torch.where(finite, information, 0.0)
    return (1 + job.power * prior.scale.double().square() * information).sqrt()


def _measured(island: Island, begin: Tensor, inverse_widths: Tensor) -> Island:
    report, positions = island.report, island.positions
    assert positions is not None
    # If a chain has several draws, the last one counts.
    final = positions[-len(begin) :]
    if report.ancestors:
        begin = begin[torch.tensor(report.ancestors, device=begin.device)]
    moved = (final - begin).double()
    displacement = (moved * inverse_widths).square().mean(1).sqrt()
    return replace(
        island,
        report=replace(
            report,
            displacement=[float(f"{value:.4g}") for value in displacement.tolist()],
            returned=int((moved == 0).all(1).sum()),
            distinct=len(torch.unique(final, dim=0)),
        ),
    )
