"""The page in a real headless Chromium: no errors, sorting, values, accessibility."""

import base64
import re

import pytest
import study_records
from browsing import SIZES, show, violations
from report_pages import write_run, write_study
from repository import RECORDS
from torch import nn

import sbmc
from sbmc.datasets import load_dataset
from sbmc.datasets.files import Rows
from sbmc.report.limits import Limits
from sbmc.report.posterior_page import write_posterior_page
from sbmc.report.posterior_view import view_posterior
from sbmc_studies.report import collect, render, write_report

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = write_study(tmp_path_factory.mktemp("report") / "runs")
    write_run(out, experiment="<i>other</i>".replace("/", ""), overrides={"network": "<b>"})
    return out


@pytest.fixture(scope="module")
def address(runs):
    page = runs.parent / "report.html"
    write_report([runs], page, progress=False)
    return page.as_uri()


@pytest.fixture(scope="module")
def short_address(runs):
    """The same with few points a curve: checks of every cell would take minutes otherwise."""
    page = runs.parent / "short.html"
    text = render(collect([runs]), ["runs"], limits=Limits(points=5, rows=4, series=3, tables=2))
    page.write_text(text, "utf-8")
    return page.as_uri()


@pytest.fixture
def page(browser, address):
    """The page, freshly loaded on a wide screen in light colours."""
    show(browser, "desktop")
    browser.get_log("browser")
    browser.get(address)
    return browser


def column(page, caption, heading):
    """Texts and exact values of a column of a table, and the button above it."""
    script = """
        const table = [...document.querySelectorAll("table")]
          .find((each) => each.caption.textContent.startsWith(arguments[0]));
        const head = [...table.tHead.rows[0].cells];
        const at = head.findIndex((each) => each.textContent === arguments[1]);
        return [
          [...table.tBodies].map((body) => body.rows[0].cells[at].textContent),
          [...table.tBodies].map((body) => body.rows[0].cells[at].getAttribute("data-v")),
          head[at].querySelector("button"),
          head[at],
        ];
    """
    return page.execute_script(script, caption, heading)


def test_it_loads_without_a_word_in_the_console(page):
    assert page.get_log("browser") == []
    assert "digits" in page.title
    assert page.execute_script("return document.querySelectorAll('script').length") == 1


def test_it_asks_for_nothing_but_itself(page, address):
    asked = page.execute_script(
        "return performance.getEntriesByType('resource').map((each) => each.name)"
    )
    assert [each for each in asked if not each.startswith("data:")] == []
    assert page.current_url == address


def test_values_are_those_of_the_records(page, runs):
    study = next(each for each in collect([runs]).studies if each.name == "digits")
    caption = "Results of digits"
    labels, *_ = column(page, caption, "Setting")
    _, exact, *_ = column(page, caption, "NLL")
    found = dict(zip(labels, map(float, exact), strict=True))
    assert found == {each.label: each.value("nll") for each in study.settings}


def test_a_click_sorts_up_down_and_back(page):
    caption, heading = "Results of digits", "NLL"
    _, before, button, head = column(page, caption, heading)
    values = [float(each) for each in before]
    states = []
    for wanted in (sorted(values, reverse=True), sorted(values), values):
        page.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        _, exact, *_ = column(page, caption, heading)
        assert [float(each) for each in exact] == wanted
        states.append(head.get_attribute("aria-sort"))
    assert states == ["descending", "ascending", None]


def test_the_keyboard_reaches_and_sorts(page):
    from selenium.webdriver.common.keys import Keys

    _, before, button, head = column(page, "Results of digits", "accuracy %")
    page.execute_script("arguments[0].focus()", button)
    button.send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    _, after, *_ = column(page, "Results of digits", "accuracy %")
    assert [float(e) for e in after] == sorted(map(float, before), reverse=True)
    page.get(page.current_url)
    page.find_element("tag name", "body").send_keys(Keys.TAB)
    assert page.execute_script("return document.activeElement.className") == "skip"
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.execute_script(outline) == "solid"
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.execute_script("return document.activeElement.id") == "content"


