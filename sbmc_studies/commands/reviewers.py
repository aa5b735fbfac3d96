"""`sbmc run reviewers` and `sbmc table reviewers`: records that answer a reviewer's questions."""

from __future__ import annotations

from pathlib import Path

from sbmc_studies.commands.execute import execute, require_writable
from sbmc_studies.commands.options import parse_numbers, require_records
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.records.pooling import SEEDS
from sbmc_studies.reviewers.page import answer_tables
from sbmc_studies.reviewers.questions import QUICK_EXPERIMENT, read_questions


def reviewers_specs(seeds: str | None) -> list[RunSpec]:
    """The runs on digits behind the tables, each once.

    Args:
        seeds: such as 0-2; those that tables pool if not given.

    Returns:
        The runs, in the order of the tables.
    """
    numbers = list(SEEDS) if seeds is None else parse_numbers("seeds", seeds)
    found: dict[tuple[str, int], RunSpec] = {}
    for question in read_questions().values():
        if question.experiment.name != QUICK_EXPERIMENT:
            continue
        for row in question.rows:
            method = get_method(row.method)
            settings = resolve(question.experiment, method, row.preset, row.overrides)
            for seed in numbers:
                spec = RunSpec(QUICK_EXPERIMENT, row.method, settings, seed)
                found.setdefault((spec.hash, seed), spec)
    return list(found.values())


def run_reviewers(
    seeds: str | None, out: Path, *, force: bool, quiet: bool, debug: bool = False
) -> int:
    """Make the runs on digits behind the tables; what is recorded is not run again.

    Args:
        seeds: such as 0-2; those that tables pool if not given.
        out: the folder of all records.
        force: whether to run again what is recorded.
        quiet: whether to print only what goes wrong.
        debug: let unexpected errors through.

    Returns:
        The exit code: 1 if a run failed, else 0.
    """
    require_writable(out)
    resources = Resources(progress=not quiet)
    options = {"force": force, "several": True, "quiet": quiet, "debug": debug}
    runs = [execute(spec, out, resources, **options) for spec in reviewers_specs(seeds)]
    if not quiet:
        print(f"Records are in {out}. See: sbmc table reviewers --records {out}")
    return int(any(run.record.outcome == "failed" for run in runs))


def show_answers(records: Path) -> None:
    """Print every table of docs/reviewers.md, in Markdown."""
    require_records(records)
    for name, make in answer_tables().items():
        print(f"{name}\n\n{make(records)}\n")
