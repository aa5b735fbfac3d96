"""What the studies add to the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sbmc.cli.help import add_command
from sbmc.cli.posterior_commands import report_folders_by
from sbmc_studies.commands.listing import experiments_command, methods_command
from sbmc_studies.commands.results_commands import figure_command, report_runs, table_command
from sbmc_studies.commands.resume_commands import extend_command, merge_command, resume_command
from sbmc_studies.commands.run_commands import run_command, tune_command

STUDIES = "The paper's studies"

# Each command with examples for its help.
COMMANDS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "experiments": (experiments_command, ["sbmc experiments"]),
    "methods": (methods_command, ["sbmc methods"]),
    "run": (
        run_command,
        [
            "sbmc run digits                            # MAP, a deep ensemble and S-HMC",
            "sbmc run mnist7 --method s-hmc,de --seeds 0-4",
            "sbmc run mnist7 --method s-smc --islands 8 --workers 2 --dry-run",
        ],
    ),
    "resume": (resume_command, ["sbmc resume runs", "sbmc resume runs/mnist7/s-hmc --workers 2"]),
    "extend": (extend_command, ["sbmc extend runs/mnist7/s-smc/0a1b2c3d/seed0 --islands +8"]),
    "merge": (
        merge_command,
        ["sbmc merge runs/mnist7/s-smc/0a1b2c3d/seed0 elsewhere/seed0 --out merged"],
    ),
    "tune": (
        tune_command,
        ["sbmc tune digits", "sbmc tune mnist7 --v 0.01,0.1,1 --s 0,0.1,0.3 --examples 500"],
    ),
    "table": (
        table_command,
        [
            "sbmc table mnist7                          # our results beside the paper's",
            "sbmc table digits --records runs           # of your own runs",
            "sbmc table paper --format markdown",
        ],
    ),
    "figure": (
        figure_command,
        [
            "sbmc figure mnist7                         # what a budget buys",
            "sbmc figure mnist7 roc --methods s-hmc,de --out roc.pdf",
        ],
    ),
}


def register(app: Any) -> None:
    """Add the commands of the studies; the entry-point group `sbmc.commands` names this function.

    Args:
        app: the application, a `typer.Typer`.
    """
    for name, (command, examples) in COMMANDS.items():
        add_command(app, name, command, examples=examples, panel=STUDIES)
    report_folders_by(report_runs)
