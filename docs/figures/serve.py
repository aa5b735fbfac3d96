"""Take pictures of the page that `sbmc serve` shows, and count what it reads of drawn digits.

A real server answers, and a real Chromium shows the page: `sbmc serve --digits` with a digit and
with a scribble, and a posterior of scikit-learn's diabetes table.

    python docs/figures/serve.py

This writes `serve_digit.png`, `serve_scribble.png` and `serve_table.png` into `docs/images`, and
beside this file `serve.json` with the figures that docs/serving.md quotes. It takes a minute on two
cores and needs Chromium with its driver, Selenium and the extra `serve`.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from PIL import Image
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait
from sklearn.datasets import load_diabetes

from sbmc.datasets.files.table import TextTable
from sbmc.estimators.table import fit_table
from sbmc.posterior.posterior import Posterior
from sbmc_serve import create_app
from sbmc_serve.digits import ABOUT, digits_posteriors
from sbmc_serve.running import listen

OUT = Path(__file__).parents[1] / "images"
RECORD = Path(__file__).with_suffix(".json")
WIDTH, HEIGHT = 1280, 1600  # so high that there is no bar to scroll by
DIGITS, KNOWN = "0123456789", "01234567"
COPIES = 40  # of each digit, distorted
# Names of the table's columns, as its authors explain them.
COLUMNS = {
    "age": "age",
    "bmi": "body mass index",
    "bp": "blood pressure",
    "s5": "triglycerides (log)",
    "target": "progression",
}


def main() -> None:
    """Make pictures and record."""
    OUT.mkdir(exist_ok=True)
    with open_browser() as browser:
        with tempfile.TemporaryDirectory() as folder:
            posteriors = digits_posteriors(Path(folder))
        with serve(posteriors, about=ABOUT) as address:
            open_page(browser, address)
            click(browser, "[data-example='3']")
            take(browser, OUT / "serve_digit.png")
            choose(browser, "s = 1")
            click(browser, "[data-example='scribble']")
            take(browser, OUT / "serve_scribble.png")
            copies = distort(browser)
            record = {}
            for name in posteriors:
                found = read_digits(browser, name) | {"copies": read_copies(browser, name, copies)}
                record[name.removeprefix("s=")] = found
        with serve({"diabetes": diabetes()}) as address:
            open_page(browser, address)
            browser.find_element("css selector", "#sweep").send_keys("body")
            settle(browser)
            take(browser, OUT / "serve_table.png")
    ordered = dict(sorted(record.items(), key=lambda item: float(item[0])))
    RECORD.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
    for s, found in ordered.items():
        print(f"s = {s}:", found)


def diabetes(budget: float | None = None) -> Posterior:
    """A posterior of four columns of scikit-learn's diabetes table, in their own units."""
    frame = load_diabetes(as_frame=True, scaled=False).frame
    columns = {name: [str(cell) for cell in frame[key]] for key, name in COLUMNS.items()}
    table = TextTable(columns, "diabetes.csv")
    return fit_table(
        table, target="progression", likelihood="gaussian", hidden_layers=(16,), budget=budget
    )


def read_digits(browser: Any, name: str) -> dict[str, Any]:
    """What the page says of each digit that it stores, at one s."""
    choose(browser, name.replace("=", " = "))
    said = {}
    for digit in DIGITS:
        click(browser, f"[data-example='{digit}']")
        said[digit] = browser.execute_script(
            "return [document.querySelector('.top th').textContent,"
            " document.querySelector('#label').textContent === 'abstains']"
        )
    return {
        "recognised": sum(said[digit][0] == digit for digit in KNOWN),
        "known": len(KNOWN),
        "abstains": [digit for digit in DIGITS if said[digit][1]],
        "best guesses": {digit: said[digit][0] for digit in DIGITS},
    }


