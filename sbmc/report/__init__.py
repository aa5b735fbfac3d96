"""One self-contained HTML page of any runs, made from their records alone."""

from sbmc.report.collect import Collection, collect
from sbmc.report.page import render, write_report

__all__ = ["Collection", "collect", "render", "write_report"]
