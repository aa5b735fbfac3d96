"""Log likelihoods against torch.distributions, and the targets and models they refuse."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from torch import distributions

from sbmc.checks import BadInput
from sbmc.likelihoods import Categorical, Custom, Gaussian, as_likelihood
from sbmc.model.data import as_examples

PARTICLES, EXAMPLES, OUTPUTS = 4, 5, 3
LABELS = torch.tensor([0, 2, 1, 1, 0])
VALUES = torch.randn(EXAMPLES, OUTPUTS, generator=torch.Generator().manual_seed(1)).double()


@pytest.fixture
def outputs():
    noise = torch.Generator().manual_seed(2)
    return 3 * torch.randn(PARTICLES, EXAMPLES, OUTPUTS, generator=noise, dtype=torch.float64)


def squares(outputs, targets):
    return -(outputs - targets).square().sum(-1)


def reference_categorical(outputs, targets):
    return distributions.Categorical(logits=outputs).log_prob(targets)


def reference_gaussian(outputs, targets):
    return distributions.Normal(outputs, math.sqrt(0.3)).log_prob(targets).sum(-1)


CASES = [
    (Categorical(), reference_categorical, LABELS),
    (Gaussian(noise_variance=0.3), reference_gaussian, VALUES),
    (Custom(squares), squares, VALUES),
]


@pytest.mark.parametrize(("likelihood", "reference", "targets"), CASES)
def test_shared_targets(likelihood, reference, targets, outputs):
    values = likelihood.log_prob(outputs, targets)
    assert values.shape == (PARTICLES, EXAMPLES)
    torch.testing.assert_close(values, reference(outputs, targets))


@pytest.mark.parametrize(("likelihood", "reference", "targets"), CASES)
def test_stacked_targets_go_with_their_particles(likelihood, reference, targets, outputs):
    stacked = torch.stack([targets.roll(shift, 0) for shift in range(PARTICLES)])
    values = likelihood.log_prob(outputs, stacked, stacked=True)
    each = [reference(o, t) for o, t in zip(outputs, stacked, strict=True)]
    torch.testing.assert_close(values, torch.stack(each))


@pytest.mark.parametrize(("likelihood", "reference", "targets"), CASES)
def test_as_many_particles_as_examples_are_not_mixed_up(likelihood, reference, targets):
    outputs = torch.randn(EXAMPLES, EXAMPLES, OUTPUTS, dtype=torch.float64)
    values = likelihood.log_prob(outputs, targets)
    torch.testing.assert_close(values, torch.stack([reference(o, targets) for o in outputs]))


@pytest.mark.parametrize(("likelihood", "reference", "targets"), CASES[:2])
def test_the_distribution_has_the_log_likelihood_of_a_row(likelihood, reference, targets, outputs):
    distribution = likelihood.distribution(outputs)
    assert distribution.batch_shape == (PARTICLES, EXAMPLES)
    assert distribution.event_shape == targets.shape[1:]
    torch.testing.assert_close(distribution.log_prob(targets), reference(outputs, targets))


def test_a_log_likelihood_alone_has_no_distribution(outputs):
    with pytest.raises(BadInput, match=re.escape("sbmc.Likelihood.of(function) takes one")):
        Custom(squares).distribution(outputs)


def test_categorical_is_stable_for_huge_outputs():
    outputs = torch.tensor([[[1e4, 0.0], [-1e4, 0.0]]])
    assert Categorical().log_prob(outputs, torch.tensor([0, 0])).tolist() == [[0.0, -1e4]]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.uint16])
def test_labels_of_any_integer_type(dtype):
    checked = Categorical().check(LABELS.to(dtype), torch.zeros(2, OUTPUTS))
    assert checked.dtype == torch.int64
    assert torch.equal(checked, LABELS)


@pytest.mark.parametrize(
    ("targets", "outputs", "words"),
    [
        (LABELS.double(), (2, 3), "`targets` must be integer class labels, but got dtype torch.f"),
        (
            LABELS.bool(),
            (2, 3),
            "`targets` must be integer class labels, but got dtype torch.bool; targets.long()",
        ),
        (
            LABELS[:, None],
            (2, 3),
            "`targets` must be of shape (examples,), but got (5, 1); targets[:, 0]",
        ),
        (LABELS - 1, (2, 3), "`targets` must be class labels of at least 0, but got -1."),
        (LABELS, (2, 2), "`targets` must be class labels below the model's 2 outputs, but got l"),
        (LABELS, (2, 1), "`model` must be a network with outputs (examples, classes) and two or"),
        (LABELS, (2,), "and two or more classes, but got outputs of shape (2,)."),
        (LABELS, (2, 7, 3), "and two or more classes, but got outputs of shape (2, 7, 3)."),
    ],
)
def test_categorical_refusals(targets, outputs, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        Categorical().check(targets, torch.zeros(outputs))


def test_labels_of_the_wrong_length_are_refused_with_the_data():
    with pytest.raises(
        BadInput, match=re.escape("`data targets` must be as many as the inputs (4)")
    ):
        as_examples((torch.zeros(4, 2), LABELS))


def test_gaussian_targets_take_the_shape_and_type_of_the_outputs():
    likelihood = Gaussian(noise_variance=1)
    checked = likelihood.check(torch.arange(4), torch.zeros(2, 1, dtype=torch.float64))
    assert checked.shape == (4, 1)
    assert checked.dtype == torch.float64
    assert likelihood.check(torch.zeros(4, 3), torch.zeros(2, 3)).shape == (4, 3)


@pytest.mark.parametrize(
    ("targets", "outputs", "words"),
    [
        (
            (4,),
            (2, 3),
            "`targets` must be of shape (examples, 3) like the model's outputs, but got",
        ),
        ((4, 2), (2, 3), "like the model's outputs, but got (4, 2)."),
        ((4, 1, 1), (2, 1), "like the model's outputs, but got (4, 1, 1)."),
        ((4,), (2,), "`model` must be a network with outputs (examples, outputs), but got outputs"),
    ],
)
def test_gaussian_refusals(targets, outputs, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        Gaussian(noise_variance=1.0).check(torch.zeros(targets), torch.zeros(outputs))


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "1", True])
def test_noise_variance_is_positive_and_finite(value):
    words = f"`noise_variance` must be positive and finite, or None to learn it, but got {value!r}."
    with pytest.raises(BadInput, match=re.escape(words)):
        Gaussian(noise_variance=value)


def test_numbers_of_other_libraries_are_numbers():
    assert type(Gaussian(noise_variance=np.float32(0.5)).noise_variance) is float


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda outputs, targets: outputs.mean(),
            "`likelihood` must be a function that returns one value per example, but got shape ().",
        ),
        (lambda outputs, targets: outputs, "one value per example, but got shape (2, 3)."),
        (lambda outputs, targets: 1.0, "one value per example, but got 1.0."),
        (
            lambda outputs, targets: outputs.detach().sum(-1),
            "must be a function that is differentiable in the outputs, but got values without a",
        ),
    ],
)
def test_custom_refusals(function, words):
    with pytest.raises(BadInput, match=re.escape(words)), torch.no_grad():
        Custom(function).check(torch.zeros(5), torch.zeros(2, 3))


@pytest.mark.parametrize("shape", [(2, 1), (2, 3, 4)])
def test_outputs_that_are_no_logits_of_classes_are_refused_at_once(shape):
    own = Custom(lambda outputs, targets: outputs.flatten(1).sum(-1), classification=True)
    words = (
        f"`classification` must be False unless .*, but got True for outputs of shape \\({shape[0]}"
    )
    with pytest.raises(BadInput, match=words):
        own.check(torch.zeros(5), torch.zeros(shape))


def test_a_log_likelihood_says_that_it_does_not_tell_the_noise(caplog):
    with caplog.at_level("INFO", logger="sbmc"):
        Custom(squares).check(torch.zeros(5, 3), torch.zeros(2, 3))
    assert "does not tell the noise" in caplog.text


def test_custom_leaves_the_targets_alone():
    targets = torch.randn(5, 3)
    assert Custom(squares).check(targets, torch.zeros(2, 3)) is targets


def test_the_forms_that_a_likelihood_is_given_in():
    assert as_likelihood("categorical") == Categorical()
    gaussian = Gaussian(noise_variance=2.0)
    assert as_likelihood(gaussian) is gaussian
    assert as_likelihood(squares) == Custom(squares)
    assert (Categorical().classification, gaussian.classification) == (True, False)
    assert Custom(squares, classification=True).classification


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("categoricl", "but got 'categoricl'. Did you mean 'categorical'?"),
        ("gauss", "`likelihood` must be one of 'categorical', 'bernoulli', "),
        (3, "or a callable, but got 3."),
        (Gaussian, "or a callable, but got the class Gaussian."),
    ],
)
def test_unknown_likelihoods(spec, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        as_likelihood(spec)
