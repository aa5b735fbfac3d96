"""Choosing v and s by cross-validation."""

from sbmc.tuning.result import Cell, Point, Tuning, read_tuning, within_error
from sbmc.tuning.search import tune

__all__ = ["Cell", "Point", "Tuning", "read_tuning", "tune", "within_error"]
