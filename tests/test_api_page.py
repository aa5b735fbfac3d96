"""docs/api.md has every public name, and no name that is gone."""

import re

from repository import ROOT

import sbmc

PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")


def test_every_public_name_has_its_line():
    listed = re.findall(r"^\| `sbmc\.(\w+)", PAGE, re.MULTILINE)
    assert sorted(listed) == sorted(sbmc.__all__)


def test_names_below_the_top_level_exist():
    import importlib

    for name in re.findall(r"`(sbmc\.\w+)` \(|`(sbmc\.samplers)`", PAGE):
        importlib.import_module(next(filter(None, name)))
