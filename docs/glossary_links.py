"""`python docs/glossary_links.py`: links terms to the glossary where a page first uses them.

A term is a word of docs/glossary.md. Its first use on a page, outside of code, headings, links and
tables that are made from records, has to be a link to its place in the glossary. The script puts
missing links in, and changes nothing else; `tests/test_glossary.py` says where one is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

DOCS = Path(__file__).parent
GLOSSARY = DOCS / "glossary.md"
# Pages that are made from something else, or list what is there.
LEFT_OUT = ("glossary.md", "index.md", "api", "gallery")
# Words that pages also use in their ordinary sense, in which a link would mislead.
ORDINARY = frozenset(
    (
        *("accuracy", "adapter", "baseline", "batch", "cell", "chain", "claim"),
        *("context", "coverage", "draw", "engine", "estimator", "experiment", "extra"),
        *("fold", "guarantee", "heat", "identity", "info", "job", "kernel"),
        *("launch", "method", "move", "origin", "pass", "path", "population"),
        *("position", "power", "prediction", "prior", "probe", "record", "resampling"),
        *("scale", "scheduler", "split", "start", "state", "target", "temperature"),
        "worker",
    )
)
# What a reader sees as text, and the parts of a page in which nothing is linked.
_GENERATED = r"<!-- (?:table|confidence|results|index|tree|scaling)\b.*?<!-- end\b.*?-->"
_APART = re.compile(
    rf"{_GENERATED}|<!--.*?-->|^```.*?^```|^    .*?$|^#.*?$|``.+?``|`[^`]+`|<[^>\n]+>",
    re.DOTALL | re.MULTILINE,
)
_LINK = re.compile(r"!?\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<address>[^()\s]*)\)")


def slug(word: str) -> str:
    """The anchor of a word: `nested R-hat` has `nested-r-hat`."""
    return re.sub(r"[^a-z0-9-]", "", re.sub(r"[ _]", "-", word.lower()))


def glossary_rows(text: str) -> list[str]:
    """The lines of the glossary that explain a word."""
    return [line for line in text.splitlines() if line.startswith("| **")]


def words(text: str) -> list[str]:
    """All words of the glossary, in its order."""
    rows = glossary_rows(text)
    return [word for row in rows for word in re.findall(r"\*\*(.+?)\*\*", row.split("|")[1])]


def linked_terms(text: str) -> list[str]:
    """The words whose first use is linked, the longest first: `anchored prior` before `anchor`."""
    chosen = [word for word in words(text) if word not in ORDINARY]
    return sorted(chosen, key=lambda word: (-len(word), word))


def pages() -> list[Path]:
    """The pages in which terms are linked."""
    found = sorted(DOCS.rglob("*.md"))
    return [page for page in found if not _name(page).startswith(LEFT_OUT)]


def _name(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def first_use(page: str, term: str, terms: Iterable[str] = ()) -> re.Match[str] | None:
    """Where a page first uses a term in its text, if that use has to be a link and is none.

    Args:
        page: the text of a page.
        term: a word of the glossary.
        terms: all words. In a longer one, as `posterior` in `full posterior`, a use does not count.

    Returns:
        The use, in the page; None if the term is not used, or is linked before.
    """
    masked = _APART.sub(lambda match: _blank(match[0]), page)
    linked = len(page)
    for link in _LINK.finditer(masked):
        if link["address"].endswith(f"glossary.md#{slug(term)}"):
            linked = link.start()
            break
    masked = _LINK.sub(lambda match: _blank(match[0]), masked)
    for longer in terms:
        if longer != term and _pattern(term).search(longer):
            masked = _pattern(longer).sub(lambda match: _blank(match[0]), masked)
    found = _pattern(term).search(masked)
    return found if found and found.start() < linked else None


def _pattern(term: str) -> re.Pattern[str]:
    """A term as it is read: in any case, over the end of a line, and in the plural."""
    spaced = r"\s+".join(re.escape(part) for part in term.split())
    # Abbreviations are written in capitals alone: MAP is no map.
    flags = re.NOFLAG if term.isupper() else re.IGNORECASE
    return re.compile(rf"(?<![\w·-]){spaced}s?(?![\w·-])", flags)


def _blank(text: str) -> str:
    """As many characters, without a word."""
    return re.sub(r"\S", " ", text)


def with_links(page: str, terms: list[str], glossary: str) -> str:
    """A page with a link at the first use of each term.

    Args:
        page: its text.
        terms: the words of the glossary to link, the longest first.
        glossary: the address of the glossary from this page.

    Returns:
        The text, in which terms that were linked before are as they were.

    Example:
        >>> with_links("Two islands of particles.", ["island"], "glossary.md")
        'Two [islands](glossary.md#island) of particles.'
    """
    for term in terms:
        use = first_use(page, term, terms)
        if use:
            link = f"[{use[0]}]({glossary}#{slug(term)})"
            page = page[: use.start()] + link + page[use.end() :]
    return page


def glossary_address(page: Path) -> str:
    """The address of the glossary, from a page of the documentation."""
    return "../" * (len(page.relative_to(DOCS).parts) - 1) + GLOSSARY.name


if __name__ == "__main__":
    all_terms = linked_terms(GLOSSARY.read_text("utf-8"))
    for each in pages():
        before = each.read_text("utf-8")
        after = with_links(before, all_terms, glossary_address(each))
        if after != before:
            each.write_text(after, "utf-8")
            print(each)
