"""Tuning on an experiment, and what the paper claims of it."""
