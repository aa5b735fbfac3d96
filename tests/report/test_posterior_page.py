"""The page of any posterior: its numbers, its order of rows, and its advice."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import sbmc
from sbmc.datasets.files import Rows
from sbmc.islands.health import Health
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.combining import classification_prediction
from sbmc.report.answers import Abstention
from sbmc.report.limits import Limits
from sbmc.report.next_steps import next_steps
from sbmc.report.posterior_examples import extremes, picture_of
from sbmc.report.posterior_figures import (
    reliability,
    reliability_bins,
    risk_and_coverage,
    uncertainty,
)
from sbmc.report.posterior_page import render_posterior_page
from sbmc.report.posterior_view import PosteriorView, view_posterior


def make_rows(inputs, targets, **more):
    names = [str(index + 1) for index in range(len(inputs))]
    return Rows(inputs, targets, names, "row", "rows.npz", **more)


@pytest.fixture(scope="module")
def classes():
    """A posterior of three classes of small pictures, and rows to look at."""
    rng = torch.Generator().manual_seed(0)
    targets = torch.arange(60) % 3
    inputs = torch.rand(60, 1, 5, 5, generator=rng)
    inputs[torch.arange(60), 0, targets] += 1.0
    net = nn.Sequential(nn.Flatten(), nn.Linear(25, 3))
    trained = sbmc.train_map(net, (inputs, targets), max_epochs=40, learning_rate=0.01, seed=0)
    posterior = sbmc.fit(trained, (inputs, targets), s=0.1, sampler=sbmc.HMC(steps=20), particles=5)
    rows = make_rows(inputs, targets, classes=("top", "<b>", "low"))
    return view_posterior(posterior, rows, name="my.sbmc")


@pytest.fixture(scope="module")
def numbers():
    inputs = torch.linspace(-1, 1, 40)[:, None]
    targets = 2 * inputs[:, 0] + 0.1 * torch.sin(40 * inputs[:, 0])
    posterior = sbmc.fit(
        nn.Linear(1, 1),
        (inputs, targets),
        s=1.0,
        likelihood=sbmc.Gaussian(noise_variance=0.01),
        sampler=sbmc.HMC(steps=20),
        particles=4,
    )
    return view_posterior(posterior, make_rows(inputs, targets), level=0.8)


def test_bins_have_means_and_frequencies():
    confidence = np.array([0.91] * 10 + [0.55] * 8 + [0.2] * 2)
    right = np.array([True] * 9 + [False] + [True] * 4 + [False] * 4 + [True] * 2)
    said, happened = reliability_bins(confidence, right)
    assert said == pytest.approx([0.55, 0.91])  # two rows are too few for a bin
    assert happened == [0.5, 0.9]


def test_figures_have_the_numbers_of_the_prediction(classes):
    right = classes.prediction.labels == classes.targets
    curve = risk_and_coverage(classes, Limits()).chart.curves[0]
    assert curve.x[-1] == 1.0
    assert curve.y[-1] == pytest.approx(1 - float(right.double().mean()))
    (name, (bar,)), *_ = uncertainty(classes).chart.groups
    assert name == "all rows (60)"
    assert bar.pale == pytest.approx(float(classes.prediction.aleatoric.mean()))
    assert bar.length == pytest.approx(float(classes.prediction.total.mean()))


def test_reliability_of_numbers_is_the_coverage_of_intervals(numbers):
    curve = reliability(numbers).chart.curves[0]
    at = curve.x.index(pytest.approx(0.8))
    inside = numbers.prediction.interval(0.8).covers(numbers.targets).double().mean()
    assert curve.y[at] == pytest.approx(float(inside), abs=1e-9)
    risk = risk_and_coverage(numbers, Limits()).chart.curves[0]
    assert risk.y[-1] == pytest.approx(numbers.metrics["rmse"])


def test_extremes_are_those_of_epistemic_uncertainty(classes):
    sure, unsure = extremes(classes, 6)
    epistemic = classes.prediction.epistemic
    assert unsure == torch.argsort(epistemic, descending=True)[:6].tolist()
    # Of each label in turn, the surest first.
    labels = classes.prediction.labels
    assert {int(labels[row]) for row in sure[:3]} == {0, 1, 2}
    for label in range(3):
        rows = [row for row in sure if labels[row] == label]
        best = torch.argsort(epistemic + 9 * (labels != label))[: len(rows)]
        assert rows == best.tolist()


def test_inputs_that_look_like_pictures():
    assert picture_of(torch.rand(1, 6, 7)).shape == (6, 7)
    wide = picture_of(torch.tensor([[-2.0, 0.0, 2.0, 6.0]] * 4))
    assert (wide.min(), wide.max()) == (0.0, 1.0)
    for shape in ((9,), (3, 2), (2, 8, 8), (1, 1, 8, 8)):
        assert picture_of(torch.zeros(shape)) is None


def test_the_page_is_the_same_bytes_and_shows_names_as_text(classes):
    page = render_posterior_page(classes, command="sbmc report my.sbmc")
    assert page == render_posterior_page(classes, command="sbmc report my.sbmc")
    assert "“&lt;b&gt;”" in page
    assert "<b></b>" not in page
    assert page.count("data:image/png") == 16
    names = re.findall(r'id="([^"]*)"', page)
    assert len(names) == len(set(names))


def advice(probs, targets, health=None, total=None, fitted=None):
    """What is advised on a posterior that predicts these probabilities."""
    logs = torch.tensor(probs, dtype=torch.float64).log()
    prediction = classification_prediction(logs, torch.full((len(logs),), 1 / len(logs)))
    posterior = Posterior.__new__(Posterior)
    posterior.fitted_confidence, posterior.recipe = fitted, None
    verdict = health or Health(True)

    class Subject(Posterior):
        health = verdict

    posterior.__class__ = Subject
    rows = make_rows(torch.zeros(logs.shape[1], 2), torch.tensor(targets))
    doubt = Abstention(1 - prediction.max_probability, None, "")
    metrics = {"accuracy": 0.5}
    return next_steps(PosteriorView(posterior, "p", rows, prediction, doubt, metrics, 0.9))


SURE, EVEN = [0.99, 0.01], [0.6, 0.4]


@pytest.mark.parametrize(
    ("probs", "targets", "words"),
    [
        ([[SURE] * 100], [0] * 60 + [1] * 40, "It is too sure: 60.0"),
        ([[EVEN] * 100], [0] * 90 + [1] * 10, "It is less sure than it could be: 90.0"),
        ([[EVEN] * 100], [0] * 60 + [1] * 40, "can be taken at their word"),
        ([[SURE] * 100, [SURE[::-1]] * 100], [0, 1] * 50, "Label more rows"),
        ([[EVEN] * 100], [0, 1] * 50, "More rows of the same kind would change little"),
        ([[EVEN] * 20], [0, 1] * 10, "figures of 20 rows have large errors"),
    ],
)
def test_advice_follows_from_what_is_seen(probs, targets, words):
    assert any(words in each for each in advice(probs, targets))


def test_an_ill_posterior_comes_first():
    ill = Health(False, ("It is stuck.",), ("Run it longer.",))
    first = advice([[EVEN] * 20], [0, 1] * 10, ill)[0]
    assert first == "Sample again before you use it. Run it longer."


def test_rows_without_targets_and_a_posterior_that_was_not_sampled(classes):
    rows = replace(classes.rows, targets=None)
    still = sbmc.fit(classes.posterior.model, (rows.inputs, classes.targets), s=0.0)
    page = render_posterior_page(view_posterior(still, rows), command="c")
    assert "Nothing was sampled" in page
    assert "Give rows with their targets" in page
