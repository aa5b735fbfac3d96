"""The work of the commands for one's own model, imported when one of them is called."""

from sbmc.cli.answering import run_evaluate, run_predict
from sbmc.cli.card_work import run_card
from sbmc.cli.drift_work import run_drift
from sbmc.cli.export_work import run_export
from sbmc.cli.fit_work import FitOptions, run_fit
from sbmc.cli.opening import DataOptions
from sbmc.cli.report_work import run_report

__all__ = [
    "DataOptions",
    "FitOptions",
    "run_card",
    "run_drift",
    "run_evaluate",
    "run_export",
    "run_fit",
    "run_predict",
    "run_report",
]
