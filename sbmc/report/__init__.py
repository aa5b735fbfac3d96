"""Figures for pages and files, and pages of figures and tables, about any results."""
