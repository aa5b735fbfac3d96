"""Links and anchors of Markdown pages, and where addresses of the project lead on disk."""

import functools
import re
import tomllib
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from repository import ROOT

REPOSITORY = "https://github.com/sbmc-project/sbmc"
RAW = "https://raw.githubusercontent.com/sbmc-project/sbmc/main/"
SITE = "https://sbmc-project.github.io/sbmc/"
DOCS = ROOT / "docs"

FENCE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
ATTRIBUTE = re.compile(r"(?:href|src)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*#*$", re.MULTILINE)
EXPLICIT = re.compile(r"\{[^}]*#([\w.-]+)[^}]*\}\s*$")
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)


class Lost(NamedTuple):
    """An address that leads nowhere, and why."""

    address: str
    reason: str


def links(text):
    """The addresses that a page of Markdown links to or shows, outside code."""
    bare = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    # A link's words may be code: what was taken out leaves empty brackets, which still match.
    return [*LINK.findall(bare), *ATTRIBUTE.findall(bare)]


def slug(heading):
    """The anchor of a heading, as GitHub and the site make it.

    >>> slug("## What `fit` does: s, v & more")
    'what-fit-does-s-v--more'
    """
    words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading.lstrip("# "))
    return re.sub(r"[^\w\- ]", "", words.replace("`", "").strip().lower()).replace(" ", "-")


@functools.cache
def anchors(path):
    """All anchors of a Markdown page; those of docstrings as far as the page names them."""
    text = path.read_text("utf-8")
    found = set(DIRECTIVE.findall(text)) | set(re.findall(r"(?:id|name)=\"([^\"]+)\"", text))
    for heading in HEADING.findall(FENCE.sub("", text)):
        explicit = EXPLICIT.search(heading)
        base = explicit.group(1) if explicit else slug(EXPLICIT.sub("", heading))
        found.add(base if base not in found else f"{base}-1")
    return frozenset(found)


def site_page(path):
    """The Markdown file of a page of the site, by its path below the site's address."""
    name = path.strip("/").removesuffix(".html")
    for file in (DOCS / f"{name}.md", DOCS / name / "index.md"):
        if name and file.is_file():
            return file
    return DOCS / "index.md" if not name else None


def target(address, page):
    """The file that an address of ours leads to; None if it is missing, and "" if not ours."""
    bare = unquote(address.split("#")[0])
    if bare.startswith(SITE):
        below = bare.removeprefix(SITE)
        asset = DOCS / below
        return asset if below and asset.is_file() else site_page(below)
    if bare.startswith(RAW):
        file = ROOT / bare.removeprefix(RAW)
        return file if file.is_file() else None
    if bare.startswith(f"{REPOSITORY}/"):
        kind, _, rest = bare.removeprefix(f"{REPOSITORY}/").partition("/")
        if kind not in ("blob", "tree", "raw"):
            return ""  # issues, releases and the like
        branch, _, path = rest.partition("/")
        file = ROOT / path
        there = file.is_dir() if kind == "tree" else file.is_file()
        return file if branch == "main" and there else None
    if urlsplit(address).scheme or bare.startswith("//"):
        return ""
    if not bare:
        return page
    file = (page.parent / bare).resolve()
    return file if file.exists() else None


def lost(address, page):
    """What is wrong with an address on a page, or None."""
    file = target(address, page)
    if file == "":
        return None
    if file is None:
        return Lost(address, "there is no such file")
    _, _, anchor = address.partition("#")
    if anchor and re.fullmatch(r"L\d+(-L\d+)?", anchor):
        last = int(re.findall(r"\d+", anchor)[-1])
        lines = file.read_text("utf-8").count("\n")
        return Lost(address, f"it has {lines} lines") if last > lines else None
    if anchor and file.suffix == ".md" and unquote(anchor) not in anchors(file):
        return Lost(address, f"{file.relative_to(ROOT)} has no such heading")
    return None


def project_urls():
    """The addresses that pyproject.toml gives to package indexes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return list(project.get("urls", {}).values())


def markdown_pages():
    """All Markdown pages for readers: those of the site, and those beside the code."""
    beside = [Path(ROOT / folder / "README.md") for folder in ("experiments", "benchmarks")]
    return sorted([*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *beside])
