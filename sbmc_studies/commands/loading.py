"""The one door from the commands, as the parser sees them, to their work."""

from __future__ import annotations

from typing import Any


def load_work() -> Any:
    """The modules with the work of all commands, which take a while to import."""
    from sbmc_studies.commands import work

    return work
