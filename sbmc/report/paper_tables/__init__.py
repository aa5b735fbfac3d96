"""The tables of the paper's appendix, filled from the runs that were given."""

from sbmc.report.paper_tables.made import Made, paper_label
from sbmc.report.paper_tables.tables import paper_tables

__all__ = ["Made", "paper_label", "paper_tables"]