def test_pointing_at_a_curve_tells_its_values(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    picture = page.find_element("css selector", "svg[data-hover]")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", picture)
    shown = page.find_element("id", "tip")

    def points(driver):
        # A busy browser may still be scrolling, which hides what is shown: point again then.
        ActionChains(driver).move_to_element(picture).perform()
        return shown.is_displayed()

    WebDriverWait(page, 10).until(points)
    lines = shown.text.split("\n")
    row = page.execute_script(
        """
        const table = arguments[0].closest("figure").querySelector("table");
        const name = table.tHead.rows[0].cells[1].textContent;
        return [...table.tBodies].map((b) => [b.rows[0].cells[0].textContent,
                                              name, b.rows[0].cells[1].textContent]);
        """,
        picture,
    )
    place = lines[lines.index("abstains though the answer is right") + 1]
    wanted = next(each for each in row if each[0] == place)
    assert lines[lines.index(wanted[1]) + 1] == wanted[2]


def test_pointing_at_a_bar_tells_its_parts(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    bar = page.find_element("css selector", "svg.bars g.bar")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", bar)

    def told(driver):
        # A pointer that is there already, or a page that still scrolls, tells nothing.
        ActionChains(driver).move_by_offset(3, 3).move_to_element(bar).perform()
        return "aleatoric 0.100, epistemic" in driver.find_element("id", "tip").text

    assert WebDriverWait(page, 10).until(told)


def test_folded_tables_open(page):
    fold = page.find_element("css selector", "figure details summary")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", fold)
    table = fold.find_element("xpath", "../div/table")
    assert not table.is_displayed()
    fold.click()
    assert table.is_displayed()


def test_hostile_names_are_read_as_they_are(page):
    titles = [each.text for each in page.find_elements("tag name", "h2")]
    assert "<i>other<i>" in titles
    assert page.execute_script("return document.querySelectorAll('h2 i, dd b').length") == 0


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_wider_than_the_screen(page, size):
    show(page, size)
    width = page.execute_script("return document.documentElement.scrollWidth")
    assert width <= SIZES[size][0]


# Boxes of tables that are shown when the page opens, and that have more to the right.
CUT_OFF = """
    return [...document.querySelectorAll(".scroll")]
      .filter((each) => !each.closest("details:not([open])") && !each.closest("nav"))
      .filter((each) => each.scrollWidth > each.clientWidth)
      .map((each) => each.getAttribute("aria-label"));
"""


def test_no_table_is_cut_off_on_a_laptop(page):
    show(page, "laptop")
    assert page.execute_script(CUT_OFF) == []


def test_no_table_of_our_largest_study_is_cut_off_on_a_laptop(browser, tmp_path):
    page = tmp_path / "study.html"
    limits = Limits(points=5, series=3, tables=2)
    page.write_text(render(collect([RECORDS / "mnist7"]), ["mnist7"], limits=limits), "utf-8")
    show(browser, "laptop")
    browser.get(page.as_uri())
    assert browser.execute_script("return document.querySelectorAll('.results').length") > 2
    assert browser.execute_script(CUT_OFF) == []
    show(browser, "phone")
    assert "Table: Results of mnist7" in browser.execute_script(CUT_OFF)[0]  # there it scrolls


def unfold(browser, address):
    """Open a page with everything unfolded."""
    browser.get(address)
    browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_axe_finds_nothing(browser, short_address, axe, size, scheme):
    show(browser, size, scheme)
    unfold(browser, short_address)
    assert violations(browser, axe) == []


@pytest.mark.parametrize(
    ("study", "size", "scheme"),
    [
        ("imdb", "desktop", "light"),
        ("cifar10", "phone", "dark"),
        ("shakespeare", "desktop", "dark"),
        ("toy", "phone", "light"),
    ],
)
def test_axe_finds_nothing_on_the_pages_of_our_studies(browser, axe, tmp_path, study, size, scheme):
    """With what only these have: tables of the paper, claims that hold or not, curves, tokens."""
    page = tmp_path / "study.html"
    limits = Limits(points=5, rows=4, series=3, tables=2)
    page.write_text(render(collect([RECORDS / study]), [study], limits=limits), "utf-8")
    show(browser, size, scheme)
    unfold(browser, page.as_uri())
    assert violations(browser, axe) == []


@pytest.mark.parametrize(("size", "scheme"), [("phone", "light"), ("desktop", "dark")])
def test_axe_finds_nothing_on_the_page_of_a_posterior(browser, axe, tmp_path, size, scheme):
    inputs, labels = (each[:200] for each in load_dataset("digits").train)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
    posterior = sbmc.fit(network, (inputs, labels), s=0.1, sampler=sbmc.HMC(steps=8), particles=4)
    names = [str(number) for number in range(200)]
    view = view_posterior(posterior, Rows(inputs, labels, names, "row", "digits"))
    write_posterior_page(view, tmp_path / "posterior.html", command="sbmc report my.sbmc")
    show(browser, size, scheme)
    browser.get_log("browser")
    unfold(browser, (tmp_path / "posterior.html").as_uri())
    assert violations(browser, axe) == []
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= SIZES[size][0]


def test_the_theme_follows_the_reader(page):
    shades = {}
    for scheme in ("light", "dark"):
        show(page, "desktop", scheme)
        shades[scheme] = page.execute_script(
            "return getComputedStyle(document.body).backgroundColor"
        )
    assert shades == {"light": "rgb(252, 252, 251)", "dark": "rgb(18, 22, 27)"}
    show(page, "desktop", "dark", media="print")
    shade = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert shade == "rgb(255, 255, 255)"


def test_it_can_be_read_without_script(browser, address):
    show(browser, "phone")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(address)
        assert browser.find_element("css selector", ".answer").is_displayed()
        heading = browser.find_element("css selector", "table.results thead th")
        assert heading.text == "Setting"
        assert browser.find_elements("css selector", "th button") == []
        assert browser.find_element("css selector", "figure svg").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_it_prints_on_a_few_pages(page):
    printed = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    file = base64.b64decode(printed["data"])
    assert file.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type /Page\b", file)) <= 40
    assert page.get_log("browser") == []


def test_tables_of_the_paper_open_and_sort_with_its_line_below_ours(browser, tmp_path):
    for s, nll in ((0.1, 0.32), (0.25, 0.34), (0.35, 0.3)):
        metrics = {"accuracy": 0.86, "nll": nll}
        more = {"prior_variance": 1.0, "steps": 26}
        study_records.write(tmp_path / "runs", "imdb", "s-hmc", metrics, islands=8, s=s, **more)
    write_report([tmp_path / "runs"], tmp_path / "paper.html", progress=False)
    show(browser, "phone", "dark")
    browser.get((tmp_path / "paper.html").as_uri())
    fold = next(
        each
        for each in browser.find_elements("css selector", "section > details > summary")
        if each.text.startswith("v = 1, growing s (tab:metric_diffs_imdb)")
    )
    table = fold.find_element("xpath", "../div/table")
    assert not table.is_displayed()
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", fold)
    fold.click()
    assert table.is_displayed()
    _, before, button, _ = column(browser, "imdb: v = 1, growing s (", "NLL")
    browser.execute_script("arguments[0].focus(); arguments[0].click()", button)
    _, after, *_ = column(browser, "imdb: v = 1, growing s (", "NLL")
    known = [float(each) for each in after if each]
    assert known == [0.34, 0.32, 0.3]
    assert [float(each) for each in before if each] != known
    below = table.find_elements("css selector", "tbody:first-of-type tr.quiet th")
    assert [each.text for each in below] == ["the paper’s"]
    # A wide table scrolls inside its box, and the page does not.
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
