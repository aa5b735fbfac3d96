"""Health: did the particles of a run move, were they accepted, and were there enough moves.

Every figure is of single particles, since a mean over an island hides the chains that are stuck.
A posterior is not ok if more than 5 % of its particles moved less than 0.3 rough posterior standard
deviations (see `displacement`) or were accepted less than 20 % of the time after warm-up; if fewer
than two moves followed the warm-up; if more than 5 % of its particles were put back in the last
half of the run because they blew up; if the sampler saw that an island is not in equilibrium yet;
or if the population of an SMC sampler has collapsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from sbmc.islands.island import IslandReport
from sbmc.islands.remedies import remedies_for
from sbmc.log import warn_user
from sbmc.samplers.remedies import Symptom
from sbmc.storage.html_tables import html_table

# These are never tuned: a run that does not pass needs a better sampler, not another threshold.
SMALLEST_DISPLACEMENT = 0.3
LOWEST_ACCEPTANCE = 0.2
MOST_BAD_PARTICLES = 0.05
FEWEST_MOVES = 2


class HealthWarning(RuntimeWarning):
    """A posterior whose particles did not move or were rejected too often."""


@dataclass(frozen=True)
class Health:
    """Whether the sampler has reached its target, and what to do if not.

    Attributes:
        ok: True or False; None if it is not known, because the posterior was made by a version
            that did not check.
        reasons: what is wrong, as sentences; empty if nothing is.
        remedies: what to try, as sentences; begin with the first.
        figures: what `ok` follows from: `particles`; `moved_too_little` and
            `accepted_too_little` (numbers of particles); `displacement` and `acceptance` (`least`
            and `median` over particles; displacement in rough posterior standard deviations, and
            acceptance None for a sampler that rejects nothing); `moves` after warm-up, the fewest
            of any island; `returned` to their start; `distinct` particles; `collapsed` islands;
            `restarted` particles and `relaxing` islands. Beside them, and without a say in `ok`:
            `settling`, the largest settling figure of an island, and how many islands are
            `unsettled`; None where the sampler does not look.
    """

    ok: bool | None
    reasons: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.ok is None:
            return "not checked: this posterior was made by an earlier version of sbmc"
        if self.ok:
            return "ok"
        return f"not ok: {' '.join(self.reasons)} {' '.join(self.remedies)}".rstrip()

    @property
    def word(self) -> str:
        """`ok`, `not ok` or `not checked`, for a cell of a table."""
        return {True: "ok", False: "not ok", None: "not checked"}[self.ok]

    def rows(self) -> list[tuple[str, str]]:
        """The verdict and what it follows from, as names and texts for a table."""
        rows = [("health", self.word)]
        if self.figures:
            moved, accepted = self.figures["displacement"], self.figures["acceptance"]
            rows.append(("moved, in posterior standard deviations", _in_words(moved)))
            if accepted is not None:
                rows.append(("acceptance of particles", _in_words(accepted)))
            rows.append(("moves after warm-up", str(self.figures["moves"])))
        rows += [("why", reason) for reason in self.reasons]
        rows += [("what to try", remedy) for remedy in self.remedies]
        return rows

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        return html_table(self.rows(), caption="sbmc health")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "ok": self.ok,
            "reasons": list(self.reasons),
            "remedies": list(self.remedies),
            "figures": dict(self.figures),
        }


def _in_words(extent: Mapping[str, float]) -> str:
    return f"median {extent['median']:.2g}, least {extent['least']:.2g}"


def assess(reports: Sequence[IslandReport], settings: Mapping[str, Any]) -> Health:
    """Assess the health of some islands.

    Args:
        reports: the reports of all islands; those that failed do not count.
        settings: the settings of the posterior, with those of the sampler, for the remedies.

    Returns:
        The health. Where nothing was sampled (s = 0, ensembles, baselines) it is ok.

    Examples:
        >>> report = IslandReport(0, "completed", steps=9, moves=4, displacement=[1.1, 0.0])
        >>> assess([report], {}).reasons[0]
        '1 of 2 particles moved less than 0.3 posterior standard deviations (median 0.55).'
    """
    sampled = [r for r in reports if r.outcome == "completed" and r.steps]
    if not sampled:
        return Health(True)
    if not any(report.displacement for report in sampled):
        return Health(None)
    figures = _figures(sampled)
    symptoms = _symptoms(figures)
    sizes = [report.step_size for report in sampled if report.step_size]
    step_size = min(sizes, default=None)
    return Health(
        ok=not symptoms,
        reasons=tuple(symptoms.values()),
        remedies=remedies_for(list(symptoms), settings, step_size) if symptoms else (),
        figures=figures,
    )


def warn_if_not_ok(health: Health) -> None:
    """Warn of a posterior that is not ok, and say what to do."""
    if health.ok is False:
        message = f"The posterior is {health} The figures are in `posterior.health`."
        warn_user(message, HealthWarning)


def _figures(reports: Sequence[IslandReport]) -> dict[str, Any]:
    displacement = [value for report in reports for value in report.displacement]
    acceptance = [value for report in reports for value in report.particle_acceptance]
    moves = [report.moves for report in reports if report.moves is not None]
    ends = [report.settled for report in reports if report.settled is not None]
    return {
        "particles": len(displacement),
        "moved_too_little": sum(not value >= SMALLEST_DISPLACEMENT for value in displacement),
        "accepted_too_little": sum(not value >= LOWEST_ACCEPTANCE for value in acceptance),
        "displacement": _extent(displacement),
        "acceptance": _extent(acceptance) if acceptance else None,
        "chains": len(acceptance),
        "moves": min(moves) if moves else None,
        "returned": sum(report.returned or 0 for report in reports),
        "distinct": sum(report.distinct or 0 for report in reports),
        "collapsed": sum(bool(report.collapsed) for report in reports),
        "collapse": next((f"island {r.index}: {r.collapsed}" for r in reports if r.collapsed), ""),
        "restarted": sum(report.restarted or 0 for report in reports),
        "relaxing": sum(bool(report.relaxing) for report in reports),
        "relaxation": next((f"island {r.index}: {r.relaxing}" for r in reports if r.relaxing), ""),
        "islands": len(reports),
        "settling": max((r.settling for r in reports if r.settling is not None), default=None),
        "unsettled": ends.count(False) if ends else None,
    }


def _extent(values: Sequence[float]) -> dict[str, float]:
    return {"least": min(values), "median": float(f"{median(values):.4g}")}


def _symptoms(figures: Mapping[str, Any]) -> dict[Symptom, str]:
    """What is wrong, with a sentence for each symptom, the likeliest cause first."""
    symptoms: dict[Symptom, str] = {}
    particles, acceptance = figures["particles"], figures["acceptance"]
    if figures["moves"] is not None and figures["moves"] < FEWEST_MOVES:
        count = ("No move", "Only one move")[figures["moves"]]
        symptoms["too few moves"] = f"{count} followed the warm-up, and at least two are needed."
    rejected, chains = figures["accepted_too_little"], figures["chains"]
    if rejected > MOST_BAD_PARTICLES * chains:
        symptoms["rejected"] = (
            f"{rejected} of {chains} particles were accepted less than {LOWEST_ACCEPTANCE:.0%} of "
            f"the time after warm-up (median {acceptance['median']:.2f})."
        )
    stayed = figures["moved_too_little"]
    if stayed > MOST_BAD_PARTICLES * particles:
        middle = figures["displacement"]["median"]
        sentence = (
            f"{stayed} of {particles} particles moved less than {SMALLEST_DISPLACEMENT:g} "
            f"posterior standard deviations (median {middle:.2g})"
        )
        back = figures["returned"]
        symptoms["stayed"] = sentence + (f"; {back} are where they began." if back else ".")
    restarted = figures["restarted"]
    if restarted > MOST_BAD_PARTICLES * particles:
        symptoms["restarted"] = (
            f"{restarted} of {particles} particles blew up and were put back in the last half of "
            "the run."
        )
    if figures["relaxing"]:
        symptoms["relaxing"] = (
            f"{figures['relaxing']} of {figures['islands']} islands are still relaxing "
            f"({figures['relaxation']})."
        )
    if figures["collapsed"]:
        symptoms["collapsed"] = (
            f"The population of {figures['collapsed']} of {figures['islands']} islands has "
            f"collapsed ({figures['collapse']}), so that epistemic uncertainty will be too small."
        )
    return symptoms
