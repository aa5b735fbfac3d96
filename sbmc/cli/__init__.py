"""The command line: the same words as in Python, from a shell."""

from sbmc.cli.main import main

__all__ = ["main"]
