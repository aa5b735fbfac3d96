"""Tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_wide(renderable: RenderableType) -> None:
    """Print a table without cutting its cells, however narrow the terminal or the pipe."""
    from rich.console import Console
    from rich.measure import Measurement

    console, wide = Console(), Console(width=1000)
    needed = Measurement.get(wide, wide.options, renderable).maximum
    Console(width=max(console.width, needed)).print(renderable)
