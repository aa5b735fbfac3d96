"""Tuning of the experiments: v, then s, by cross-validation."""
