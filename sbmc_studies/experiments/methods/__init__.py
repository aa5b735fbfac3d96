"""The methods of the studies: one file each, found by the registry."""

from sbmc_studies.experiments.methods.contract import Method, Outcome
from sbmc_studies.experiments.methods.registry import METHODS, get_method, get_methods, method_label

__all__ = ["METHODS", "Method", "Outcome", "get_method", "get_methods", "method_label"]
