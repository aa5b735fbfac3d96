from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sbmc.checks import BadInput
from sbmc.prediction.prediction import Prediction
from sbmc_studies.figures.sure_unsure import draw, draw_file, draw_run
from sbmc_studies.runs.examples import COUNT, read_examples, select_examples, write_examples

CLASSES = 3


class Oracle:
    """Says of an image what its pixels hold: label, confidence and epistemic entropy."""

    def predict(self, inputs):
        labels = inputs[:, 0, 0, 0].long()
        confidence, epistemic = inputs[:, 0, 0, 1], inputs[:, 0, 1, 0]
        probs = torch.full((len(inputs), CLASSES), 0.0) + ((1 - confidence) / 2)[:, None]
        probs[torch.arange(len(inputs)), labels] = confidence
        return Prediction(probs, epistemic, torch.zeros(len(inputs)), epistemic)


def images(rows):
    """From (label, confidence, epistemic entropy) to images of 2 × 2 that hold them."""
    inputs = torch.zeros(len(rows), 1, 2, 2)
    for index, (label, confidence, epistemic) in enumerate(rows):
        inputs[index, 0, 0] = torch.tensor([float(label), confidence])
        inputs[index, 0, 1, 0] = epistemic
    return inputs


@pytest.fixture
def data():
    test = [(0, 0.9, 0.10), (1, 0.8, 0.02), (1, 0.8, 0.03), (2, 0.6, 0.30), (0, 0.7, 0.01)]
    outside = [(2, 0.5, 0.50), (2, 0.99, 0.001)]
    noise = [(1, 0.4, 0.90), (1, 0.4, 0.80), (1, 0.4, 0.70)]
    return SimpleNamespace(
        test=(images(test), torch.tensor([0, 1, 1, 2, 2])),
        ood={"8": images(outside), "white_noise": images(noise)},
    )


def test_sure_row_has_the_least_uncertain_input_of_each_label(data):
    sure, _ = select_examples(Oracle(), data)
    assert sure.epistemics.tolist() == pytest.approx([0.001, 0.01, 0.02])
    assert sure.labels.tolist() == [2, 0, 1]
    assert sure.truths == ["a 8", "a 2", "a 1"]
    assert sure.confidences.tolist() == pytest.approx([0.99, 0.7, 0.8])


def test_unsure_row_takes_turns_among_the_groups(data):
    _, unsure = select_examples(Oracle(), data)
    # first the most unsure of test, 8 and noise, then the next of each, then the third
    expected = [0.9, 0.8, 0.7, 0.5, 0.3, 0.1, 0.03, 0.001]
    assert len(unsure) == COUNT
    assert unsure.epistemics.tolist() == pytest.approx(expected)
    assert unsure.truths[:4] == ["noise", "noise", "noise", "a 8"]


def test_images_are_those_of_the_numbers_beside_them(data):
    for shown in select_examples(Oracle(), data):
        assert shown.images[:, 1, 0] == pytest.approx(shown.epistemics)
        assert shown.images[:, 0, 0].astype(int).tolist() == shown.labels.tolist()


def test_stored_examples_come_back(data, tmp_path):
    assert write_examples(tmp_path, Oracle(), data) == tmp_path / "examples.npz"
    for stored, shown in zip(read_examples(tmp_path), select_examples(Oracle(), data), strict=True):
        assert stored.truths == shown.truths
        np.testing.assert_array_equal(stored.images, shown.images)
        np.testing.assert_array_equal(stored.labels, shown.labels)
        np.testing.assert_array_equal(stored.epistemics, shown.epistemics)


def test_inputs_that_are_no_images_are_not_stored(tmp_path):
    data = SimpleNamespace(test=(torch.zeros(3, 5), torch.zeros(3)), ood={})
    assert write_examples(tmp_path, Oracle(), data) is None
    with pytest.raises(BadInput, match="must hold examples"):
        read_examples(tmp_path)


def test_the_picture_shows_the_values(data):
    pytest.importorskip("matplotlib")
    sure, unsure = select_examples(Oracle(), data)
    figure = draw(sure, unsure, "S-HMC∥")
    assert "S-HMC∥" in figure.get_suptitle()
    top, bottom = figure.subfigs
    for row, shown in ((top, sure), (bottom, unsure)):
        panels = [axes for axes in row.axes if axes.axison]
        assert len(panels) == len(shown)
        for index, axes in enumerate(panels):
            np.testing.assert_array_equal(axes.images[0].get_array(), shown.images[index])
            assert axes.get_title() == shown.truths[index]
            caption = axes.get_xlabel()
            assert f"“{shown.labels[index]}”" in caption
            assert f"{shown.confidences[index]:.0%}" in caption
            assert f"H_ep {shown.epistemics[index]:.2f}" in caption
    assert "sure" in top.get_suptitle()
    assert "unsure" in bottom.get_suptitle()


def test_the_picture_is_a_png_of_readable_size(data, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    write_examples(tmp_path, Oracle(), data)
    path = draw_file(tmp_path, tmp_path / "new" / "picture.png", "S-HMC∥")
    height, width, _ = image.imread(path).shape
    assert width > 1000
    assert height > 400


def test_the_run_of_the_method_that_was_named_is_drawn(data, tmp_path, monkeypatch):
    for method, seed in (("map", 0), ("s-hmc", 1), ("s-hmc", 0)):
        folder = tmp_path / "digits" / method / "0a1b2c3d4e5f" / f"seed-{seed}"
        folder.mkdir(parents=True)
        write_examples(folder, Oracle(), data)
    drawn = []
    monkeypatch.setattr(
        "sbmc_studies.figures.sure_unsure.draw_file",
        lambda folder, target, method: drawn.append((folder.parts[-3], folder.name, method)),
    )
    draw_run("digits", tmp_path, tmp_path / "a.png")
    draw_run("digits", tmp_path, tmp_path / "a.png", ["de", "map"])
    assert drawn == [("s-hmc", "seed-0", "S-HMC∥"), ("map", "seed-0", "MAP")]
    with pytest.raises(BadInput, match=r"`sbmc run digits --method de` makes one"):
        draw_run("digits", tmp_path, tmp_path / "a.png", ["de"])
