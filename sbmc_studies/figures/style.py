"""What all figures share: a Figure of their own, and colours that everyone can tell apart."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from sbmc.checks import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette: apart for all kinds of colour vision.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY = "#E69F00", "#56B4E9", "#000000", "#777777"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
# A handful of colours and their shades: with a palette of so many a file is a third as large.
SHADES = 256


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


def save(figure: Figure, target: Path) -> Path:
    """Write a figure as a small PNG file.

    Args:
        figure: matplotlib's.
        target: the file's path; its folder is made if needed.

    Returns:
        The path.
    """
    from PIL import Image  # matplotlib needs it too

    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    with Image.open(drawn) as picture:
        # By coverage, since the default merges rare colours: a small blue swatch came out green.
        small = picture.convert("RGB").quantize(
            SHADES, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    small.save(target, "PNG", optimize=True)
    return target
