"""Atomic writes, digests, and the provenance of results."""
