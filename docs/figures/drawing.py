"""What the figures of the documentation share: colours, plain axes and one command line.

Every script of this folder draws one picture with the public functions of `sbmc`:

    python docs/figures/scale.py                       docs/images/scale.png
    python docs/figures/scale.py --quick --out x.png   few particles, for the tests
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from sbmc.report.pictures import write_picture

IMAGES = Path(__file__).parents[1] / "images"
# Okabe and Ito's colours, which the colour-blind tell apart.
BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#6b7280"


def plain(axes: object) -> None:
    """Take the upper and the right edge off some axes."""
    for edge in ("top", "right"):
        axes.spines[edge].set_visible(False)  # type: ignore[attr-defined]


def draw(make: Callable[[bool], Figure], name: str) -> None:
    """Read the command line, make the figure and save it.

    Args:
        make: from whether to be quick to the figure.
        name: of the picture in docs/images, without its ending.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=IMAGES / f"{name}.png")
    parser.add_argument("--quick", action="store_true", help="few particles, to try it")
    options = parser.parse_args()
    print(write_picture(make(options.quick), options.out))
