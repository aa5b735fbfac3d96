"""Pages of any content: parts and sections with links, within a size, from any package."""

import re

import pytest
from chart_examples import CHARTS, figure

from sbmc.report.figure import render_figures
from sbmc.report.limits import Limits
from sbmc.report.markup import Html, el
from sbmc.report.page import Part, Section, fit_page, render_page, write_page


def part(name):
    section = Section("curves", "Curves & <bars>", render_figures(*map(figure, CHARTS.values())))
    return Part(name, f"Part {name}", el("p", "An <intro>."), [section])


def make_page(**more):
    return render_page("A <title>", "A lead", [part("a"), part("b")], command="make <it>", **more)


def test_a_page_has_its_parts_and_links_to_them():
    page = make_page(before=el("p", "first"), after=el("p", "last"))
    names = re.findall(r'id="([^"]*)"', page)
    links = re.findall(r'href="#([^"]*)"', page)
    assert {"a", "a-curves", "b", "b-curves"} <= set(names)
    assert len(names) == len(set(names))
    assert set(links) <= set(names)
    assert page.index("<p>first</p>") < page.index("Part a</h2>") < page.index("<p>last</p>")
    assert page.count("<figure>") == 2 * len(CHARTS)


def test_strings_stay_text():
    page = make_page()
    for text in ("A <title>", "An <intro>.", "Curves & <bars>", "make <it>"):
        assert text not in page
        assert text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in page


@pytest.mark.parametrize("most", [60, 400])
def test_a_page_that_is_too_large_is_made_with_less_on_it(most):
    asked = []

    def build(limits):
        asked.append(limits)
        return "x" * limits.rows

    page = fit_page(build, Limits(rows=240), most)
    assert asked[0] == Limits(rows=240)
    assert len(page) == (60 if most == 60 else 240)


def test_the_smallest_page_is_taken_if_none_fits():
    assert fit_page(lambda limits: "x" * 100, most_bytes=10) == "x" * 100


def test_a_page_is_written_whole_into_a_new_folder(tmp_path):
    path = tmp_path / "new" / "page.html"
    write_page(Html("∥ page"), path)
    assert path.read_text("utf-8") == "∥ page"
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]
