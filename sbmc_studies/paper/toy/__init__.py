"""The toy study: what s and T do to a target with two modes, and to the chains on it."""

from sbmc_studies.paper.toy.run import Toy, read_toy, run_toy
from sbmc_studies.paper.toy.table import toy_table, toy_verdicts

__all__ = ["Toy", "read_toy", "run_toy", "toy_table", "toy_verdicts"]