def distort(browser: Any) -> list[tuple[str, Any]]:
    """Copies of the stored digits 0 to 7 as other hands might draw them, as small pictures.

    They are turned by about 5 degrees, slanted by about 0.15, and stretched in both directions.

    Returns:
        Pairs of a digit and an input, as the page scales it.
    """
    rng = np.random.default_rng(0)
    stored = run(browser, "const { EXAMPLES } = modules; return Object.fromEntries(EXAMPLES)")
    drawings = []
    for digit in KNOWN:
        for _ in range(COPIES):
            turn, slant, size = rng.normal(0, 0.08), rng.normal(0, 0.15), rng.uniform(0.5, 1, 2)
            moves = np.array([[np.cos(turn), slant - np.sin(turn)], [np.sin(turn), np.cos(turn)]])
            moves *= size[:, None]
            strokes = [((np.array(each) - 0.5) @ moves.T + 0.5).tolist() for each in stored[digit]]
            drawings.append((digit, strokes))
    script = (
        "const { shrink, toInput } = modules; return given.map((strokes) =>"
        " toInput(shrink(strokes, 8, 8), [1, 8, 8], 0, 1))"
    )
    inputs = run(browser, script, [strokes for _, strokes in drawings])
    return list(zip([digit for digit, _ in drawings], inputs, strict=True))


def read_copies(browser: Any, name: str, copies: Sequence[tuple[str, Any]]) -> dict[str, int]:
    """How many of the copies are recognised, at how many it abstains, and how many are wrong."""
    script = (
        "return fetch('predict', { method: 'POST', headers: { 'content-type': 'application/json' },"
        " body: JSON.stringify(given) }).then((answer) => answer.json())"
    )
    answer = run(browser, script, {"model": name, "inputs": [row for _, row in copies]})
    said = zip(copies, answer["predictions"], strict=True)
    kinds = [
        "abstains" if each["abstain"] else "right" if each["label"] == digit else "wrong"
        for (digit, _), each in said
    ]
    return {kind: kinds.count(kind) for kind in ("right", "abstains", "wrong")}


def run(browser: Any, script: str, given: Any = None) -> Any:
    """Run a script that has the page's modules."""
    return browser.execute_async_script(
        "const [given, done] = arguments;"
        "Promise.all([import('/static/drawing.js'), import('/static/examples.js')])"
        f".then((all) => {{ const modules = Object.assign({{}}, ...all); {script} }}).then(done);",
        given,
    )


def choose(browser: Any, words: str) -> None:
    """Move the slider to an s."""
    stops = browser.execute_script(
        "return [...document.querySelectorAll('.stops span')].map((each) => each.textContent)"
    )
    browser.execute_script(
        "const slider = document.getElementById('strength'); slider.value = arguments[0];"
        "slider.dispatchEvent(new Event('input'))",
        stops.index(words.removeprefix("s = ")),
    )
    settle(browser)


def click(browser: Any, selector: str) -> None:
    """Press a button, and wait for the answer."""
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)
    settle(browser)


def settle(browser: Any) -> None:
    """Wait until what is shown is the answer to what was asked last."""
    script = "return document.getElementById('answer').getAttribute('aria-busy') === 'false'"
    WebDriverWait(browser, 60, 0.05).until(lambda each: each.execute_script(script))


def open_page(browser: Any, address: str) -> None:
    """Open the page, in light colours."""
    screen = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    wishes = {"prefers-color-scheme": "light", "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in wishes.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(address)
    settle(browser)


def take(browser: Any, path: Path) -> None:
    """Take a picture of the page down to the end of the answer."""
    bottom = browser.execute_script(
        "document.activeElement.blur();"
        "return document.getElementById('work').getBoundingClientRect().bottom + scrollY"
    )
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": bottom + 20, "scale": 1}
    wanted = {"format": "png", "clip": clip}
    data = browser.execute_cdp_cmd("Page.captureScreenshot", wanted)["data"]
    picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    # Of the ways to choose 256 colours, this one keeps those of small areas.
    method = Image.Quantize.MAXCOVERAGE
    small = picture.quantize(256, method, kmeans=3, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


@contextmanager
def open_browser() -> Iterator[Any]:
    """A Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    for flag in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "disable-lcd-text",
    ):
        options.add_argument(f"--{flag}")
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        yield browser
    finally:
        browser.quit()


@contextmanager
def serve(posteriors: Mapping[str, Posterior], **options: Any) -> Iterator[str]:
    """A server in a thread; yields its address."""
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        create_app(posteriors, **options), log_config=None, access_log=False, ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
