"""`sbmc run toy`: the table, the verdict and the figure of the toy study."""

from __future__ import annotations

import sys
from pathlib import Path

from sbmc.checks import require
from sbmc.cli.tables import print_wide
from sbmc_studies.commands.options import parse_numbers
from sbmc_studies.figures.toy import draw_toy
from sbmc_studies.paper.toy import run_toy, toy_table, toy_verdicts

PICTURE = "toy.png"


def run_toy_study(seeds: str, out: Path, *, force: bool = False, quiet: bool = False) -> int:
    """Run the toy study with each seed, and show the results.

    Args:
        seeds: numbers as `--seeds` takes them.
        out: folder of the records.
        force: run even if the record is there.
        quiet: no progress, only the results.

    Returns:
        The exit code: 0.
    """
    require(not out.is_file(), "out", "a folder", str(out))
    toys = []
    for seed in parse_numbers("seeds", seeds):
        if not quiet:
            print(f"toy seed {seed} ...", file=sys.stderr)
        toys.append(run_toy(out, seed, progress=not quiet, force=force))
        print_wide(toy_table(toys[-1]))
    for verdict in toy_verdicts(toys):
        print(f"{'✓' if verdict.holds else '✗'} {verdict.statement}: {verdict.evidence}")
    print(f"Picture: {draw_toy(toys[0], out / 'toy' / PICTURE)}")
    return 0
