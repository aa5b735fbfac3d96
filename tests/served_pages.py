"""A server of posteriors in a thread, and its page in a browser as a person has it before them."""

import json
import threading
import time

import uvicorn
from browsing import show
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from sbmc_serve import create_app
from sbmc_serve.running import listen

PATIENCE = 60


class Serving:
    """A server in a thread; it can be stopped and started again at its port."""

    def __init__(self, posteriors, **options):
        self.posteriors, self.options, self.port = posteriors, options, 0
        self.start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/"

    def start(self):
        listener = listen("127.0.0.1", self.port)
        self.port = listener.getsockname()[1]
        settings = {"log_config": None, "access_log": False, "ws": "none"}
        application = create_app(self.posteriors, **self.options)
        self.server = uvicorn.Server(uvicorn.Config(application, **settings))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]})
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)

    def stop(self):
        self.server.should_exit = True
        self.thread.join()


class Visit:
    """The page in a browser: what a person does with it, and what they see."""

    def __init__(self, browser, address, size="laptop", scheme="light"):
        self.browser = browser
        show(browser, size, scheme)
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(address)
        self.settle()

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def wait(self, condition):
        return WebDriverWait(self.browser, PATIENCE, 0.05).until(lambda _: condition())

    def settle(self):
        """Wait until what is shown is the answer to what was asked last."""
        script = "return document.getElementById('answer').getAttribute('aria-busy')"
        self.wait(lambda: self.run(script) == "false")

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def text(self, selector):
        return self.find(selector).get_attribute("textContent")

    def press(self, *keys, held=None):
        """Press keys wherever the keyboard's focus is, while another one may be held."""
        chain = ActionChains(self.browser)
        if held:
            chain.key_down(held)
        chain.send_keys(*keys)
        if held:
            chain.key_up(held)
        chain.perform()

    def tab_to(self, wanted):
        """Go on by the Tab key until an element is reached."""
        for _ in range(60):
            self.press(Keys.TAB)
            if self.run("return document.activeElement.matches(arguments[0])", wanted):
                return
        raise AssertionError(f"{wanted} cannot be reached by keyboard")

    def retype(self, selector, text):
        """Replace the text of a field by typing."""
        self.find(selector).send_keys(Keys.CONTROL + "a")
        self.find(selector).send_keys(text)

    def draw(self, strokes, kind="mouse", lift=True):
        """Draw strokes on the field by pointer events, each a list of points from 0 to 1."""
        field = self.find("#field")
        self.run("arguments[0].scrollIntoView({block: 'center'})", field)
        box = self.run("return arguments[0].getBoundingClientRect()", field)
        pointer = PointerInput(kind, f"a {kind}")
        actions = ActionBuilder(self.browser, mouse=pointer, duration=0)
        for stroke in strokes:
            for at, (x, y) in enumerate(stroke):
                where = box["left"] + x * box["width"], box["top"] + y * box["height"]
                pointer.create_pointer_move(0, *map(round, where), origin="viewport")
                if at == 0:
                    pointer.create_pointer_down(button=0)
            if lift:
                pointer.create_pointer_up(button=0)
        actions.perform()

    def lift(self):
        """Lift a pen that `draw` left on the field."""
        ActionBuilder(self.browser).clear_actions()

    def sent(self):
        """What was asked since the last call, from the browser's own log."""
        bodies = []
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                request = message["params"]["request"]
                if request["url"].endswith("/predict"):
                    bodies.append(json.loads(request["postData"]))
        return bodies

    def part(self, name):
        """A part of the uncertainty, as it is shown."""
        return float(self.text(f"[data-part={name}] .figure").removesuffix("\u00a0%"))

    def votes(self):
        """How often each class is written in the squares of the networks."""
        cells = [
            each.text for each in self.browser.find_elements("css selector", "#particles span")
        ]
        return {label: cells.count(label) for label in set(cells)}
