"""What tests of the report share: a study of made-up records, and a browser."""

import shutil
from pathlib import Path

import pytest
from browsing import axe, browser  # noqa: F401, fixtures
from report_pages import read_page, write_study


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A study that no test changes."""
    return write_study(tmp_path_factory.mktemp("study") / "runs")


@pytest.fixture
def study(written, tmp_path):
    """A copy of it, which a test may change."""
    return Path(shutil.copytree(written, tmp_path / "runs"))


@pytest.fixture(scope="session")
def page(written):
    """Its page, read once for all tests that look at it."""
    return read_page(written)
