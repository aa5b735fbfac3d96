"""`sbmc run`, `table` and `figure gauntlet`: the defaults on networks that nobody tuned for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sbmc.checks import BadInput, Phrase, nearest, require
from sbmc.report.pictures import check_format, draw_picture, write_picture
from sbmc_studies.commands.completion import GAUNTLET
from sbmc_studies.commands.options import parse_numbers
from sbmc_studies.figures import ranks
from sbmc_studies.gauntlet.check import choose_runs
from sbmc_studies.gauntlet.fitted import DEFAULT, WITHOUT_VALIDATION
from sbmc_studies.gauntlet.methods import METHODS
from sbmc_studies.gauntlet.pairs import PARTS, Pair, gauntlet_pairs, gauntlet_seeds, get_pair
from sbmc_studies.gauntlet.running import (
    QUICK_METHODS,
    QUICK_PAIRS,
    check_methods,
    check_pair,
    run_pair,
)
from sbmc_studies.gauntlet.table import RANKED, gain_lines, gauntlet_lines, ranking_of, read_records
from sbmc_studies.paper.tables.pages import fill_marks

SETTINGS = ("part", "pairs")


def run_gauntlet(
    methods: str | None,
    seeds: str | None,
    settings: Mapping[str, str],
    out: Path,
    *,
    quick: bool,
    check: bool,
    force: bool,
    data_dir: Path | None,
    quiet: bool,
) -> int:
    """Run methods on pairs; what is recorded is not run again.

    Args:
        methods: names with commas; all if not given. With `check`, those to check.
        seeds: such as 0-2; those of the list if not given.
        settings: `part`, or `pairs` by name with commas.
        out: the folder of all records.
        quick: six pairs, four methods and one seed, unless said otherwise.
        check: instead of running methods, check recorded runs of our defaults.
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
    pairs = _pairs(settings, quick)
    usual_seeds = (0,) if quick else gauntlet_seeds()
    numbers = usual_seeds if seeds is None else parse_numbers("seeds", seeds)
    jobs: list[tuple[Pair, int, tuple[str, ...]]]
    if check:
        jobs = [
            (get_pair(name), seed, (method,))
            for method in _checked_methods(methods)
            for name, seed in _runs_to_check(out, method, pairs, numbers)
        ]
    else:
        usual = QUICK_METHODS if quick else tuple(METHODS)
        chosen = check_methods(usual if methods is None else methods.split(","))
        jobs = [(pair, seed, chosen) for pair in pairs for seed in numbers]
    do = check_pair if check else run_pair
    began = time.perf_counter()
    for number, (pair, seed, names) in enumerate(jobs, start=1):
        if not quiet:
            elapsed = time.perf_counter() - began
            print(f"{number} of {len(jobs)}: {pair.name}, seed {seed} ({elapsed:.0f} s so far)")
        do(pair, seed, names, out, force=force, data_dir=data_dir)
    if not quiet:
        print(f"Records are in {out}. See: sbmc table gauntlet --records {out}")
    return 0


def _checked_methods(methods: str | None) -> tuple[str, ...]:
    """Those whose runs are checked: ours, which alone have a verdict of the same kind."""
    chosen = (DEFAULT,) if methods is None else check_methods(methods.split(","))
    for name in chosen:
        ours = (DEFAULT, WITHOUT_VALIDATION)
        require(name in ours, "method", f"{' or '.join(ours)} with --check", name)
    return chosen


def _runs_to_check(
    out: Path, method: str, pairs: Sequence[Pair], seeds: Sequence[int]
) -> list[tuple[str, int]]:
    """The recorded runs to check, part by part, of the pairs and seeds that are asked for."""
    _require_records(out)
    names = {pair.name for pair in pairs}
    found = []
    for part in PARTS:
        records = read_records(out, part)
        asked = [each for each in records if each["pair"] in names and each["seed"] in seeds]
        found += choose_runs(asked, method)
    return found


def _pairs(settings: Mapping[str, str], quick: bool) -> list[Pair]:
    if "pairs" in settings:
        return [get_pair(name) for name in settings["pairs"].split(",")]
    if quick:
        return [get_pair(name) for name in QUICK_PAIRS]
    part = settings.get("part")
    rule = f"one of {', '.join(PARTS)}"
    require(part is None or part in PARTS, "part", rule, part)
    return gauntlet_pairs(part)


def draw_ranks(records: Path, out: Path) -> None:
    """Draw the average ranks of the methods into a file and say where it is.

    Args:
        records: the folder of all records.
        out: the file, which ends in `.png`, `.pdf` or `.svg`.

    Raises:
        BadInput: no part has records of two methods or more on the same pairs.
    """
    check_format(out)
    _require_records(records)
    rankings = {part: ranking_of(records, part) for part in PARTS}
    figures = [ranks.build(each, part) for part, each in rankings.items() if len(each.ranks) > 1]
    rule = f"a folder with runs of {', '.join(RANKED)} on the same pairs"
    require(bool(figures), "records", rule, Phrase(str(records)))
    print(f"Picture: {write_picture(draw_picture(figures), out)}")


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
    return fill_marks(
        text, GAUNTLET, lambda words: _tables(records, words), start="table", end="end"
    )


def _tables(records: Path, words: Sequence[str]) -> str:
    """All tables, or with the word `gain` the README's."""
    lines = gain_lines(records) if "gain" in words else gauntlet_lines(records)
    return "\n".join(lines).strip()


def _require_records(records: Path) -> None:
    there = (records / GAUNTLET).is_dir()
    rule = "a folder with records of the gauntlet (`sbmc run gauntlet` makes them)"
    require(there, "records", rule, Phrase(str(records)))
