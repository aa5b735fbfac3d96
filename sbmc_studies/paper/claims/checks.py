"""Checks that claims of several studies are made of: which runs, and what is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from sbmc_studies.paper.claims.claim import EPISTEMIC, Claim
from sbmc_studies.records.finding import Runs
from sbmc_studies.records.pooling import SEEDS, Pooled

Check = Callable[[Runs], tuple[bool, str]]


class Pick(NamedTuple):
    """Runs of one setting.

    Attributes:
        method: the method's name.
        islands: its P.
        overrides: what differs from the paper's preset.
        seeds: how many there have to be.
    """

    method: str
    islands: int = 1
    overrides: Mapping[str, Any] = {}
    seeds: int = len(SEEDS)

    def pooled(self, runs: Runs) -> Pooled:
        """Its seeds taken together, islands of SMC with equal weights."""
        pooled = runs(self.method, self.islands, seeds=self.seeds, **self.overrides)
        return pooled.weighted("equal") if self.method.endswith("smc") else pooled

    def value(self, runs: Runs, metric: str) -> float:
        """The mean of a metric; `groups` is that of all out-of-domain groups, each once."""
        values = self.pooled(runs).values
        if metric != "groups":
            return values[metric]
        start = f"{EPISTEMIC}.ood."
        groups = [v for k, v in values.items() if k.startswith(start) and k != f"{start}all"]
        if not groups:
            raise KeyError(start)
        return sum(groups) / len(groups)


def as_text(metric: str, value: float) -> str:
    """A number as evidence."""
    return f"{value:.2%}" if metric == "accuracy" else f"{value:.4g}"


def higher(metric: str, ours: Pick, theirs: Pick, by: float = 0.0, *, equal: bool = False) -> Check:
    """Ours is above theirs.

    Args:
        metric: which number.
        ours: which runs.
        theirs: which others.
        by: how much higher it has to be at least.
        equal: whether the same will do, too.

    Returns:
        The check.
    """

    def check(runs: Runs) -> tuple[bool, str]:
        a, b = ours.value(runs, metric), theirs.value(runs, metric)
        holds = a >= b + by if equal or by else a > b
        return holds, f"{as_text(metric, a)} against {as_text(metric, b)}"

    return check


def lower(metric: str, ours: Pick, theirs: Pick) -> Check:
    """Ours is below theirs."""

    def check(runs: Runs) -> tuple[bool, str]:
        a, b = ours.value(runs, metric), theirs.value(runs, metric)
        return a < b, f"{as_text(metric, a)} against {as_text(metric, b)}"

    return check


def above_inside(ours: Pick, metric: str, other: str, factor: float = 1.0) -> Check:
    """One number of the same runs is at least so many times another."""

    def check(runs: Runs) -> tuple[bool, str]:
        a, b = ours.value(runs, metric), ours.value(runs, other)
        return a > factor * b, f"{as_text(metric, a)} against {as_text(other, b)}"

    return check


def every(*checks: Check) -> Check:
    """All of them hold."""

    def check(runs: Runs) -> tuple[bool, str]:
        results = [each(runs) for each in checks]
        evidence = "; ".join(numbers for _, numbers in results)
        return all(holds for holds, _ in results), evidence

    return check


def spread(metric: str, picks: Sequence[Pick], most: float, *, relative: bool = False) -> Check:
    """The largest and the smallest of several settings are not far apart.

    Args:
        metric: which number.
        picks: the settings.
        most: the largest difference, or the largest as a share of the smallest.
        relative: whether it is a share.

    Returns:
        The check.
    """

    def check(runs: Runs) -> tuple[bool, str]:
        values = [pick.value(runs, metric) for pick in picks]
        apart = max(values) - min(values)
        holds = apart <= most * (min(values) if relative else 1.0)
        return holds, ", ".join(as_text(metric, value) for value in values)

    return check


def increasing(metric: str, picks: Sequence[Pick]) -> Check:
    """Each setting has more than the one before it."""

    def check(runs: Runs) -> tuple[bool, str]:
        values = [pick.value(runs, metric) for pick in picks]
        return all(a < b for a, b in pairwise(values)), " < ".join(
            as_text(metric, value) for value in values
        )

    return check


def gains_more(metric: str, ours: tuple[Pick, Pick], theirs: tuple[Pick, Pick], sign: int) -> Check:
    """From few islands to many, ours gains, and gains more than theirs.

    Args:
        metric: which number.
        ours: with few islands, and with many.
        theirs: the same of the other method.
        sign: 1 if a gain is a rise, -1 if it is a fall.

    Returns:
        The check.
    """

    def check(runs: Runs) -> tuple[bool, str]:
        gains = [
            sign * (many.value(runs, metric) - few.value(runs, metric))
            for few, many in (ours, theirs)
        ]
        holds = gains[0] > max(gains[1], 0.0)
        return holds, f"{metric}: {gains[0]:.2g} gained against {gains[1]:.2g}"

    return check


def orderings(prefix: str, table: str, setting: str, picks: Mapping[str, Pick]) -> list[Any]:
    """The paper's orderings at one setting: accuracy, disagreement, what islands are worth.

    Args:
        prefix: of the claims' names.
        table: the paper's table.
        setting: which one, for the statements.
        picks: `map`, `de`, and `s-hmc` and `s-smc` with 1 and 8 islands: `s-hmc-1`, and so on.

    Returns:
        The claims.
    """
    wrong, right = f"{EPISTEMIC}.incorrect", f"{EPISTEMIC}.correct"
    claims = []
    for kind, label in (("s-hmc", "S-HMC∥"), ("s-smc", "S-SMC∥ (equal weights)")):
        ours = picks[f"{kind}-8"]
        start, name = f"{setting}: {label}, P = 8,", f"{prefix}-{kind}"
        claims += [
            Claim(
                f"{name}-accuracy",
                f"{start} is no less accurate than MAP",
                higher("accuracy", ours, picks["map"], equal=True),
                table,
            ),
            Claim(
                f"{name}-nll",
                f"{start} has a lower NLL than MAP",
                lower("nll", ours, picks["map"]),
                table,
            ),
            Claim(
                f"{name}-over-de",
                f"{start} has a higher H_ep than the deep ensemble, on its mistakes and on average "
                "over the out-of-domain groups",
                every(higher(wrong, ours, picks["de"]), higher("groups", ours, picks["de"])),
                table,
            ),
            Claim(
                f"{name}-mistakes",
                f"{start} has a higher H_ep on its mistakes than on what it gets right, and a "
                "higher one out of domain",
                every(above_inside(ours, wrong, right), above_inside(ours, "groups", right)),
                table,
            ),
        ]
    smc, hmc = ((picks[f"{kind}-1"], picks[f"{kind}-8"]) for kind in ("s-smc", "s-hmc"))
    claims.append(
        Claim(
            f"{prefix}-islands",
            f"{setting}: from P = 1 to P = 8, S-SMC∥ (equal weights) gains more than S-HMC∥: NLL, "
            "H_ep of mistakes",
            every(gains_more("nll", smc, hmc, -1), gains_more(wrong, smc, hmc, 1)),
            table,
        )
    )
    return claims
