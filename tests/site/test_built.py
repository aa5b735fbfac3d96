"""The built site: strict, every link and anchor leads somewhere, nothing comes from elsewhere."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from page_links import SITE, lost
from repository import ROOT

import sbmc

pytestmark = pytest.mark.integration

# Elements whose address the browser fetches by itself; others are followed by a click.
FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("img", "srcset"),
    ("source", "src"),
    ("iframe", "src"),
}
FETCHED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch"}


class Page(HTMLParser):
    """The anchors of a page, the addresses that it links to, and those that it fetches."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.fetched, self.headings = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.ids.add(values["id"])
        if tag == "h1":
            self.headings.append(tag)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "link" and FETCHED_LINKS & set(values.get("rel", "").split()):
            self.fetched.append(values["href"])
        self.fetched += [
            values[key] for element, key in FETCHED if element == tag and key in values
        ]


@pytest.fixture(scope="module")
def read(site):
    """Every page of the site by its path."""
    files = [*site.glob("**/*.html")]
    assert len(files) > 40
    return {file.relative_to(site).as_posix(): Page(file.read_text("utf-8")) for file in files}


def resolve(address, path):
    """The file of the site and the anchor that an address on a page means; None if elsewhere."""
    whole = urljoin(SITE + path, address)
    if not whole.startswith(SITE):
        return None
    file = unquote(urlsplit(whole).path.removeprefix(urlsplit(SITE).path))
    if not file or file.endswith("/"):
        file += "index.html"
    return file, unquote(urlsplit(whole).fragment)


def broken(read, site):
    """Links within the site to a file or an anchor that is not there."""
    missing = []
    for path, page in read.items():
        for link in page.links:
            found = resolve(link, path)
            if found is None:
                continue
            file, anchor = found
            if not (site / file).is_file():
                missing.append((path, link, "no such file"))
            elif anchor and file in read and anchor not in read[file].ids:
                missing.append((path, link, "no such anchor"))
    return missing


def test_every_link_and_anchor_of_the_site_leads_somewhere(read, site):
    assert broken(read, site) == []
    assert sum(len(page.links) for page in read.values()) > 1_000


def test_a_broken_link_and_a_broken_anchor_would_be_found(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text(
        '<h1 id="x"></h1><a href="#x">1</a><a href="#y">2</a><a href="../b/">3</a>'
        f'<a href="{SITE}a/#z">4'
    )
    read = {"a/index.html": Page((tmp_path / "a" / "index.html").read_text())}
    assert [link for _, link, _ in broken(read, tmp_path)] == ["#y", "../b/", f"{SITE}a/#z"]


def test_every_link_into_the_repository_leads_to_a_file(read):
    outside = {(path, link) for path, page in read.items() for link in page.links if "://" in link}
    found = [(path, lost(link, ROOT / "README.md")) for path, link in sorted(outside)]
    assert [each for each in found if each[1]] == []


def test_nothing_is_fetched_from_another_host(read, site):
    elsewhere = [
        (path, address)
        for path, page in read.items()
        for address in page.fetched
        if not address.startswith("data:") and resolve(address, path) is None
    ]
    for style in site.glob("**/*.css"):
        text = style.read_text("utf-8")
        for address in re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", text):
            address = next(filter(None, address))
            if re.match(r"(https?:)?//", address):
                elsewhere.append((style.name, address))
    assert elsewhere == []
    fetched = [address for page in read.values() for address in page.fetched]
    assert any(address.endswith("stylesheets/fonts.css") for address in fetched)


def test_fonts_are_there_with_their_licence(site):
    fonts = (site / "stylesheets" / "fonts.css").read_text("utf-8")
    names = re.findall(r"url\(\"\.\./fonts/([^\"]+)\"\)", fonts)
    assert len(names) == 7
    assert sorted(names) == sorted(file.name for file in (site / "fonts").glob("*.woff2"))
    assert "SIL Open Font License" in (site / "fonts" / "LICENSE").read_text("utf-8")


def test_every_page_has_one_title(read):
    counts = {path: len(page.headings) for path, page in read.items() if len(page.headings) != 1}
    assert counts == {}


def test_every_public_name_is_documented(read):
    documented = set().union(*(page.ids for path, page in read.items() if path.startswith("api/")))
    assert [name for name in sbmc.__all__ if f"sbmc.{name}" not in documented] == []


def test_the_search_index_knows_what_the_pages_are_about(site):
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {
        entry["location"].split("#")[0] for entry in index["docs"] if "abstain" in entry["text"]
    }
    assert "confidence/" in found


def test_examples_in_docstrings_are_shown_as_code(read, site):
    # A section with another name is read as Markdown, where >>> is three quotations.
    for path in read:
        if path.startswith("api/"):
            assert "<blockquote>" not in (site / path).read_text("utf-8"), path
