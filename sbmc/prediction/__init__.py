"""Predictions with their uncertainty, how they are mixed, and metrics of them."""
