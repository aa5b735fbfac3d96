"""The methods of the studies: one file each, found by the registry."""

from sbmc.studies.methods.contract import Method, Outcome
from sbmc.studies.methods.registry import METHODS, get_method, get_methods

__all__ = ["METHODS", "Method", "Outcome", "get_method", "get_methods"]
