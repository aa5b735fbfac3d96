"""What all figures share: a Figure of their own, and colours that everyone can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbmc.checks import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette: apart for all kinds of colour vision.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY = "#E69F00", "#56B4E9", "#000000", "#777777"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")


def new_figure(width: float, height: float) -> Figure:
    """A figure of so many inches.

    It is not pyplot's: nothing global is changed, and no display is needed.

    Args:
        width: in inches.
        height: in inches.

    Returns:
        An empty matplotlib figure.

    Raises:
        BadInput: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BadInput(
            "`matplotlib` must be installed to draw the picture: pip install 'sbmc[plots]'."
        ) from error
    return Figure(figsize=(width, height), layout="constrained")
