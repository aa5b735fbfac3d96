"""What the commands of the studies do; imported when one of them runs, see `load_work`."""

from sbmc_studies.commands import figure, report, resume, run, show, table, tune

__all__ = ["figure", "report", "resume", "run", "show", "table", "tune"]
