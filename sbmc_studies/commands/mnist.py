"""`sbmc run mnist` and `sbmc table mnist`: two networks of a usual size on MNIST."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from sbmc.checks import require
from sbmc_studies.commands.options import parse_numbers, require_records
from sbmc_studies.gauntlet.running import check_methods
from sbmc_studies.mnist.pairs import STUDY, get_mnist_pair, mnist_pairs, mnist_seeds
from sbmc_studies.mnist.running import METHODS, run_mnist_pair
from sbmc_studies.mnist.table import mnist_lines
from sbmc_studies.paper.tables.pages import fill_marks


def run_mnist(
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
    """Run methods on both networks; what is recorded is not run again.

    Args:
        methods: names with commas; all if not given.
        seeds: such as 0-2; those of the list if not given.
        settings: `pairs`, names with commas.
        out: the folder of all records.
        quick: one seed, unless said otherwise.
        force: whether to run again what is recorded.
        data_dir: where to look first for `mnist.npz`.
        quiet: whether to print nothing.

    Returns:
        The exit code.
    """
    for name, value in settings.items():
        rule = "left out for the study mnist, which has no setting but pairs=..."
        require(name == "pairs", name, rule, value)
    names = settings["pairs"].split(",") if "pairs" in settings else None
    pairs = mnist_pairs() if names is None else [get_mnist_pair(name) for name in names]
    chosen = check_methods(tuple(METHODS) if methods is None else methods.split(","), METHODS)
    usual = mnist_seeds()[:1] if quick else mnist_seeds()
    numbers = usual if seeds is None else parse_numbers("seeds", seeds)
    jobs = [(pair, seed) for seed in numbers for pair in pairs]
    began = time.perf_counter()
    for number, (pair, seed) in enumerate(jobs, start=1):
        if not quiet:
            elapsed = time.perf_counter() - began
            print(f"{number} of {len(jobs)}: {pair.name}, seed {seed} ({elapsed:.0f} s so far)")
        run_mnist_pair(pair, seed, chosen, out, force=force, data_dir=data_dir)
    if not quiet:
        print(f"Records are in {out}. See: sbmc table mnist --records {out}")
    return 0


def show_mnist(records: Path) -> None:
    """Print the tables of the study."""
    require_records(records)
    print("\n".join(mnist_lines(records)))


def with_mnist(text: str, records: Path) -> str:
    """A page's text with the tables of the records between its marks.

    Raises:
        BadInput: there is no such folder, or the page has no marks.
    """
    require_records(records)
    tables = "\n".join(mnist_lines(records))
    return fill_marks(text, STUDY, lambda _: tables, start="table", end="end")
