"""Diagnostics: mixing of chains, agreement of islands, and conditioning of the target."""

from sbmc.diagnostics.autocorrelation import (
    autocorrelation,
    effective_sample_size,
    integrated_autocorrelation_time,
)
from sbmc.diagnostics.conditioning import Conditioning, condition_number
from sbmc.diagnostics.convergence import nested_rhat, rhat
from sbmc.diagnostics.diagnose import diagnose
from sbmc.diagnostics.report import Diagnostics, Extent, Summary

__all__ = [
    "Conditioning",
    "Diagnostics",
    "Extent",
    "Summary",
    "autocorrelation",
    "condition_number",
    "diagnose",
    "effective_sample_size",
    "integrated_autocorrelation_time",
    "nested_rhat",
    "rhat",
]
