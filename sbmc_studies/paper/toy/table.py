"""The table of IACT against s and T, and what the paper claims of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sbmc.checks import require
from sbmc_studies.paper.claims.claim import Verdict

if TYPE_CHECKING:
    from rich.table import Table

    from sbmc_studies.paper.toy.run import Toy

# Two neighbours count as different if they are so many standard errors apart: a false alarm in
# forty for each pair that is the same in truth.
ERRORS_APART = 2.0

_STATEMENTS = {
    "s": "SBMC improves mixing: IACT falls as s falls",
    "T": "cold posteriors hinder mixing: IACT rises as T falls",
}


def toy_table(toy: Toy) -> Table:
    """The table for the terminal.

    Args:
        toy: a run of the study.

    Returns:
        A rich table: a row for each s, then one for each T.
    """
    from rich.table import Table

    names = ("target", "IACT", "standard error", "epochs a draw", "epochs for one independent draw")
    table = Table(title=f"NUTS on the toy target, seed {toy.record.seed}")
    for name in names:
        table.add_column(name, justify="left" if name == "target" else "right")
    metrics = toy.record.metrics
    for family in ("s", "T"):
        for case in toy.cases(family):
            iact, error, epochs = (
                float(metrics[f"{name}.{case.name}"] or math.nan)
                for name in ("iact", "iact_se", "epochs_per_draw")
            )
            what = "SBMC" if family == "s" else "cold posterior"
            numbers = (f"{iact:.2f}", f"{error:.2f}", f"{epochs:.2f}", f"{iact * epochs:.1f}")
            table.add_row(f"{what}, {family} = {case.value:g}", *numbers)
        table.add_section()
    return table


def toy_verdicts(toys: Sequence[Toy]) -> list[Verdict]:
    """Check the paper's claims of the figure on cold posteriors: one verdict for s, one for T.

    Args:
        toys: runs of the study that differ in their seeds alone; their IACTs are averaged. One run
            of the default length can leave a pair of neighbours undecided.

    Returns:
        The verdicts. A claim holds if every step to a lower value moves the IACT the way that it
        says, by at least `ERRORS_APART` standard errors of the difference.
    """
    hashes = sorted({toy.record.hash for toy in toys})
    require(len(hashes) == 1, "toys", "one or more runs with the same settings", hashes)
    return [_verdict(toys, "s", sign=-1), _verdict(toys, "T", sign=1)]


def _verdict(toys: Sequence[Toy], family: str, sign: int) -> Verdict:
    cases = toys[0].cases(family)
    iacts = [(_mean(toys, f"iact.{c.name}"), _error(toys, f"iact_se.{c.name}")) for c in cases]
    apart = [
        sign * (lower[0] - higher[0]) > ERRORS_APART * math.hypot(higher[1], lower[1])
        for higher, lower in itertools.pairwise(iacts)
    ]
    evidence = ", ".join(
        f"{family} = {c.value:g}: {iact:.2f} ± {error:.2f}"
        for c, (iact, error) in zip(cases, iacts, strict=True)
    )
    return Verdict(_STATEMENTS[family], bool(apart) and all(apart), evidence)


def _mean(toys: Sequence[Toy], name: str) -> float:
    return sum(float(toy.record.metrics[name] or math.nan) for toy in toys) / len(toys)


def _error(toys: Sequence[Toy], name: str) -> float:
    """Of the mean over independent runs, from the standard errors of each."""
    return math.hypot(*(float(toy.record.metrics[name] or 0) for toy in toys)) / len(toys)
