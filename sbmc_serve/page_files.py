"""The files of the page, read once: what is not among them is not to be had."""

from __future__ import annotations

import mimetypes
from importlib.resources import files
from typing import NamedTuple

FOLDER = "page"
INDEX = "index.html"
# Of those that machines may not know, or know by other names.
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}


class PageFile(NamedTuple):
    """A file of the page and its media type."""

    content: bytes
    media_type: str


def read_page() -> dict[str, PageFile]:
    """The files by their names."""
    folder = files("sbmc_serve") / FOLDER
    if not folder.is_dir():
        return {}
    return {
        each.name: PageFile(each.read_bytes(), _media_type(each.name))
        for each in folder.iterdir()
        if each.is_file() and not each.name.endswith(".py")
    }


def _media_type(name: str) -> str:
    suffix = "." + name.rpartition(".")[2]
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    text = kind.startswith("text/") or kind in ("application/json", "image/svg+xml")
    return f"{kind}; charset=utf-8" if text else kind
