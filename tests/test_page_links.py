"""Links of README and docs lead somewhere: on disk, in the repository, and on our own site."""

import page_links
import pytest
from page_links import REPOSITORY, SITE, anchors, links, lost, markdown_pages, project_urls, slug
from repository import ROOT


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", markdown_pages(), ids=name)
def test_every_link_to_ourselves_leads_to_a_file_and_an_anchor(page):
    found = [lost(address, page) for address in links(page.read_text("utf-8"))]
    assert [each for each in found if each] == []


def test_addresses_of_the_project_lead_somewhere():
    found = [lost(address, ROOT / "pyproject.toml") for address in project_urls()]
    assert [each for each in found if each] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("**/*.md")), ids=name)
def test_pages_of_the_site_link_to_files_outside_it_by_their_address(page):
    # A relative link out of docs/ works in a clone, and not on the site.
    docs = ROOT / "docs"
    outside = [
        address
        for address in links(page.read_text("utf-8"))
        if "://" not in address
        and not address.startswith(("#", "mailto:"))
        and not (page.parent / address.split("#")[0]).resolve().is_relative_to(docs)
    ]
    assert outside == []


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (f"{REPOSITORY}/blob/main/no/such/file.py", "no such file"),
        (f"{REPOSITORY}/blob/main/experiments/records", "no such file"),  # a folder: tree
        (f"{REPOSITORY}/blob/old/README.md", "no such file"),
        (f"{REPOSITORY}/blob/main/docs/smc.md#no-such-heading", "no such heading"),
        (f"{REPOSITORY}/blob/main/sbmc/checks.py#L99999", "lines"),
        (f"{SITE}no_such_page/", "no such file"),
        (f"{SITE}glossary/#no-such-heading", "no such heading"),
        (f"{page_links.RAW}docs/images/no.png", "no such file"),
        ("docs/no.md", "no such file"),
        ("docs/glossary.md#no-such-heading", "no such heading"),
        ("#no-such-heading", "no such heading"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(address, reason):
    assert reason in lost(address, ROOT / "README.md").reason


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/x#y",
        "mailto:a@example.org",
        REPOSITORY,
        f"{REPOSITORY}/issues",
        SITE,
        f"{SITE}smc/#unbiased-or-adaptive",
        f"{SITE}api/fit/#sbmc.fit",
        f"{SITE}images/logo.svg",
        f"{REPOSITORY}/tree/main/experiments/records",
        f"{REPOSITORY}/blob/main/sbmc/checks.py#L1-L3",
        "docs/smc.md#unbiased-or-adaptive",
    ],
)
def test_a_link_that_leads_somewhere_is_let_pass(address):
    assert lost(address, ROOT / "README.md") is None


def test_links_and_anchors_are_read(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` (c)\n\n[x](y.md#z) ![p](q.png) [`code`](w.md)\n`[no](link)`\n\n"
        '```\n[no](link)\n# no heading\n```\n## Same\n## Same\n## Other { #own .c }\n<a href="h">'
    )
    assert links(page.read_text()) == ["y.md#z", "q.png", "w.md", "h"]
    assert anchors(page) == {"a-b-c", "same", "same-1", "own"}
    assert slug("[Fitting](api/fit.md)") == "fitting"
