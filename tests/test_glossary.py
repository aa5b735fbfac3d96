"""The words of the glossary: each is defined once and linked at its first use on a page.

Words that were replaced stay away.
"""

import ast
import re
import runpy
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from repository import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
# Private words, each of which has another one in the glossary now: checkpointer, context, run file,
# saved cells, runner, duplicate, progress, temperature.
_LIBRARY = {"keeper", "workshop", "journal", "ledger", "bench", "twin", "news", "told"}
RETIRED = {
    "sbmc": _LIBRARY,
    "sbmc_serve": _LIBRARY,
    "sbmc_studies": {"workshop", "journal", "twin"},
}


def words_of(name: str) -> set[str]:
    """The words of an identifier: `FileKeeper`, `file_keeper` and `KEEPERS` all have "keeper"."""
    parts = [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    return {*parts, *(part.removesuffix("s") for part in parts)}


def identifiers(text: str) -> Iterator[tuple[int, str]]:
    """Names of variables, arguments, attributes, functions and classes, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def retired_names(package: str, text: str) -> list[str]:
    return [
        f"{name} in line {line}"
        for line, name in identifiers(text)
        if RETIRED[package] & words_of(name)
    ]


@pytest.mark.parametrize("package", RETIRED)
def test_retired_words_name_nothing(package):
    for path in (ROOT / package).rglob("*.py"):
        assert not RETIRED[package] & words_of(path.stem), path
        assert retired_names(package, path.read_text("utf-8")) == [], path


@pytest.mark.parametrize(
    "text", ["FileKeeper()", "def tell(bench): ...", "run.twins = 1", "f(news=2)", "KEEPERS = 1"]
)
def test_a_planted_word_is_found(text):
    assert len(retired_names("sbmc", text)) == 1


# The script that puts the links in; the tests ask its functions.
links = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "glossary_links.py")))
TEXT = GLOSSARY.read_text("utf-8")
TERMS = links.linked_terms(TEXT)


def test_every_word_is_defined_once_and_explained():
    rows, words = links.glossary_rows(TEXT), links.words(TEXT)
    assert len(words) > 60
    assert [word for word, count in Counter(words).items() if count > 1] == []
    assert [row for row in rows if not row.split("|")[2].strip()] == []


def test_words_are_in_alphabetical_order_below_their_letters():
    words = [re.sub(r"[^a-z0-9 -]", "", word.lower()) for word in links.words(TEXT)]
    assert words == sorted(words)
    for section in TEXT.split("\n## ")[1:]:
        letter = section[0].lower()
        assert {word[0].lower() for word in links.words(section)} == {letter}


def test_every_word_has_its_anchor():
    for row in links.glossary_rows(TEXT):
        named = re.findall(r"\*\*(.+?)\*\*", row.split("|")[1])
        anchors = re.findall(r'<a id="(.+?)"></a>', row)
        assert anchors == [links.slug(word) for word in named]


def test_words_in_their_ordinary_sense_are_words_of_the_glossary():
    assert set(links.words(TEXT)) >= links.ORDINARY


@pytest.mark.parametrize("page", links.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_first_use_of_a_term_is_a_link(page):
    text = page.read_text("utf-8")
    missing = [term for term in TERMS if links.first_use(text, term, TERMS)]
    assert missing == [], "run: python docs/glossary_links.py"


@pytest.mark.parametrize("page", links.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_the_glossary_lead_to_a_word(page):
    anchors = {links.slug(word) for word in links.words(TEXT)}
    used = re.findall(r"\(([./]*)glossary\.md#([^)]+)\)", page.read_text("utf-8"))
    assert {anchor for _, anchor in used} <= anchors
    assert {path for path, _ in used} <= {links.glossary_address(page).removesuffix("glossary.md")}


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("Two islands.", "Two [islands](glossary.md#island)."),
        ("# An island\n\nAn island.", "# An island\n\nAn [island](glossary.md#island)."),
        ("`island`, island", "`island`, [island](glossary.md#island)"),
        ("```\nisland\n```\n", "```\nisland\n```\n"),
        ("    island = 1\n", "    island = 1\n"),
        ("[islands](a.md)", "[islands](a.md)"),
        (
            "<!-- table: a -->\nisland\n<!-- end: a -->",
            "<!-- table: a -->\nisland\n<!-- end: a -->",
        ),
        ("An archipelago of inislands.", "An archipelago of inislands."),
    ],
)
def test_a_term_is_linked_outside_of_code_headings_links_and_tables_of_records(text, linked):
    assert links.with_links(text, ["island"], "glossary.md") == linked
    # Once it is linked, nothing is left to do, and later uses are plain text.
    assert links.with_links(f"{linked} island", ["island"], "glossary.md").count("#island") <= 1


def test_a_longer_term_is_linked_as_a_whole():
    terms = ["anchored prior", "prior"]
    text = "The anchored prior, an anchored prior."
    linked = "The [anchored prior](glossary.md#anchored-prior), an anchored prior."
    assert links.with_links(text, terms, "glossary.md") == linked
    assert links.with_links(f"{text} A prior.", terms, "glossary.md").endswith("prior).")


def test_a_first_use_without_a_link_is_found_even_before_a_link():
    assert links.first_use("An island, an [island](glossary.md#island).", "island")
    assert not links.first_use("An [island](glossary.md#island), an island.", "island")
