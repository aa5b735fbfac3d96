"""The page to play with, in a real Chromium and with a real server behind it."""

import importlib.util
import json
import re

import drawing_rule
import numpy as np
import pytest
import torch
from browsing import SIZES, axe, browser, need, show, violations  # noqa: F401, fixtures
from repository import ROOT
from torch import nn

import sbmc
from sbmc.datasets import digits

pytestmark = pytest.mark.integration

try:
    from selenium.webdriver.common.keys import Keys
    from served_pages import Serving, Visit
except ImportError:  # the fixture of the browser says what is missing
    Serving = Visit = Keys = None

PARTICLES = 12
VALUES_OF_S = (0.1, 0.0, 1.0)  # the first is shown first


@pytest.fixture(scope="session")
def digit_posteriors():
    """Posteriors of the embedded digits at several s, small enough to be made in seconds."""
    data = digits.load()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 8))
        trained = sbmc.train_map(
            network, data.train, prior_variance=0.3, max_epochs=60, seed=0, progress=False
        )
        return {
            f"s={s:g}": sbmc.fit(
                trained,
                data.train,
                s=s,
                prior_variance=0.3,
                particles=PARTICLES if s else 1,
                seed=0,
                progress=False,
            )
            for s in VALUES_OF_S
        }


@pytest.fixture(scope="session")
def served_digits(browser, digit_posteriors):  # noqa: F811
    serving = Serving(digit_posteriors)
    yield serving
    serving.stop()


@pytest.fixture
def page(browser, served_digits):  # noqa: F811
    """The page of the digits, freshly opened on a laptop."""
    return Visit(browser, served_digits.address)


@pytest.fixture(scope="session")
def served_table(browser, table):  # noqa: F811
    serving = Serving(table)
    yield serving
    serving.stop()


