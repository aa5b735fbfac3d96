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
from sbmc.islands.work import Work
from sbmc.log import logger
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.randomness import Stream, generator
from sbmc.target.curvature import estimate_fisher

# Examples for the Fisher information, of all anchors together: a rough figure needs no more, and
# the verdict must stay under one epoch of one particle.
FISHER_ROWS = 128


def with_movement(islands: Sequence[Island], work: Work) -> list[Island]:
    """Islands whose reports say how far each particle has moved.

    Where particles began is not stored: the same stream gives the same start once more.

    Args:
        islands: as they were sampled.
        work: what they did.

    Returns:
        The islands, those that failed unchanged.
    """
    population = work.sampler.population(work.particles)
    share = max(1, FISHER_ROWS // len(work.priors))
    inverse_widths: dict[int, Tensor] = {}
    measured = []
    for island in islands:
        if island.positions is None:
            measured.append(island)
            continue
        anchor = island.report.index % len(work.priors)
        prior = work.priors[anchor]
        if anchor not in inverse_widths:
            rng = generator(work.seed, Stream.HEALTH, anchor)
            inverse_widths[anchor] = inverse_width(work, prior, share, rng)
        begin = work.start(
            prior, generator(work.seed, Stream.ISLANDS, island.report.index), population
        )
        measured.append(_measured(island, begin, inverse_widths[anchor]))
    return measured


def inverse_width(work: Work, prior: AnchoredPrior, rows: int, rng: torch.Generator) -> Tensor:
    """1/σ of every whitened coordinate, `(dim,)` float64.

    Args:
        work: for the model, the data and the likelihood.
        prior: whose anchor the information is taken at.
        rows: how many examples to estimate it from.
        rng: for the targets that the model draws.

    Returns:
        The inverse widths; 1, the prior's own, where the information is not finite.
    """
    information = estimate_fisher(work.engine.parts(prepare=False), prior.anchor, rows, rng)
    finite = torch.isfinite(information)
    if not bool(finite.all()):
        logger.warning(
            "the Fisher information at the anchor is not finite for %d of %d parameters: their "
            "movement is measured in prior standard deviations",
            int((~finite).sum()),
            len(finite),
        )
    information = torch.where(finite, information, 0.0)
    return (1 + work.power * prior.scale.double().square() * information).sqrt()


def _measured(island: Island, begin: Tensor, inverse_widths: Tensor) -> Island:
    report, positions = island.report, island.positions
    assert positions is not None
    # Of several draws of a chain the last one counts.
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
