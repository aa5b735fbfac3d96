"""The command line: the same names as in Python, from a shell."""

from sbmc.cli.wait_policy import let_threads_sleep

let_threads_sleep()  # before torch is imported, which reads it once

from sbmc.cli.main import main  # noqa: E402

__all__ = ["main"]
