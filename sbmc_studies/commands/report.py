"""`sbmc report`: one HTML page of any runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sbmc.checks import require
from sbmc.report.numbers import count
from sbmc_studies.report import write_report


def make_report(
    runs: Sequence[Path],
    out: Path,
    *,
    title: str | None = None,
    data_dir: Path | None = None,
    show: bool = False,
) -> None:
    """Write the page and say where it is.

    Args:
        runs: folders with records.
        out: the HTML file.
        title: of the page; made from the experiments if not given.
        data_dir: where data sets are looked for first, for pictures of inputs.
        show: whether to open the page in the user's browser.

    Raises:
        BadInput: if one of them is refused.
    """
    require(not out.is_dir(), "out", "a file, such as report.html", str(out))
    require(_can_be_written(out), "out", "a file in a folder that can be written to", str(out))
    folder = data_dir is None or data_dir.is_dir()
    require(folder, "data_dir", "an existing folder", str(data_dir))
    collection = write_report(runs, out, title=title, data_dir=data_dir)
    for path, why in collection.unreadable:
        print(f"sbmc: left out {path}: {why}", file=sys.stderr)
    completed = sum(len(study.runs) for study in collection.studies)
    content = f"{count(completed, 'run')} of {count(len(collection.studies), 'experiment')}"
    print(f"{out}: report of {content}, {out.stat().st_size / 1000:,.0f} kB")
    if show:
        import webbrowser

        webbrowser.open(out.absolute().as_uri())


def _can_be_written(out: Path) -> bool:
    """Whether the page could be written, before the work of making it; no folder is made yet."""
    folder = out.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
