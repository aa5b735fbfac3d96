"""What tests of the report share: a study of made-up records, and a browser."""

import os
import shutil
from pathlib import Path

import pytest
from report_pages import read_page, write_study
from repository import ROOT

# Where `make browser` puts what comes from the npm registry.
TOOLS = ROOT / ".browser"


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


def need(condition, reason):
    """Skip where a tool is missing; in CI, where it must be there, fail."""
    if condition:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and in CI it must be there (`make browser`)")
    pytest.skip(f"{reason}; `make browser` says how to get it")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium, driven by Selenium."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    need(binary and driver, "Chromium and its driver are not installed")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        need(False, "Selenium is not installed")
    options = Options()
    options.binary_location = binary
    quiet = ("background-networking", "component-update", "gpu", "quic", "sync", "dev-shm-usage")
    profile = tmp_path_factory.mktemp("profile")
    flags = ("headless=new", "no-sandbox", "no-first-run", f"user-data-dir={profile}")
    for flag in (*flags, *(f"disable-{each}" for each in quiet)):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    started.set_page_load_timeout(120)
    started.set_script_timeout(240)
    yield started
    started.quit()


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core."""
    path = Path(os.environ.get("AXE_CORE") or TOOLS / "node_modules/axe-core/axe.min.js")
    need(path.is_file(), "axe-core is not installed")
    return path.read_text("utf-8")
