"""Merges posteriors that were sampled separately into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require
from sbmc.islands.checkpoints import differences
from sbmc.islands.cost import Cost
from sbmc.posterior.identity import DIVISIBLE, comparable
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.kinds import PredictionT
from sbmc.storage.mapped import release_pages, room_beside


def merge(posteriors: Sequence[Posterior[PredictionT]]) -> Posterior[PredictionT]:
    """Put the islands of several posteriors together, as if one run had made them all.

    Islands are independent, so that two machines can each sample some of them: with the same seed
    and another `first_island`, or with another seed.

    Args:
        posteriors: posteriors of the same model, anchor, prior, data, sampler and settings.

    Returns:
        A posterior of all islands, those of the first posterior first. If seeds differ, islands are
        renumbered. Wall times are added up.

    Raises:
        BadInput: two of them are not parts of one run, and the message names the difference; or an
            island is in two of them, and would count twice.

    Examples:
        >>> import sbmc
        >>> net, data = torch.nn.Linear(2, 2), (torch.randn(20, 2), torch.randint(2, (20,)))
        >>> options = dict(sampler=sbmc.HMC(steps=3), particles=4, islands=2)
        >>> one = sbmc.fit(net, data, **options)
        >>> two = sbmc.fit(net, data, **options, compute=sbmc.Compute(first_island=2))
        >>> merge([one, two]).positions.shape
        torch.Size([4, 4, 6])
    """
    rule = "at least two posteriors"
    several = isinstance(posteriors, Iterable) and not hasattr(posteriors, "ndim")
    require(several and not isinstance(posteriors, str), "posteriors", rule, posteriors)
    parts = list(posteriors)
    good = len(parts) >= 2 and all(isinstance(part, Posterior) for part in parts)
    require(good, "posteriors", rule, Phrase(f"{len(parts)} of them"))
    first = parts[0]
    require(
        all("identity" in part.settings for part in parts),
        "posteriors",
        "made by `fit`, which notes model and data",
        Phrase("one that was not"),
    )
    for number, part in enumerate(parts[1:], start=1):
        expected, got = (dict(comparable(each), seed=0) for each in (first, part))
        differing = differences(got, expected)
        if differing:
            summary = "; ".join(differing[:5]) + (
                f"; and {len(differing) - 5} more" * (len(differing) > 5)
            )
            raise BadInput(
                f"`posteriors` must be parts of one run, but got {number}, where {summary}."
            )
    _refuse_duplicates(parts)
    seeds = [part.settings["seed"] for part in parts]
    reports = [report for part in parts for report in part.islands]
    if len(set(seeds)) > 1:
        reports = [replace(report, index=index) for index, report in enumerate(reports)]
    order = sorted(range(len(reports)), key=lambda k: reports[k].index)
    completed = [k for k, report in enumerate(reports) if report.outcome == "completed"]
    rows = [completed.index(k) for k in order if k in set(completed)]
    islands = len(reports)
    merged: Posterior[PredictionT] = Posterior(
        first._model,
        first.space,
        first.likelihood,
        _in_order([row for part in parts for row in part.positions], rows),
        log_evidence=torch.cat([part.log_evidence for part in parts])[rows],
        islands=[reports[k] for k in order],
        cost=_added([part.cost for part in parts], [len(part.islands) for part in parts]),
        settings={
            **{name: value for name, value in first.settings.items() if name not in DIVISIBLE},
            "islands": islands,
            "seed": seeds[0] if len(set(seeds)) == 1 else seeds,
        },
        within=torch.cat([part.within for part in parts])[rows],
        weighting=first.weighting,
    )
    merged.power = first.power
    all_priors = [part.priors for part in parts if part.priors is not None]
    if len(all_priors) == len(parts):
        every = [prior for priors in all_priors for prior in priors]
        merged.priors = [every[row] for row in rows]
    return merged


def _in_order(islands: Sequence[Tensor], order: Sequence[int]) -> Tensor:
    positions = room_beside(islands, (len(order), *islands[0].shape))
    for row, index in zip(positions, order, strict=True):
        row.copy_(islands[index])
        release_pages(islands[index])
        release_pages(row)
    return positions


def _refuse_duplicates(parts: Sequence[Posterior]) -> None:
    owners: dict[tuple, int] = {}
    for number, part in enumerate(parts):
        for report in part.islands:
            key = (str(part.settings["seed"]), report.index)
            duplicate = Phrase(f"island {report.index} in both {owners.get(key)} and {number}")
            require(key not in owners, "posteriors", "of islands that differ", duplicate)
            owners[key] = number


def _added(costs: Sequence[Cost], islands: Sequence[int]) -> Cost:
    """The cost of all parts together; the anchor, which they share, counts once."""
    total = sum(islands)

    def mean(name: str) -> float:
        values = [getattr(cost, name) * n for cost, n in zip(costs, islands, strict=True)]
        return sum(values) / total

    anchor = costs[0].anchor_epochs
    sampled = sum(cost.total_epochs - cost.anchor_epochs for cost in costs)
    seconds = [cost.wall_seconds for cost in costs]
    measured = [value for value in seconds if value is not None]
    return Cost(
        mean("epochs"),
        mean("forward_epochs"),
        anchor,
        sampled + anchor,
        sum(measured) if len(measured) == len(seconds) else None,
        sum(cost.prior_epochs for cost in costs),
    )
