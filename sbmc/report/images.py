"""Small pictures inside a page, encoded by the standard library alone."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from sbmc.checks import require

# Of a larger picture only every second, third, ... pixel is taken.
MOST_PIXELS = 64


def encode_png(image: np.ndarray) -> bytes:
    r"""A PNG file with 8 bits for each channel.

    Args:
        image: `(height, width)` in grey or `(height, width, 3)` in colour, values from 0 to 1.

    Returns:
        The file.

    Examples:
        >>> encode_png(np.zeros((2, 2)))[:4]
        b'\x89PNG'
    """
    good = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)
    rule = "of shape (height, width) or (height, width, 3)"
    require(bool(good and image.size), "image", rule, image.shape)
    step = -(-max(image.shape[:2]) // MOST_PIXELS)
    small = np.nan_to_num(np.asarray(image, dtype=np.float64)[::step, ::step])
    pixels = np.round(255 * np.clip(small, 0, 1)).astype(np.uint8)
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, -1)
    # Each row begins with the number of its filter: none.
    raw = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()
    colour = 0 if pixels.ndim == 2 else 2
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def data_url(image: np.ndarray) -> str:
    """A picture as an address that contains it, for the attribute `src`."""
    return "data:image/png;base64," + base64.b64encode(encode_png(image)).decode("ascii")
