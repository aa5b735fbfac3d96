"""Running sums over particles give what all particles at once give."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from sbmc.checks import BadInput
from sbmc.likelihoods import Categorical, Gaussian
from sbmc.prediction.combining import classification_prediction, regression_prediction
from sbmc.prediction.mixture import FEW_CLASSES, ClassificationSums, Moments, mixed_prediction

PARTICLES = 11


def outputs(examples, classes, dtype=torch.float64):
    noise = torch.Generator().manual_seed(1)
    return 3 * torch.randn(PARTICLES, examples, classes, generator=noise).to(dtype)


def weights():
    drawn = torch.rand(PARTICLES, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return drawn / drawn.sum()


def in_parts(likelihood, values, size):
    parts = torch.arange(PARTICLES).split(size)
    return mixed_prediction(likelihood, ((values[part], weights()[part]) for part in parts))


@pytest.mark.parametrize("size", [1, 4, PARTICLES])
@pytest.mark.parametrize(("examples", "classes"), [(1, 2), (7, 5), (3, 1), (2, FEW_CLASSES + 1)])
def test_classification_in_parts_is_the_whole(examples, classes, size):
    values = outputs(examples, classes)
    ours = in_parts(Categorical(), values, size)
    theirs = classification_prediction(values.log_softmax(-1), weights())
    for field in fields(theirs):
        mine, expected = getattr(ours, field.name), getattr(theirs, field.name)
        if expected is None:
            assert mine is None
        else:
            torch.testing.assert_close(mine, expected, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(ours.features(), theirs.features(), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("size", [1, 4, PARTICLES])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_regression_in_parts_is_the_whole(size, shift):
    values = outputs(7, 2) + shift
    ours = in_parts(Gaussian(noise_variance=0.3), values, size)
    theirs = regression_prediction(values, weights(), 0.3)
    for field in fields(theirs):
        mine, expected = getattr(ours, field.name), getattr(theirs, field.name)
        # Squared deviations of numbers near 1e6 have lost half their digits either way.
        torch.testing.assert_close(mine, expected, rtol=1e-11 if shift == 0 else 1e-8, atol=1e-13)


def test_positions_of_an_example_are_predicted_like_examples():
    values = outputs(6, 5)
    ours = in_parts(Categorical(), values.unflatten(1, (2, 3)), 4)
    theirs = in_parts(Categorical(), values, 4)
    for field in fields(theirs):
        expected = getattr(theirs, field.name)
        if expected is not None:
            torch.testing.assert_close(
                getattr(ours, field.name), expected.unflatten(0, (2, 3)), rtol=1e-12, atol=1e-14
            )


def test_one_particle_has_no_disagreement():
    sums = ClassificationSums()
    sums.add(outputs(5, 4, torch.float32)[:1], torch.ones(1))
    prediction = sums.prediction()
    assert torch.equal(prediction.variance_margin, torch.zeros(5, dtype=torch.float64))
    assert torch.equal(prediction.variance_max_probability, torch.zeros(5, dtype=torch.float64))
    assert float(prediction.epistemic.max()) < 1e-15


def test_a_class_without_probability_has_no_entropy():
    certain = torch.tensor([[[0.0, -torch.inf]]])
    sums = ClassificationSums()
    sums.add(certain, torch.ones(1))
    assert sums.prediction().total.item() == sums.prediction().aleatoric.item() == 0.0


@pytest.mark.parametrize("likelihood", [Categorical(), Gaussian(noise_variance=0.1)])
def test_nan_is_refused_by_particle(likelihood):
    values = outputs(3, 2)
    values[9, 1, 0] = torch.nan
    with pytest.raises(BadInput, match=r"NaN for particles \[9\]"):
        in_parts(likelihood, values, 4)


def test_parts_of_different_means_are_not_averaged_without_their_distance():
    """A planted bug: variances of the parts alone leave out what lies between them."""
    values = torch.tensor([0.0, 0.0, 2.0, 2.0], dtype=torch.float64)
    moments = Moments()
    for part in values.split(2):
        moments.add(part, torch.full((2,), 0.25, dtype=torch.float64))
    assert (moments.mean.item(), moments.variance.item()) == (1.0, 1.0)
