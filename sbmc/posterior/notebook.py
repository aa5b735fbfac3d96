"""The HTML of a posterior in a notebook: a small table, escaped, without scripts or styles."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbmc.islands.health import Health
    from sbmc.posterior.posterior import Posterior


def posterior_card(posterior: Posterior) -> str:
    """HTML of a posterior: its sizes, its cost and its health.

    Args:
        posterior: the posterior to show.

    Returns:
        A table; every text in it is escaped.
    """
    islands, particles, dim = posterior.positions.shape
    settings, seconds = posterior.settings, posterior.cost.wall_seconds
    rows: list[tuple[str, str]] = [
        ("islands × particles", f"{islands} × {particles}"),
        ("parameters", f"{dim:,}"),
    ]
    if "sampler" in settings:
        rows.append(("sampler", str(settings["sampler"])))
    s = settings.get("s")
    if s is not None:
        rows.append(("s", s if isinstance(s, str) else f"{s:g}"))
    if posterior.mixture is not None:
        members = (member for member in posterior.mixture.members if member.weight > 0)
        rows += [(f"weight of {member.name}", f"{member.weight:.3f}") for member in members]
    if settings.get("evidence_withheld") and posterior.weighting == "evidence":
        rows.append(("evidence", f"withheld ({settings['evidence_withheld']})"))
    thinned = settings.get("thinned")
    if thinned:
        before = f"{thinned['islands']} × {thinned['particles']}"
        rows.append(("thinned from", f"{before}; predictions move by {thinned['moved']:.2g}"))
    rows.append(("epochs per particle", f"{posterior.cost.epochs:g}"))
    if seconds is not None:
        rows.append(("seconds", f"{seconds:.1f}"))
    rows += _verdict(posterior.health)
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows
    )
    return f"<table><caption>sbmc posterior</caption>{cells}</table>"


def _verdict(health: Health) -> list[tuple[str, str]]:
    rows = [("health", health.word)]
    figures: Any = health.figures
    if figures:
        moved, accepted = figures["displacement"], figures["acceptance"]
        rows.append(("moved, in posterior standard deviations", _extent(moved)))
        if accepted is not None:
            rows.append(("acceptance of particles", _extent(accepted)))
        rows.append(("moves after warm-up", str(figures["moves"])))
    rows += [("why", reason) for reason in health.reasons]
    rows += [("what to try", remedy) for remedy in health.remedies]
    return rows


def _extent(extent: dict[str, float]) -> str:
    return f"median {extent['median']:.2g}, least {extent['least']:.2g}"
