"""What a notebook shows, in a real kernel: one bar that is drawn anew, and tables of results."""

import html
import os
import re
import sys

import pytest
import torch
from repository import ROOT
from torch import nn

import sbmc
from sbmc import progress
from sbmc.diagnostics import diagnose
from sbmc.progress import NotebookBar, open_progress

BEGINNING = """
import torch, sbmc, sbmc.progress
from torch import nn
sbmc.progress.NOTEBOOK_INTERVAL = 0  # every update is drawn, however quick the machine
torch.manual_seed(0)
x, y = torch.randn(40, 2), torch.randint(2, (40,))
net = nn.Linear(2, 2)
options = dict(s=0.1, sampler=sbmc.HMC(steps=12), particles=3)
"""


class Kernel:
    """Runs code in a kernel, and gives back the messages that a notebook would show."""

    def __init__(self, client):
        self._client = client

    def __call__(self, code):
        messages = []
        reply = self._client.execute_interactive(code, output_hook=messages.append, timeout=120)
        assert reply["content"]["status"] == "ok", reply["content"]
        shown = ("display_data", "update_display_data", "execute_result", "stream")
        return [each for each in messages if each["msg_type"] in shown]


@pytest.fixture(scope="module")
def kernel():
    try:
        from jupyter_client import KernelManager
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail("ipykernel is not installed, and in CI it must be there")
        pytest.skip("ipykernel is not installed")
    manager = KernelManager()
    manager.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.start_kernel(env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=str(ROOT))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        run = Kernel(client)
        assert run(BEGINNING) == []
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# The packages of Jupyter warn of themselves.
in_a_kernel = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.mark.integration
@in_a_kernel
def test_a_kernel_draws_one_bar_anew_and_leaves_one_line(kernel):
    messages = kernel("posterior = sbmc.fit(net, (x, y), progress=True, **options)")
    kinds = [each["msg_type"] for each in messages]
    assert kinds[0] == "display_data"
    assert len(kinds) > 2
    assert set(kinds[1:]) == {"update_display_data"}
    assert len({each["content"]["transient"]["display_id"] for each in messages}) == 1
    pages = [each["content"]["data"]["text/html"] for each in messages]
    assert all("<progress" in page for page in pages[:-1])
    assert "<progress" not in pages[-1]
    plain = messages[-1]["content"]["data"]["text/plain"]
    assert re.fullmatch(r"sampling: (\d+)/\1 steps, islands 1/1, ended after [\d.]+ s", plain)


@pytest.mark.integration
@in_a_kernel
def test_a_kernel_shows_nothing_of_short_tasks_and_where_it_is_told_not_to(kernel):
    assert kernel("sbmc.fit(net, (x, y), progress=False, **options);") == []
    kernel("sbmc.progress.PATIENCE = 1000")
    assert kernel("sbmc.fit(net, (x, y), **options);") == []
    kernel("sbmc.progress.PATIENCE = 0")
    assert kernel("sbmc.fit(net, (x, y), **options);")[0]["msg_type"] == "display_data"


@pytest.mark.integration
@in_a_kernel
def test_results_are_tables_in_a_kernel(kernel):
    kernel("posterior = sbmc.fit(net, (x, y), progress=False, **options)")
    for code in ("posterior", "posterior.health", "posterior.predict(x)"):
        (result,) = kernel(code)
        assert result["content"]["data"]["text/html"].startswith("<table>")


@pytest.mark.integration
@in_a_kernel
def test_an_explanation_is_shown_once_in_a_cell(kernel):
    (shown,) = kernel("explanation = sbmc.explain(net, x)\nexplanation")
    assert shown["content"]["data"]["text/html"].startswith("<table>")
    assert shown["content"]["data"]["text/plain"].startswith("layer")
    (once,) = kernel("sbmc.explain(net, x)")
    (before,) = kernel("sbmc.explain(net, x); 3 + 4")[:1]
    (again,) = kernel("explanation")
    for each in (once, before, again):
        assert each["content"]["data"]["text/html"].startswith("<table>")
    assert kernel("print(explanation)")[0]["msg_type"] == "stream"


