"""`sbmc run gauntlet` and `sbmc table gauntlet`: the defaults on networks that nobody tuned for."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

from sbmc.checks import BadInput, Phrase, nearest, require
from sbmc_studies.commands.options import parse_numbers
from sbmc_studies.gauntlet.methods import METHODS
from sbmc_studies.gauntlet.pairs import PARTS, Pair, gauntlet_pairs, gauntlet_seeds, get_pair
from sbmc_studies.gauntlet.running import QUICK_METHODS, QUICK_PAIRS, check_methods, run_pair
from sbmc_studies.gauntlet.table import gauntlet_lines

GAUNTLET = "gauntlet"
BEGIN, END = "<!-- table: gauntlet -->", "<!-- end: gauntlet -->"
SETTINGS = ("part", "pairs")


def run_gauntlet(
    methods: str | None,
    seeds: str | None,
    settings: Mapping[str, str],
    out: Path,
    *,
    quick: bool,
    force: bool,
    data_dir: Path | None,
    quiet: bool,
) -> int:
    """Run methods on pairs; what is recorded is not run again.

    Args:
        methods: names with commas; all if not given.
        seeds: such as 0-2; those of the list if not given.
        settings: `part`, or `pairs` by name with commas.
        out: the folder of all records.
        quick: six pairs, four methods and one seed, unless said otherwise.
        force: whether to run again what is recorded.
        data_dir: where to look first for data files.
        quiet: whether to print nothing.

    Returns:
        The exit code.
    """
    for name in settings:
        if name not in SETTINGS:
            raise BadInput(
                f"`--set` must be part=... or pairs=... for the gauntlet, but got {name!r}."
                f"{nearest(name, SETTINGS)}"
            )
    usual = QUICK_METHODS if quick else tuple(METHODS)
    chosen = check_methods(usual if methods is None else methods.split(","))
    pairs = _pairs(settings, quick)
    usual_seeds = (0,) if quick else gauntlet_seeds()
    numbers = usual_seeds if seeds is None else parse_numbers("seeds", seeds)
    total = len(pairs) * len(numbers)
    began = time.perf_counter()
    for done, (pair, seed) in enumerate((p, s) for p in pairs for s in numbers):
        if not quiet:
            elapsed = time.perf_counter() - began
            print(f"{done + 1} of {total}: {pair.name}, seed {seed} ({elapsed:.0f} s so far)")
        run_pair(pair, seed, chosen, out, force=force, data_dir=data_dir)
    if not quiet:
        print(f"Records are in {out / GAUNTLET}. See: sbmc table gauntlet --records {out}")
    return 0


def _pairs(settings: Mapping[str, str], quick: bool) -> list[Pair]:
    if "pairs" in settings:
        return [get_pair(name) for name in settings["pairs"].split(",")]
    if quick:
        return [get_pair(name) for name in QUICK_PAIRS]
    part = settings.get("part")
    rule = f"one of {', '.join(PARTS)}"
    require(part is None or part in PARTS, "part", rule, part)
    return gauntlet_pairs(part)


def show_gauntlet(records: Path) -> None:
    """Print the tables of the gauntlet."""
    _require_records(records)
    print("\n".join(gauntlet_lines(records)))


def with_tables(text: str, records: Path) -> str:
    """A page's text with the tables of the records between its marks.

    Raises:
        BadInput: there are no records, or the page has no marks.
    """
    _require_records(records)
    parts = re.split(f"({re.escape(BEGIN)}|{re.escape(END)})", text)
    rule = f"a page with the marks {BEGIN} and {END}"
    require(parts[1::2] == [BEGIN, END], "write", rule, Phrase("one without"))
    return f"{parts[0]}{BEGIN}\n\n{chr(10).join(gauntlet_lines(records))}\n{END}{parts[4]}"


def _require_records(records: Path) -> None:
    there = (records / GAUNTLET).is_dir()
    rule = "a folder with records of the gauntlet (`sbmc run gauntlet` makes them)"
    require(there, "records", rule, Phrase(str(records)))
