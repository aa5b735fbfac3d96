"""The work of `sbmc report` for a posterior's file."""

from __future__ import annotations

import shlex
import webbrowser
from pathlib import Path

from sbmc.cli.opening import DataOptions, open_posterior, read_rows, report_health, require_new_file
from sbmc.prediction.predictive import checked_level
from sbmc.report.posterior_page import write_posterior_page
from sbmc.report.posterior_view import view_posterior


def run_report(
    file: Path,
    data: Path,
    out: Path,
    *,
    title: str | None = None,
    model: str | None = None,
    options: DataOptions | None = None,
    level: float = 0.9,
    abstain_above: float | None = None,
    show: bool = False,
    quiet: bool = False,
    any_health: bool = False,
) -> int:
    """Write the page of a posterior and say where it is.

    Args:
        file: the posterior.
        data: rows to show it by, preferably with targets.
        out: the HTML file.
        title: of the page.
        model: a reference to the network, if the file needs one.
        options: what the user says about the data.
        level: of intervals.
        abstain_above: the threshold of abstention.
        show: whether to open the page in the user's browser.
        quiet: no progress.
        any_health: whether the exit code is 0 also if the posterior is not healthy.

    Returns:
        The exit code.

    Raises:
        BadInput: an argument breaks its rule.
    """
    require_new_file(out)
    level = checked_level(level)
    posterior = open_posterior(file, model)
    rows = read_rows(posterior.recipe, data, options)
    view = view_posterior(
        posterior,
        rows,
        name=file.name,
        level=level,
        abstain_above=abstain_above,
        progress=False if quiet else None,
    )
    words = ["sbmc", "report", str(file), "--data", str(data), "--out", str(out)]
    size = write_posterior_page(view, out, command=shlex.join(words), title=title)
    print(f"{out}: report of {file.name} on {len(rows):,} rows, {size / 1000:,.0f} kB")
    if show:
        webbrowser.open(out.absolute().as_uri())
    return report_health(posterior, any_health=any_health)
