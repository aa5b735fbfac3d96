"""The page's rule from strokes to the picture that the network sees, once more and in numpy."""

from itertools import pairwise

import numpy as np

BLOCK = 4
DIGITS = {"box": (0.625, 1), "wider": 1.3, "taller": 2.5, "pens": np.arange(1.5, 4.1, 0.25)}
DIGITS["ink"] = 0.3
LARGER = {"box": (5 / 7, 5 / 7), "wider": 1, "taller": 1, "pens": [4.5], "ink": 0}
SMALLEST = 0.25


def bitmap(strokes, height, width, style, radius):
    """Which points are black: those within the radius of a stroke that was stretched to the box."""
    points = np.concatenate([np.array(stroke) for stroke in strokes])
    low, high = points.min(0), points.max(0)
    middle = (low + high) / 2
    size = np.maximum(high - low, 1e-9)
    across = (style["box"][0] * width - 2 * radius) / size[0]
    down = (style["box"][1] * height - 2 * radius) / size[1]
    across = min(across, style["wider"] * down)
    down = min(down, style["taller"] * across)
    across, down = min(across, width / SMALLEST), min(down, height / SMALLEST)
    y, x = np.mgrid[:height, :width] + 0.5
    black = np.zeros((height, width), dtype=bool)
    for stroke in strokes:
        path = (np.array(stroke) - middle) * (across, down) + (width / 2, height / 2)
        if len(path) == 1:
            path = np.repeat(path, 2, axis=0)
        for (ax, ay), (bx, by) in pairwise(path):
            dx, dy = bx - ax, by - ay
            length = dx * dx + dy * dy
            along = np.zeros_like(x)
            if length > 0:
                along = np.clip(((x - ax) * dx + (y - ay) * dy) / length, 0, 1)
            ex, ey = x - (ax + along * dx), y - (ay + along * dy)
            black |= ex * ex + ey * ey <= radius * radius
    return black


def shrink(strokes, rows, columns):
    """Black points in each cell, `(rows, columns)`."""
    if not strokes:
        return np.zeros((rows, columns), dtype=int)
    style = DIGITS if max(rows, columns) <= 16 else LARGER
    for pen in style["pens"]:
        black = bitmap(strokes, rows * BLOCK, columns * BLOCK, style, pen)
        if black.sum() >= style["ink"] * black.size:
            break
    return black.reshape(rows, BLOCK, columns, BLOCK).sum((1, 3))
