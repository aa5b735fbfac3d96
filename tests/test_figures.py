"""The figures of the documentation: scripts that run, small files, a tree as its source has it."""

import importlib.util
from xml.etree import ElementTree

import pytest
from repository import ROOT

from sbmc.report.pictures import write_picture

DOCS = ROOT / "docs"
SCRIPTS = ["convergence", "islands", "scale", "two_moons", "whitening"]
LARGEST = 150_000


@pytest.fixture
def script(monkeypatch):
    """Imports a script of docs/figures by its name."""
    monkeypatch.syspath_prepend(str(DOCS / "figures"))

    def load(name):
        # Under a name of its own: tests have packages called islands, too.
        spec = importlib.util.spec_from_file_location(
            f"figure_{name}", DOCS / "figures" / f"{name}.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


# Runs are cut short here, so that they are not ok: what they show is that the script works.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_draws_a_small_picture(name, script, tmp_path):
    pytest.importorskip("matplotlib")
    picture = write_picture(script(name).make(quick=True), tmp_path / "picture.png")
    assert 5_000 < picture.stat().st_size < LARGEST


def test_every_script_is_tried():
    found = {path.stem for path in (DOCS / "figures").glob("*.py")}
    # `why` draws the README's picture, from MNIST; its record is held to the README. `serve` needs
    # a browser: tests/serve/test_page_in_browser.py.
    assert found == {*SCRIPTS, "drawing", "decision_tree", "why", "serve"}


def test_pictures_are_small_and_shown_with_a_text_alternative():
    text = "".join(page.read_text("utf-8") for page in [*DOCS.rglob("*.md"), ROOT / "README.md"])
    for picture in (DOCS / "images").iterdir():
        assert picture.stat().st_size < LARGEST, picture
    for name in ("scale", "two_moons", "island_weights", "whitening", "convergence"):
        assert f"images/{name}.png)" in text
        assert f"![](images/{name}.png)" not in text


def test_the_tree_and_its_list_are_those_of_the_script(script):
    tree = script("decision_tree")
    assert tree.PICTURE.read_text("utf-8") == tree.picture(), "run: docs/figures/decision_tree.py"
    page = tree.PAGE.read_text("utf-8")
    assert page == tree.with_list(page), "run: python docs/figures/decision_tree.py"


def test_the_text_of_the_tree_stays_in_its_boxes(script):
    tree = script("decision_tree")
    root = ElementTree.fromstring(tree.picture())
    boxes = [each.attrib for each in root.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert len(boxes) == 2 * len(tree.STEPS) + 1
    for step in tree.STEPS:
        question, call, answer = tree.texts(step)
        # A letter takes 7 to 8 of the drawing's units, and those of code take 7.9.
        assert max(map(len, question)) * 7.2 < tree.QUESTION_WIDTH - tree.PADDING
        assert max(map(len, call)) * 7.9 < tree.ANSWER_WIDTH - tree.PADDING
        assert max(map(len, answer)) * 7.2 < tree.ANSWER_WIDTH - tree.PADDING
