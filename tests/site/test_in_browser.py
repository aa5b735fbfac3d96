"""The site in a real Chromium: no errors, nothing missing, accessible, searchable, no overflow."""

import json

import pytest
from browsing import SIZES, show, violations

pytestmark = pytest.mark.integration

KINDS = {
    "landing": "",
    "guide": "how_to_choose/",
    "tables": "gauntlet/",
    "api": "api/fit/",
    "glossary": "glossary/",
    "gallery": "gallery/own_cnn/",
}


def visit(browser, address, size="desktop", scheme="light"):
    """Open a page as a reader who has not been here before."""
    show(browser, size, scheme)
    browser.get(address)
    if address.startswith("http"):
        browser.execute_script("localStorage.clear(); sessionStorage.clear()")
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(address)
    # What is wider than the page is known when the fonts are there.
    browser.execute_async_script(
        "document.fonts.ready.then(() => requestAnimationFrame(() => setTimeout(arguments[0])))"
    )


def failed_requests(browser):
    """What was asked for and not found, and what was asked of another host."""
    found = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        parameters = message["params"]
        if message["method"] == "Network.responseReceived":
            response = parameters["response"]
            if response["status"] >= 400:
                found.append((response["status"], response["url"]))
        elif message["method"] == "Network.loadingFailed" and not parameters.get("canceled"):
            found.append((parameters["errorText"], parameters["requestId"]))
        elif message["method"] == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith(("http://127.0.0.1:", "data:", "blob:")):
                found.append(("another host", url))
    return found


def test_no_page_has_an_error_a_failed_request_or_a_horizontal_scroll(browser, address, pages):
    assert len(pages) > 40
    visit(browser, "about:blank")
    wrong = {}
    for path in pages:
        show(browser, "desktop")
        browser.get(address + path)
        found = [each["message"] for each in browser.get_log("browser")]
        found += failed_requests(browser)
        for size, (width, _) in SIZES.items():
            show(browser, size)
            needed = browser.execute_script("return document.documentElement.scrollWidth")
            if needed > width:
                found.append(f"{needed} pixels wide on a screen of {width}")
        if found:
            wrong[path] = found
    assert wrong == {}


def test_an_error_and_a_failed_request_would_be_seen(browser, address):
    visit(browser, address)
    browser.execute_script("console.error('planted'); fetch('no/such/file')")
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    assert any("planted" in each["message"] for each in browser.get_log("browser"))
    assert [each for each in failed_requests(browser) if each[0] == 404]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(browser, address, axe, kind, scheme):
    visit(browser, address + KINDS[kind], "desktop", scheme)
    assert violations(browser, axe) == []


@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing_on_a_phone(browser, address, axe, kind):
    visit(browser, address + KINDS[kind], "phone")
    assert violations(browser, axe) == []


def colours(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_dark_colours_follow_the_system_and_the_toggle(browser, address):
    shades = {}
    for scheme in ("light", "dark"):
        visit(browser, address, "desktop", scheme)
        shades[scheme] = colours(browser)
    # Those of the report's pages.
    assert shades == {"light": "rgb(252, 252, 251)", "dark": "rgb(18, 22, 27)"}
    browser.find_element("css selector", "label[title='Switch to light colours']").click()
    assert colours(browser) == shades["light"]
    browser.get(address + "glossary/")
    assert colours(browser) == shades["light"]  # what was chosen is remembered
    visit(browser, address)


def test_the_fonts_are_ours(browser, address):
    visit(browser, address)
    loaded = browser.execute_async_script(
        "document.fonts.ready.then((fonts) => arguments[0]("
        "[...fonts].filter((each) => each.status === 'loaded').map((each) => each.family)))"
    )
    assert {name.strip('"') for name in loaded} >= {"Source Sans", "Source Serif", "Source Code"}


def test_search_finds_abstain(browser, address, axe):
    from selenium.webdriver.support.ui import WebDriverWait

    visit(browser, address)
    box = browser.find_element("css selector", "input.md-search__input")
    box.click()
    box.send_keys("abstain")

    def results(driver):
        return driver.find_elements("css selector", ".md-search-result__item a")

    WebDriverWait(browser, 30).until(results)
    found = [each.get_attribute("href").split("?")[0] for each in results(browser)]
    assert f"{address}confidence/" in [each.split("#")[0] for each in found]
    assert violations(browser, axe) == []


def test_wide_tables_scroll_inside_themselves_and_by_the_keyboard(browser, address):
    visit(browser, address + "results/", "phone")
    wide = browser.execute_script(
        "return [...document.querySelectorAll('.md-typeset__scrollwrap')]"
        ".filter((each) => each.scrollWidth > each.clientWidth)"
        ".map((each) => [each.tabIndex, each.getAttribute('role'), each.ariaLabel])"
    )
    assert len(wide) > 5
    assert {(index, role) for index, role, _ in wide} == {(0, "group")}
    assert all(label for *_, label in wide)