class Handle:
    def __init__(self, bundles):
        self.update = lambda bundle, raw: bundles.append(bundle)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def shown():
    bundles = []

    def display(bundle, *, raw, display_id):
        bundles.append(bundle)
        return Handle(bundles)

    return bundles, display


def test_the_bar_waits_and_is_not_drawn_too_often(shown):
    bundles, display = shown
    clock = Clock()
    bar = NotebookBar(display, "sampling", 100, "epochs", delay=2.0, clock=clock)
    for done in range(1, 41):
        clock.now += 0.1
        bar.update(done, loss=0.5)
    # At 2.0 s, and then every 0.2 s until 4.0 s; which of two neighbours, rounding decides.
    assert len(bundles) in range(9, 13)
    assert '<progress value="20" max="100">' in bundles[0]["text/html"]
    assert bundles[0]["text/plain"] == "sampling: 20/100 epochs, loss 0.5"
    bar.close()
    assert bundles[-1]["text/plain"] == "sampling: 40/100 epochs, loss 0.5, ended after 4.0 s"


def test_a_bar_that_was_never_shown_leaves_nothing(shown):
    bundles, display = shown
    bar = NotebookBar(display, "sampling", 100, "epochs", delay=2.0, clock=Clock())
    bar.update(100)
    bar.close()
    assert bundles == []


def test_the_text_of_the_bar_is_escaped(shown):
    bundles, display = shown
    NotebookBar(display, "<b>", 1, "epochs", delay=0.0, clock=Clock()).close()
    assert "<b>" not in bundles[-1]["text/html"]


def test_notebooks_come_before_terminals(shown, monkeypatch):
    monkeypatch.setattr(progress, "_notebook_display", lambda: shown[1])
    for asked in (True, None):
        with open_progress(asked, "training", total=3) as bar:
            assert type(bar) is NotebookBar


def cells(page):
    return [html.unescape(each) for each in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", page)]


@pytest.fixture(scope="module")
def posterior():
    torch.manual_seed(0)
    data = torch.randn(40, 2), torch.randint(3, (40,))
    options = {"s": 0.1, "sampler": sbmc.HMC(steps=12), "particles": 3, "islands": 2}
    return sbmc.fit(nn.Linear(2, 3), data, progress=False, **options)


def test_a_prediction_of_classes_shows_its_first_rows(posterior):
    prediction = posterior.predict(torch.randn(7, 2))
    page = prediction._repr_html_()
    texts = cells(page)
    headings = ["example", "label", "probability", "total", "aleatoric", "epistemic"]
    assert texts[:6] == headings
    assert len(texts) == 6 * 6
    assert texts[6:8] == ["0", str(int(prediction.labels[0]))]
    assert texts[11] == f"{float(prediction.epistemic[0]):.4g}"
    assert "the first 5 of 7 examples" in page


def test_a_prediction_of_numbers_shows_standard_deviations_and_cuts_wide_tables():
    data = torch.randn(40, 2), torch.randn(40, 4)
    options = {"s": 0.5, "sampler": sbmc.HMC(steps=4), "particles": 3, "progress": False}
    prediction = sbmc.fit(nn.Linear(2, 4), data, likelihood="gaussian", **options).predict(data[0])
    page = prediction._repr_html_()
    assert cells(page)[:6] == ["example", "mean 0", "mean 1", "mean 2", "mean 3", "total 0"]
    assert cells(page)[15] == f"{float(prediction.total[0, 0].sqrt()):.4g}"
    assert "9 of 16 columns" in page


def test_verdict_forecast_mixture_and_diagnostics_are_tables(posterior):
    assert cells(posterior.health._repr_html_())[:2] == ["health", posterior.health.word]
    data = torch.randn(40, 2), torch.randint(3, (40,))
    forecast = sbmc.expect(nn.Linear(2, 3), data, s=0.1, sampler=sbmc.HMC(steps=12))
    assert cells(forecast._repr_html_())[0] == "islands"
    found = diagnose(posterior, data[0])
    assert "nested R-hat" in cells(found._repr_html_())
