"""`sbmc run --dry-run`: what the runs would take, in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbmc.cli.tables import print_wide
from sbmc.fitting.forecast import in_words
from sbmc.islands.process_memory import format_bytes
from sbmc_studies.runs.forecast import Forecast, forecast
from sbmc_studies.runs.runner import prepare_context

if TYPE_CHECKING:
    from sbmc_studies.commands.run import Request
    from sbmc_studies.experiments.context import Workshop

HEADINGS = (
    *("", "islands", "particles", "networks\ntrained", "epochs of\ntraining, ≤", "epochs\na chain"),
    *("epochs\nin all, ≤", "time,\nabout", "memory\na worker", "memory\nin all", "checkpoint"),
)


def show_expectations(request: Request, workshop: Workshop) -> None:
    """Print what every run of a request would take, a line for each method.

    Args:
        request: what was asked for.
        workshop: has the data.
    """
    from rich.table import Table

    seeds = len(request.seeds)
    title = (
        f"{request.experiment.name}: expected, each of {seeds} seeds"
        if seeds > 1
        else (f"{request.experiment.name}: expected")
    )
    table = Table(title=title, title_justify="left", pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading else "left")
    notes: list[str] = []
    total = 0.0
    for method, settings in request.plans:
        context = prepare_context(request.experiment, settings, request.seeds[0], workshop)
        context.execution = request.execution
        context.folder = request.out if method.sampler is not None else None
        found = forecast(context, method)
        shape = str(settings["islands"]), str(settings["particles"])
        table.add_row(method.label, *shape, *_cells(found))
        if found.sampling is not None:
            notes += [f"{method.label}: {note}" for note in found.sampling.notes]
        total += found.seconds * seeds
    print_wide(table)
    for note in dict.fromkeys(notes):
        print(note)
    print(f"In all: about {in_words(total)}; less where training stops before its last epoch.")


def _cells(found: Forecast) -> list[str]:
    parts = [part for part in (found.training, found.sampling) if part is not None]
    chain = found.sampling
    disk = chain.disk_bytes if chain is not None else 0
    return [
        str(found.networks),
        str(found.training_epochs) if found.networks else "-",
        "-" if chain is None else f"{chain.epochs + chain.forward_epochs:,.0f}",
        f"{found.total_epochs:,.0f}",
        in_words(found.seconds),
        format_bytes(max(part.bytes for part in parts)),
        format_bytes(max(part.total_bytes for part in parts)),
        format_bytes(disk) if disk else "-",
    ]
