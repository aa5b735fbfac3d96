"""A real Chromium for tests of pages, what it is to show, and what axe-core says of it."""

import os
import shutil
from pathlib import Path

import pytest
from repository import ROOT

SIZES = {"desktop": (1360, 900), "laptop": (1280, 800), "phone": (390, 844)}
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]
# Where `make browser` puts what comes from the npm registry.
TOOLS = ROOT / ".browser"


def need(condition, reason, command="make browser"):
    """Skip where a tool is missing; in CI, where it must be there, fail."""
    if condition:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and in CI it must be there (`{command}`)")
    pytest.skip(f"{reason}; `{command}` says how to get it")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium, driven by Selenium. It keeps logs of its console and its requests."""
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
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
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


def show(browser, size, scheme="light", media=""):
    """Set the size of the screen and the reader's preferences."""
    width, height = SIZES[size]
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    wanted = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": wanted})


def violations(browser, axe):
    """What axe-core has to say of the page that is open."""
    # A page's own policy may let no other script in: the driver's is not bound by it.
    browser.execute_script(axe)
    found = browser.execute_async_script(
        "const done = arguments[1];"
        "axe.run(document, {runOnly: arguments[0], resultTypes: ['violations']})"
        ".then(done, (e) => done(String(e)));",
        WCAG,
    )
    assert not isinstance(found, str), found
    assert found["testEngine"]["name"] == "axe-core"
    return [
        (each["id"], node["html"][:200], node["failureSummary"])
        for each in found["violations"]
        for node in each["nodes"][:2]
    ]
