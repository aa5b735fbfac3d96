"""A page: sections in parts, in one HTML file that fetches nothing and has a largest size."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from sbmc import __version__
from sbmc.report.limits import MOST_BYTES, Limits
from sbmc.report.markup import Html, el, escape, join
from sbmc.report.theme import read_asset
from sbmc.storage.files import atomic_write


@dataclass(frozen=True)
class Section:
    """A section of a page.

    Attributes:
        name: for links; letters and hyphens.
        title: its heading.
        body: what stands below the heading.
        lacking: whether the body only says what would be needed to fill the section.
    """

    name: str
    title: str
    body: Html
    lacking: bool = False


@dataclass(frozen=True)
class Part:
    """A part of a page, which the list of contents names with its sections.

    Attributes:
        name: for links; no other part has it.
        title: its heading.
        intro: what stands below the heading.
        sections: what follows.
    """

    name: str
    title: str
    intro: Html
    sections: Sequence[Section]

    def anchor(self, section: Section) -> str:
        """The name of a section for links, which no other part has."""
        return f"{self.name}-{section.name}"

    def render(self) -> Html:
        """The part as markup."""
        # Sections have no label, which would make them landmarks: too many to be of use.
        sections = [
            el("section", el("h3", each.title, id=self.anchor(each)), each.body)
            for each in self.sections
        ]
        heading = el("h2", self.title, id=self.name)
        return el("section", heading, self.intro, *sections, aria_labelledby=self.name)


def fold_lacking(sections: Sequence[Section]) -> list[Section]:
    """Put sections that lack their data into one, which is a single line until it is opened.

    Args:
        sections: in the order of the page.

    Returns:
        The others, with the one in the place of the first that it takes in. A section that is
        alone in lacking its data stays as it is.
    """
    lacking = [section for section in sections if section.lacking]
    if len(lacking) < 2:
        return list(sections)
    names = "; ".join(each.title.partition(",")[0] for each in lacking)
    lines = [el("div", el("b", each.title), each.body) for each in lacking]
    folded = el("details", el("summary", names), *lines)
    one = Section("further", "What other runs would show", folded)
    place = sections.index(lacking[0])
    full = [section for section in sections if not section.lacking]
    before = sum(not section.lacking for section in sections[:place])
    return [*full[:before], one, *full[before:]]


def render_page(
    title: str,
    lead: str,
    parts: Sequence[Part],
    *,
    command: str,
    before: Html | None = None,
    after: Html | None = None,
    made_from: str = "records alone",
) -> str:
    """Put a page together: the same bytes for the same content.

    Args:
        title: of the page.
        lead: a line below the title.
        parts: what the page is about.
        command: which command makes the page.
        before: what stands before the parts, and is not in the list of contents.
        after: what stands after them.
        made_from: in words, for the last lines of the page.

    Returns:
        The page, whose policy forbids every style and script but its own.
    """
    style, script = read_asset("report.css"), read_asset("report.js")
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )
    return Template(read_asset("page.html")).substitute(
        title=escape(title),
        policy=policy,
        style=style,
        script=script,
        lead=escape(lead),
        contents=_contents(parts),
        content=join((before, *(part.render() for part in parts), after), "\n"),
        command=escape(command),
        made_from=escape(made_from),
        version=escape(__version__),
    )


def fit_page(
    build: Callable[[Limits], str], limits: Limits | None = None, most_bytes: int = MOST_BYTES
) -> str:
    """Make a page with less and less on it until it is small enough.

    Args:
        build: makes the page within limits.
        limits: what is shown at most.
        most_bytes: how large the page may be.

    Returns:
        The first page that fits, or else the smallest that there is.
    """
    limits = limits or Limits()
    while True:
        page = build(limits)
        if len(page.encode("utf-8")) <= most_bytes or limits == limits.tighter():
            return page
        limits = limits.tighter()


def write_page(page: str, path: Path) -> None:
    """Write a page, whole or not at all; the folder is made if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_bytes(page.encode("utf-8"))


def _contents(parts: Sequence[Part]) -> Html:
    entries = []
    for part in parts:
        links = [
            el("li", el("a", each.title, href=f"#{part.anchor(each)}")) for each in part.sections
        ]
        link = el("a", part.title, href=f"#{part.name}")
        entries.append(el("li", link, el("ul", *links)))
    return el("ul", *entries)


def _digest(content: str) -> str:
    # Of the text of the element, to the byte, as the browser computes it.
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
