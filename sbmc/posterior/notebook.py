"""The HTML of a posterior in a notebook: a small table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbmc.storage.html_tables import html_table

if TYPE_CHECKING:
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
    rows += posterior.health.rows()
    return html_table(rows, caption="sbmc posterior")
