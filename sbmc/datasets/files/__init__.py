"""One's own data in files: tables with their encoding, arrays, and what was read from them."""

from sbmc.datasets.files.arrays import ArrayNames, read_arrays
from sbmc.datasets.files.encoding import Column, TableEncoding, UnknownLevelWarning
from sbmc.datasets.files.rows import Rows, TargetUse
from sbmc.datasets.files.table import TABLES, TextTable, read_table

__all__ = [
    "TABLES",
    "ArrayNames",
    "Column",
    "Rows",
    "TableEncoding",
    "TargetUse",
    "TextTable",
    "UnknownLevelWarning",
    "read_arrays",
    "read_table",
]