@pytest.fixture(scope="session")
def stuck():
    """A posterior of small arrays that is not ok: its chains hardly moved."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        inputs = torch.randn(60, 2, 3)
        network = nn.Sequential(nn.Flatten(), nn.Linear(6, 3))
        sampler = sbmc.HMC(steps=2, leapfrog=1, step_size=1e-7)
        labels = (inputs[:, 0, 0] > 0).long() + (inputs[:, 1, 0] > 0).long()
        return sbmc.fit(
            network, (inputs, labels), s=1.0, sampler=sampler, particles=4, progress=False
        )


@pytest.fixture(scope="session")
def served_array(browser, stuck):  # noqa: F811
    serving = Serving(stuck)
    yield serving
    serving.stop()


def examples(page):
    """The strokes that the page stores, by name."""
    return page.browser.execute_async_script(
        "const done = arguments[0];"
        "import('/static/examples.js').then((it) => done(Object.fromEntries(it.EXAMPLES)));"
    )


def shown_votes(posterior, row):
    """How many networks hold each class most likely."""
    prediction = posterior.predict(torch.tensor([row]), keep="outputs")
    labels = prediction.particles.outputs().argmax(-1).flatten().tolist()
    return {str(label): labels.count(label) for label in set(labels)}


def test_a_digit_is_drawn_and_the_page_says_what_the_posterior_says(page, digit_posteriors):
    strokes = examples(page)["2"]
    page.find("#clear").click()
    page.settle()
    page.sent()
    page.draw(strokes)
    page.settle()
    asked = page.sent()[-1]
    (row,) = asked["inputs"]
    posterior = digit_posteriors[asked["model"]]
    prediction = posterior.predict(torch.tensor([row]))
    assert page.text("#label") == "2"
    assert prediction.labels.tolist() == [2]
    assert page.votes() == shown_votes(posterior, row)
    assert f"{PARTICLES} networks say 2" in page.text("#votes")
    probabilities = [each.text for each in page.browser.find_elements("css selector", ".value")]
    assert len(probabilities) == 8
    assert int(re.sub(r"\D", "", probabilities[2])) == pytest.approx(
        100 * prediction.probs[0, 2].item(), abs=1.5
    )
    for part in ("aleatoric", "epistemic"):
        assert page.part(part) == pytest.approx(getattr(prediction, part).item(), abs=0.0051)
    # Pixels of the field are coarser than the stored points: a few counts of 16 may differ.
    wanted = drawing_rule.shrink(strokes, 8, 8)
    assert np.abs(16 * np.array(row[0]) - wanted).max() <= 4


@pytest.mark.parametrize("kind", ["touch", "pen"])
def test_a_finger_or_a_pen_draws_and_the_page_does_not_scroll(browser, served_digits, kind):  # noqa: F811
    page = Visit(browser, served_digits.address, "phone")
    page.find("#clear").click()
    page.run("document.getElementById('field').scrollIntoView({block: 'center'})")
    before = page.run("return scrollY")
    page.draw(examples(page)["0"], kind)
    page.settle()
    assert page.text("#label") == "0"
    assert page.run("return scrollY") == before


def test_the_small_picture_is_exactly_that_of_the_rule_in_numpy(page):
    rng = np.random.default_rng(0)
    drawings = list(examples(page).values())
    for _ in range(30):
        count = int(rng.integers(1, 4))
        drawings.append([rng.random((int(rng.integers(1, 12)), 2)).tolist() for _ in range(count)])
    small = (rng.random((9, 2)) * 0.01 + 0.3).tolist()
    drawings += [[small], [[[0.2, 0.5], [0.8, 0.5]]], [[[0.5, 0.1], [0.5, 0.9]]], [[[0.5, 0.5]]]]
    for rows, columns in ((8, 8), (28, 28), (10, 6)):
        counts = page.browser.execute_async_script(
            "const [drawings, rows, columns, done] = arguments;"
            "import('/static/drawing.js').then(({ shrink }) =>"
            " done(drawings.map((strokes) => shrink(strokes, rows, columns))));",
            *(drawings, rows, columns),
        )
        for strokes, found in zip(drawings, counts, strict=True):
            wanted = drawing_rule.shrink(strokes, rows, columns)
            assert np.array_equal(np.array(found).reshape(rows, columns), wanted)


def test_stored_digits_are_recognised(page):
    right = 0
    for label in "01234567":
        page.find(f"[data-example='{label}']").click()
        page.settle()
        guess = page.run("return document.querySelector('.top th').textContent")
        right += guess == label
    assert right >= 7


def test_a_scribble_has_more_disagreement_than_a_digit(page):
    page.find("[data-example='3']").click()
    page.settle()
    digit = page.part("epistemic")
    page.find("[data-example='scribble']").click()
    page.settle()
    assert page.part("epistemic") > digit + 0.05
    assert len(page.votes()) > 1
    assert page.text("#label") == "abstains"
    assert "best guess" in page.text("#says")
    assert "abstains where" in page.text("#reason")


def test_undo_and_clear(page):
    before = page.run("return document.querySelector('#particles').ariaLabel")
    page.find("[data-example='0']").click()
    page.find("#clear").click()
    page.settle()
    assert not any(np.array(page.sent()[-1]["inputs"]).ravel())
    page.find("#undo").click()
    page.settle()
    assert page.text("#label") == "0"
    page.find("#undo").click()
    page.settle()
    assert page.run("return document.querySelector('#particles').ariaLabel") == before


def test_the_slider_over_s_goes_to_the_other_posteriors(page, digit_posteriors):
    page.find("[data-example='scribble']").click()
    page.settle()
    shown = {}
    slider = page.find("#strength")
    assert slider.get_attribute("max") == "2"
    for key, s in ((Keys.HOME, 0), (Keys.ARROW_RIGHT, 0.1), (Keys.ARROW_RIGHT, 1)):
        slider.send_keys(key)
        page.settle()
        asked = page.sent()[-1]
        assert asked["model"] == f"s={s:g}"
        assert slider.get_attribute("aria-valuetext").startswith(f"s = {s:g}, ")
        assert page.text("#strength-value") == f"s = {s:g}"
        assert page.votes() == shown_votes(digit_posteriors[f"s={s:g}"], asked["inputs"][0])
        shown[s] = page.part("epistemic")
    assert shown[0] == 0.0
    assert shown[0] < shown[0.1] < shown[1]
    slider.send_keys(Keys.HOME)
    page.settle()
    assert page.text("#votes").startswith("One network alone")
    assert "no disagreement" in page.text("#strength-words")


def test_everything_can_be_done_by_keyboard(page, digit_posteriors):
    page.tab_to("#clear")
    page.press(Keys.ENTER)
    page.settle()
    page.tab_to("[role=gridcell]")
    page.sent()
    # A one: two full columns, drawn downwards on the left and upwards on the right.
    page.press(*[Keys.ARROW_RIGHT] * 3, Keys.SPACE)
    actions = [*[Keys.ARROW_DOWN] * 7, Keys.ARROW_RIGHT, *[Keys.ARROW_UP] * 7]
    page.press(*actions, held=Keys.SHIFT)
    page.settle()
    asked = page.sent()[-1]
    wanted = np.zeros((8, 8))
    wanted[:, 3:5] = 1
    assert np.array_equal(np.array(asked["inputs"][0])[0], wanted)
    assert page.text("#label") == "1"
    assert page.run("return document.activeElement.ariaLabel") == "row 1, column 5: full"
    page.press("-")
    assert page.run("return document.activeElement.ariaLabel") == "row 1, column 5: 12 of 16"
    page.press(Keys.SPACE)
    assert page.run("return document.activeElement.ariaLabel") == "row 1, column 5: empty"
    page.tab_to("[data-example='5']")
    page.press(Keys.SPACE)
    page.settle()
    assert page.text("#label") == "5"
    page.tab_to("#strength")
    page.press(Keys.ARROW_RIGHT)
    page.settle()
    assert page.sent()[-1]["model"] == "s=1"


def test_results_are_spoken_when_the_pen_is_lifted_and_not_before(page):
    spoken = "return document.getElementById('spoken').textContent"
    page.wait(lambda: "networks say 3" in page.run(spoken))
    page.find("#clear").click()
    page.draw(examples(page)["0"], lift=False)
    page.wait(lambda: page.text("#label") == "0")  # it is shown at once
    page.browser.execute_async_script("setTimeout(arguments[0], 1200)")
    assert "networks say 0" not in page.run(spoken)
    page.lift()
    page.wait(lambda: "networks say 0" in page.run(spoken))
    assert re.search(r"Uncertainty \d\.\d\d, of which disagreement \d\.\d\d", page.run(spoken))


def test_one_question_at_a_time_and_the_newest_next(page):
    """Answers come in the order of the questions; what was overtaken is never asked."""
    log = page.browser.execute_async_script(
        """
        const done = arguments[0];
        const log = [];
        const waits = [200, 0, 0];
        window.fetch = async (address, { body }) => {
          const name = JSON.parse(body);
          log.push(`asked ${name}`);
          await new Promise((go) => setTimeout(go, waits[log.length - 1] ?? 0));
          return new Response(JSON.stringify(name));
        };
        import('/static/api.js').then(({ Questions }) => {
          const questions = new Questions({
            answered: (answer) => {
              log.push(`answer ${answer}`);
              if (answer === 'last') done(log);
            },
          });
          for (const body of ['first', 'overtaken', 'last']) questions.ask({ body });
        });
        """
    )
    assert log == ["asked first", "answer first", "asked last", "answer last"]


def test_the_page_says_that_the_server_is_gone_and_goes_on_when_it_is_back(
    browser,  # noqa: F811
    digit_posteriors,
):
    serving = Serving(digit_posteriors)
    page = Visit(browser, serving.address)
    serving.stop()
    page.find("[data-example='0']").click()
    page.wait(lambda: "does not answer" in page.text("#trouble"))
    assert page.find("#trouble").get_attribute("role") == "alert"
    assert page.text("#label") == "3"  # what was known stays
    serving.start()
    try:
        page.find("#retry").click()
        page.wait(lambda: page.text("#label") == "0")
        assert page.text("#trouble") == ""
    finally:
        serving.stop()


def test_a_slider_of_a_table_moves_the_band(browser, served_table, table):  # noqa: F811
    page = Visit(browser, served_table.address)
    asked = page.sent()[-1]
    assert len(asked["inputs"]) == 42
    info = json.loads(page.run("return fetch('info').then((it) => it.text())"))
    size = info["models"][0]["inputs"]["columns"][0]
    sizes = [row["size"] for row in asked["inputs"][1:]]
    assert sizes == pytest.approx(np.linspace(size["low"], size["high"], 41).tolist())
    assert {row["colour"] for row in asked["inputs"]} == {"blue"}
    assert page.text("#band-words").startswith("From size")

    def band():
        return page.find("#band .area").get_attribute("d")

    first, mean = band(), page.text("#label")
    page.find("select[id=feature-1]").send_keys("red")
    page.settle()
    assert band() != first
    assert page.text("#label") != mean
    # The point moves along the band, which stays.
    second = band()
    at = page.find("#band circle").get_attribute("cx")
    page.find("#feature-0").send_keys(Keys.PAGE_UP)
    page.settle()
    assert band() == second
    assert float(page.find("#band circle").get_attribute("cx")) > float(at)
    # A number typed in gives what the posterior says.
    page.retype("input[type=number]", "11.5")
    page.settle()
    row = page.sent()[-1]["inputs"][0]
    assert row == {"size": 11.5, "colour": "red"}
    assert page.run("return document.getElementById('feature-0').valueAsNumber") == 11.5
    cells = [
        [float(cell.replace("−", "-").replace(",", "")) for cell in line]
        for line in page.run(
            "return [...document.querySelectorAll('.values tbody tr')]"
            ".map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
    ]
    assert len(cells) == 41
    assert all(low < mean < high for _, mean, low, high in cells)
    page.find("#reset").click()
    page.settle()
    assert page.sent()[-1]["inputs"][0]["colour"] == "blue"


def test_arrays_are_typed_as_json_and_mistakes_are_said_in_words(browser, served_array, stuck):  # noqa: F811
    page = Visit(browser, served_array.address)
    row = [[1.0, 2.0, 0.5], [0.0, -1.0, 1.5]]
    page.retype("#row", "[[1.0, ")
    assert "not JSON" in page.text("#row-wrong")
    page.retype("#row", json.dumps(row))
    page.settle()
    assert page.text("#row-wrong") == ""
    label = str(stuck.predict(torch.tensor([row])).labels.item())
    assert page.run("return document.querySelector('.top th').textContent") == label
    page.retype("#row", "[1, 2]")
    page.wait(lambda: "refused" in page.text("#trouble"))
    assert "[2, 3]" in page.text("#trouble")
    page.retype("#row", json.dumps(row))
    page.wait(lambda: page.text("#trouble") == "")


def test_a_posterior_that_is_not_ok_says_so(browser, served_array, stuck, served_digits):  # noqa: F811
    assert not stuck.health.ok
    page = Visit(browser, served_array.address)
    words = page.text("#health")
    assert "This posterior is not ok" in words
    assert all(each in words for each in (*stuck.health.reasons, *stuck.health.remedies))
    assert Visit(browser, served_digits.address).text("#health") == ""


@pytest.fixture(scope="session")
def served_pictures(browser):  # noqa: F811
    """Of pictures larger than the digits, in colour, with names for classes."""
    rng = torch.Generator().manual_seed(0)
    inputs, labels = torch.rand(40, 3, 28, 28, generator=rng), torch.arange(40) % 14
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 28 * 28, 14))
    serving = Serving(sbmc.fit(network, (inputs, labels), s=0.1, particles=3, progress=False))
    yield serving
    serving.stop()


def test_larger_pictures_are_grey_and_of_many_classes_the_likeliest_are_shown(
    browser,  # noqa: F811
    served_pictures,
):
    page = Visit(browser, served_pictures.address)
    page.find("[data-example='0']").click()
    page.settle()
    row = np.array(page.sent()[-1]["inputs"][0])
    assert row.shape == (3, 28, 28)
    assert np.array_equal(row[0], row[1])
    assert np.array_equal(row[0], row[2])
    inked = np.argwhere(row[0] > row[0].min())
    assert np.ptp(inked, axis=0).max() == 19  # in a box of 20, as MNIST's
    values = [each.text for each in page.browser.find_elements("css selector", ".value")]
    assert len(values) == 12
    assert "other 2 classes" in page.text("#answer")


KINDS = ("digit", "scribble", "table", "array", "picture")


def open_kind(kind, browser, request, size, scheme):  # noqa: F811
    names = {"table": "served_table", "array": "served_array", "picture": "served_pictures"}
    serving = request.getfixturevalue(names.get(kind, "served_digits"))
    page = Visit(browser, serving.address, size, scheme)
    if kind == "scribble":
        page.find("[data-example='scribble']").click()
        page.settle()
    if kind == "table":
        page.find("details summary").click()
    return page


@pytest.mark.parametrize("size", ["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(browser, axe, request, kind, scheme, size):  # noqa: F811
    open_kind(kind, browser, request, size, scheme)
    assert violations(browser, axe) == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_error_no_other_host_and_no_sideways_scrolling(browser, request, kind):  # noqa: F811
    page = open_kind(kind, browser, request, "laptop", "light")
    assert [each["message"] for each in browser.get_log("browser")] == []
    asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    addresses = {
        message["params"]["request"]["url"]
        for message in asked
        if message["method"] == "Network.requestWillBeSent"
    }
    here = page.run("return location.origin")
    assert {address for address in addresses if not address.startswith(here)} <= {"about:blank"}
    for size, (width, _) in SIZES.items():
        show(browser, size)
        assert page.run("return document.documentElement.scrollWidth") <= width
    # As wide as a laptop's screen at four times the size of letters.
    narrow = {"width": 320, "height": 600, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    assert page.run("return document.documentElement.scrollWidth") <= 320
    assert any(address.endswith("/static/main.js") for address in addresses)


@pytest.fixture(scope="session")
def figure():
    """The script that takes the documentation's pictures."""
    path = ROOT / "docs" / "figures" / "serve.py"
    spec = importlib.util.spec_from_file_location("figure_serve", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_of_the_pictures_takes_them_and_reads_digits(
    browser,  # noqa: F811
    served_digits,
    figure,
    tmp_path,
):
    figure.open_page(browser, served_digits.address)
    figure.click(browser, "[data-example='scribble']")
    figure.take(browser, tmp_path / "page.png")
    assert 20_000 < (tmp_path / "page.png").stat().st_size < 150_000
    read = figure.read_digits(browser, "s=1")
    assert browser.find_element("css selector", "#strength-value").text == "s = 1"
    assert 7 <= read["recognised"] <= read["known"] == 8
    guessed = read["best guesses"]
    assert sum(guessed[digit] == digit for digit in "01234567") == read["recognised"]
    copies = figure.distort(browser)
    counts = figure.read_copies(browser, "s=1", copies)
    assert sum(counts.values()) == len(copies) == 320
    assert counts["right"] > counts["wrong"]


def test_targets_are_large_enough_and_focus_is_visible(page):
    small = page.run(
        "return [...document.querySelectorAll('button, select, input, [role=gridcell]')]"
        ".map((each) => [each.outerHTML, each.getBoundingClientRect()])"
        ".filter(([, { width, height }]) => width > 0 && (width < 24 || height < 24))"
    )
    assert small == []
    page.tab_to("#clear")
    style = page.run("return getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"
