"""Atomic writes, digests, the provenance of results, and packages that may be missing."""
