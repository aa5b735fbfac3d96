"""The API pages have every public name, and no name that is gone."""

import importlib
import inspect
import re
from importlib import import_module

import pytest
from repository import ROOT

import sbmc

OVERVIEW = (ROOT / "docs" / "api.md").read_text("utf-8")
ROOMS = sorted((ROOT / "docs" / "api").glob("*.md"))
# Modules all of whose public names are on a page of theirs.
MODULES = {
    "metrics": "sbmc.prediction.metrics",
    "serve": "sbmc_serve",
    **{
        room: f"sbmc.{room}"
        for room in (
            *("baselines", "confidence", "datasets", "diagnostics", "embedding"),
            *("language", "samplers"),
        )
    },
}


def documented(page):
    """The names whose docstrings a page shows."""
    return re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)


def test_every_public_name_has_its_line_and_its_docstring_once():
    lines = re.findall(r"^\| \[`(\w+)`\]\(api/(\w+)\.md#sbmc\.(\w+)\)", OVERVIEW, re.MULTILINE)
    assert sorted(name for name, _, _ in lines) == sorted(sbmc.__all__)
    assert all(name == anchor for name, _, anchor in lines)
    shown = [
        (name.removeprefix("sbmc."), page.stem)
        for page in ROOMS
        for name in documented(page)
        if name.count(".") == 1
    ]
    assert sorted(shown) == sorted((name, room) for name, room, _ in lines)


@pytest.mark.parametrize(("room", "module"), MODULES.items())
def test_every_public_name_of_a_module_is_on_its_page(room, module):
    page = ROOT / "docs" / "api" / f"{room}.md"
    shown = {name.rpartition(".")[2] for name in documented(page)}
    names = [name for name in import_module(module).__all__ if not name.isupper()]
    samplers = [name for name in import_module("sbmc.samplers").__all__ if room == "samplers"]
    assert [name for name in {*names, *samplers} if name not in shown] == []


@pytest.mark.parametrize("page", ROOMS, ids=lambda page: page.stem)
def test_names_on_the_pages_exist_and_have_docstrings(page):
    assert documented(page)
    for name in documented(page):
        home, _, last = name.rpartition(".")
        value = getattr(importlib.import_module(home), last)
        assert last.isupper() or value.__doc__, name


def test_sections_with_examples_have_the_name_that_the_site_reads():
    files = [
        path
        for room in ("sbmc", "sbmc_serve", "sbmc_studies")
        for path in (ROOT / room).rglob("*.py")
    ]
    assert len(files) > 400
    found = [path for path in files if re.search(r"^ +Example:$", path.read_text("utf-8"), re.M)]
    assert [str(path.relative_to(ROOT)) for path in found] == [], "write `Examples:`"


def test_the_page_of_fit_shows_its_signature():
    # `fit` takes its arguments from a class, which a tool that reads the source does not see.
    page = (ROOT / "docs" / "api" / "fit.md").read_text("utf-8")
    shown = re.search(r"```py\nfit\((.*?)\n\) -> (\w+)\n```", page, re.DOTALL)
    lines = [line.strip().rstrip(",") for line in shown.group(1).strip().splitlines()]
    signature = inspect.signature(sbmc.fit)
    wanted = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in wanted:
            wanted.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        wanted.append(f"{parameter.name}: {parameter.annotation}{default}".replace("'", '"'))
    assert lines == wanted
    assert shown.group(2) == signature.return_annotation
    assert inspect.signature(sbmc.expect).parameters == signature.parameters
