"""One self-contained HTML page of any runs, made from their records alone."""

from sbmc_studies.report.collect import Collection, collect
from sbmc_studies.report.page import render, write_report

__all__ = ["Collection", "collect", "render", "write_report"]
