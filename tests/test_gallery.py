"""The pages of the gallery show the examples as they are now, with pictures that all can read.

`make test-gallery` runs the examples; this needs none of the packages that they do.
"""

import json
import re
from typing import NamedTuple

import pytest
from repository import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = ROOT / "docs" / "gallery"
IMAGES = PAGES / "images"
KILOBYTES = {".png": 120, ".webp": 500}


class Cell(NamedTuple):
    kind: str
    source: str
    options: str


def cells(text):
    """The cells of a file in jupytext's percent format."""
    found = []
    for part in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        options, _, source = part.partition("\n")
        if options.strip() == "[markdown]":
            lines = (line.removeprefix("#").removeprefix(" ") for line in source.splitlines())
            found.append(Cell("markdown", "\n".join(lines).strip(), ""))
        else:
            found.append(Cell("code", source.strip("\n"), options.strip()))
    return found


def shown_code(page):
    return re.findall(r"^```python\n(.*?)\n```$", page, flags=re.MULTILINE | re.DOTALL)


def pictures(page):
    """Texts and files of the pictures of a page."""
    return re.findall(r"!\[([^\]]*)\]\((images/[^)]+)\)", page)


def examples(function):
    return pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)(function)


def page_of(example):
    return (PAGES / f"{example.stem}.md").read_text("utf-8")


def test_cells_are_found():
    text = '# %% [markdown]\n# # Title\n#\n# Text.\n\n# %% alt="A"\nx = 1\n\n\n# %%\ny = "# %"\n'
    assert cells(text) == [
        Cell("markdown", "# Title\n\nText.", ""),
        Cell("code", "x = 1", 'alt="A"'),
        Cell("code", 'y = "# %"', ""),
    ]


def test_there_are_fifteen_with_a_card_each():
    index = (PAGES / "index.md").read_text("utf-8")
    linked = re.findall(r"\*\*\[[^\]]+\]\((\w+)\.md\)\*\*", index)
    assert sorted(linked) == [path.stem for path in EXAMPLES]
    assert sorted(linked) == sorted(
        path.stem for path in PAGES.glob("*.md") if path.stem != "index"
    )
    assert len(linked) == 15
    for name in linked:
        assert (IMAGES / f"{name}-card.webp").is_file()


@examples
def test_page_has_the_code_of_the_file(example):
    code = [cell.source for cell in cells(example.read_text("utf-8")) if cell.kind == "code"]
    assert shown_code(page_of(example)) == code, f"run `make gallery NAMES={example.stem}`"


@examples
def test_page_has_the_text_of_the_file(example):
    page = page_of(example)
    title, *texts = [c.source for c in cells(example.read_text("utf-8")) if c.kind == "markdown"]
    for text in (*title.split("\n", 1), *texts):
        assert text.strip() in page, f"run `make gallery NAMES={example.stem}`"


@examples
def test_notebook_has_the_cells_of_the_file_and_no_outputs(example):
    notebook = json.loads((PAGES / f"{example.stem}.ipynb").read_text("utf-8"))
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert found == [(cell.kind, cell.source) for cell in cells(example.read_text("utf-8"))]
    assert not any(cell.get("outputs") for cell in notebook["cells"])


@examples
def test_pictures_are_small_and_described(example):
    page = page_of(example)
    shown = pictures(page)
    assert shown
    described = [
        cell.options for cell in cells(example.read_text("utf-8")) if "alt=" in cell.options
    ]
    assert len(described) == len(shown)
    for alt, file in shown:
        assert len(alt) > 60, file
        path = PAGES / file
        assert path.stat().st_size < 1000 * KILOBYTES[path.suffix], file


def test_no_picture_is_left_over():
    text = "".join(path.read_text("utf-8") for path in PAGES.glob("*.md"))
    assert [path.name for path in IMAGES.iterdir() if f"images/{path.name}" not in text] == []


def test_nothing_moves_unless_it_is_asked_to():
    moving = 0
    for path in EXAMPLES:
        page = page_of(path)
        open_parts = re.sub(r"<details markdown=\"1\">.*?</details>", "", page, flags=re.DOTALL)
        assert not any(file.endswith(".webp") for _, file in pictures(open_parts))
        moving += sum(file.endswith(".webp") for _, file in pictures(page))
    assert moving == 1


@examples
def test_page_says_how_long_it_takes_and_where_the_file_is(example):
    page = page_of(example)
    assert re.search(r"^\*It takes .* of one core's time\.", page, flags=re.MULTILINE)
    assert f"blob/main/examples/{example.name})" in page
    assert f"[a notebook]({example.stem}.ipynb)" in page
    assert f"`make gallery NAMES={example.stem}`" in page


@examples
def test_examples_need_nothing_of_the_studies(example):
    assert "sbmc_studies" not in example.read_text("utf-8")
