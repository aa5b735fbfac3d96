"""`sbmc run --dry-run`: what the runs would take, in a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from sbmc.cli.tables import print_wide
from sbmc.fitting.forecast import format_seconds
from sbmc.islands.process_memory import format_bytes
from sbmc_studies.experiments.context import prepare_context
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.runs.forecast import Forecast, forecast

HEADINGS = (
    *("", "islands", "particles", "networks\ntrained", "epochs of\ntraining, ≤", "epochs\na chain"),
    *("epochs\nin all, ≤", "time,\nabout", "memory\na worker", "memory\nin all", "checkpoint"),
)


def show_forecasts(specs: Sequence[RunSpec], out: Path, resources: Resources) -> None:
    """Print what runs would take, a line for each method.

    Args:
        specs: the runs, of one experiment; each method has the same seeds.
        out: the folder of records, where the checkpoints would be.
        resources: shared with other runs of this process.
    """
    first = specs[0]
    one_seed = [spec for spec in specs if spec.seed == first.seed]
    seeds = len(specs) // len(one_seed)
    each = f", each of {seeds} seeds" if seeds > 1 else ""
    title = f"{first.experiment}: expected{each}"
    table = Table(title=title, title_justify="left", pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading else "left")
    notes: list[str] = []
    total = 0.0
    for spec in one_seed:
        method = get_method(spec.method)
        context = prepare_context(spec, resources, out if method.sampler is not None else None)
        expected = forecast(context, method)
        size = str(spec.islands), str(spec.settings["particles"])
        table.add_row(method.label, *size, *_cells(expected))
        if expected.sampling is not None:
            notes += [f"{method.label}: {note}" for note in expected.sampling.notes]
        total += expected.seconds * seeds
    print_wide(table)
    for note in dict.fromkeys(notes):
        print(note)
    print(
        f"In all: about {format_seconds(total)}; less where training stops before its last epoch."
    )


def _cells(expected: Forecast) -> list[str]:
    parts = [part for part in (expected.training, expected.sampling) if part is not None]
    chain = expected.sampling
    disk = chain.disk_bytes if chain is not None else 0
    return [
        str(expected.networks),
        str(expected.training_epochs) if expected.networks else "-",
        "-" if chain is None else f"{chain.epochs + chain.forward_epochs:,.0f}",
        f"{expected.total_epochs:,.0f}",
        format_seconds(expected.seconds),
        format_bytes(max(part.bytes for part in parts)),
        format_bytes(max(part.total_bytes for part in parts)),
        format_bytes(disk) if disk else "-",
    ]
