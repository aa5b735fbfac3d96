"""The settings of the site: every page in the navigation, strict, plain, and exact versions."""

import re

from repository import ROOT

SETTINGS = (ROOT / "mkdocs.yml").read_text("utf-8")
DOCS = ROOT / "docs"


def section(name):
    """The lines of a part of the settings, comments left out."""
    lines = re.search(rf"^{name}:.*\n((?:(?: .*)?\n)*)", SETTINGS, re.MULTILINE).group(1)
    return re.sub(r" #.*", "", lines)


def test_every_page_is_in_the_navigation_once():
    shown = re.findall(r"([\w/]+\.md)$", section("nav"), re.MULTILINE)
    assert sorted(shown) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    assert shown[0] == "index.md"


def test_a_link_that_leads_nowhere_fails_the_build():
    assert re.search(r"^strict: true$", SETTINGS, re.MULTILINE)
    levels = re.findall(r"^    \w+: (\w+)$", section("validation"), re.MULTILINE)
    assert levels == ["warn"] * 7


def test_settings_are_plain_so_that_zensical_reads_them():
    assert re.findall(r"^  - (\w+)", section("plugins"), re.MULTILINE) == ["search", "mkdocstrings"]
    assert not re.search(r"^(hooks|INHERIT):|^  custom_dir:|!ENV", SETTINGS, re.MULTILINE)


def test_no_setting_makes_pages_ask_another_host():
    assert re.search(r"^  font: false", SETTINGS, re.MULTILINE)
    # The theme shows stars with `repo_url`, and loads mermaid and maths from elsewhere.
    assert not re.search(r"^repo_url:|mermaid|mathjax|katex|arithmatex", SETTINGS, re.MULTILINE)
    added = section("extra_css") + section("extra_javascript")
    files = re.findall(r"^  - (\S+)$", added, re.MULTILINE)
    assert len(files) == 4
    assert [file for file in files if not (DOCS / file).is_file()] == []


def test_versions_are_exact():
    lines = (DOCS / "constraints.txt").read_text("utf-8").splitlines()[1:]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    names = {line.split("==")[0].lower() for line in lines}
    assert {"mkdocs", "mkdocs-material", "mkdocstrings-python", "griffelib", "ruff"} <= names
