"""What the studies add to the command line."""

from __future__ import annotations

from typing import Any

from sbmc.cli.posterior_commands import report_folders_by
from sbmc_studies.commands.listing import experiments_command, methods_command
from sbmc_studies.commands.results_commands import figure_command, report_runs, table_command
from sbmc_studies.commands.resume_commands import extend_command, merge_command, resume_command
from sbmc_studies.commands.run_commands import run_command, tune_command


def register(app: Any) -> None:
    """Add the commands of the studies; the entry-point group `sbmc.commands` names this function.

    Args:
        app: the application, a `typer.Typer`.
    """
    app.command("run")(run_command)
    app.command("resume")(resume_command)
    app.command("extend")(extend_command)
    app.command("merge")(merge_command)
    app.command("tune")(tune_command)
    app.command("table")(table_command)
    app.command("figure")(figure_command)
    report_folders_by(report_runs)
    app.command("experiments")(experiments_command)
    app.command("methods")(methods_command)
