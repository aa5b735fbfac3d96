"""The files of the page, without a browser: nothing foreign, nothing inline, nothing missing."""

import json
import re

import pytest
from repository import ROOT

from sbmc_serve.page_files import read_page

FILES = {name: file.content.decode("utf-8") for name, file in read_page().items()}
DOCUMENTATION = "https://sbmc-project.github.io/sbmc/"
SVG = "http://www.w3.org/2000/svg"


def schemes(sheet):
    """The colours of the light and of the dark scheme."""
    light, dark = sheet.split("@media (prefers-color-scheme: dark)", 1)
    dark = dark[: dark.index("\n}")]
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", part)) for part in (light, dark)]


def test_every_file_that_is_named_exists_and_none_is_left_over():
    named = {"index.html", *re.findall(r'(?:href|src)="static/([^"]+)"', FILES["index.html"])}
    for name, text in FILES.items():
        if name.endswith(".js"):
            named |= set(re.findall(r'from "\./([^"]+)"', text))
    assert named == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_inline_and_nothing_comes_from_elsewhere(name):
    text = FILES[name]
    assert not re.search(r"<style|\sstyle=|<script(?![^>]*\ssrc=)|\son\w+=|javascript:", text)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(|setAttribute\(.style", text
    )
    assert not re.search(r"@import|url\((?!#)", text)
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'<]*", text)
    assert all(each.startswith((DOCUMENTATION, SVG)) for each in addresses)


def test_links_lead_to_pages_of_the_documentation():
    pages = re.findall(rf'href="{DOCUMENTATION}([^"]*)/"', FILES["index.html"])
    assert len(pages) >= 3
    for page in pages:
        assert (ROOT / "docs" / f"{page}.md").is_file(), page


def test_elements_that_the_scripts_look_for_are_in_the_page():
    for name in re.findall(r'\bby\("([^"]+)"\)', FILES["main.js"]):
        assert f'id="{name}"' in FILES["index.html"], name


def test_colours_are_those_of_the_report():
    report = schemes((ROOT / "sbmc/report/report.css").read_text("utf-8"))
    for mine, theirs in zip(schemes(FILES["page.css"]), report, strict=True):
        shared = mine.keys() & theirs.keys()
        assert len(shared) > 15
        assert {name: mine[name] for name in shared} == {name: theirs[name] for name in shared}


def test_the_documentation_quotes_the_record():
    """What is read of drawn digits at each s, as docs/figures/serve.py counted it."""
    record = json.loads((ROOT / "docs/figures/serve.json").read_text("utf-8"))
    page = (ROOT / "docs/serving.md").read_text("utf-8")
    for s, found in record.items():
        doubts = ", ".join(found["abstains"]) or "–"
        copies = " | ".join(str(found["copies"][kind]) for kind in ("right", "abstains", "wrong"))
        line = f"| {s} | {found['recognised']} of {found['known']} | {doubts} | {copies} |"
        assert line in page
        assert sum(found["copies"].values()) == 320


def luminance(colour):
    shares = [value / 255 for value in colour]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_letters_of_the_networks_can_be_read_on_every_colour():
    least, more = map(
        int, re.search(r"calc\((\d+)% \+ (\d+)% \* var\(--sure\)\)", FILES["page.css"]).groups()
    )
    for colours in schemes(FILES["page.css"]):
        values = {
            name: [int(code[i : i + 2], 16) for i in (1, 3, 5)] for name, code in colours.items()
        }
        for number in range(10):
            for share in (least / 100, (least + more) / 100):
                pairs = zip(values[f"c{number}"], values["card"], strict=True)
                mixed = [share * strong + (1 - share) * card for strong, card in pairs]
                assert contrast(values["ink"], mixed) > 4.5
            assert contrast(values[f"c{number}"], values["card"]) > 3  # bars
        assert contrast(values["soft"], values["card"]) > 4.5
        assert contrast(values["edge"], values["card"]) > 3  # borders of controls
