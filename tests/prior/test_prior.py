"""The anchored prior: its two limits, its jump, its rules, its variances and its coordinates."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Normal

from sbmc.checks import BadInput
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import (
    anchored_prior,
    factor_prior,
    laplace_variance,
    resolve_variance,
    split_prior,
)

ANCHOR = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
VARIANCE = torch.tensor([0.1, 1.0, 4.0], dtype=torch.float64)


def test_s_of_one_is_the_original_prior_to_the_bit():
    prior = anchored_prior(ANCHOR, 1.0, VARIANCE)
    assert torch.equal(prior.mean, torch.zeros(3, dtype=torch.float64))
    assert torch.equal(prior.scale, VARIANCE.sqrt())


@pytest.mark.parametrize("s", [1e-6, 0.1, 0.25, math.nextafter(0.5, 0)])
def test_below_one_half_it_is_centred_on_the_anchor(s):
    prior = anchored_prior(ANCHOR, s, VARIANCE)
    assert torch.equal(prior.mean, ANCHOR)
    torch.testing.assert_close(prior.scale.square(), s * VARIANCE)


@pytest.mark.parametrize("s", [0.5, 0.75, 1.0])
def test_from_one_half_on_it_is_centred_on_zero(s):
    prior = anchored_prior(ANCHOR, s, VARIANCE)
    assert torch.equal(prior.mean.abs(), torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(prior.scale.square(), s * VARIANCE)


def test_small_s_tends_to_the_anchor():
    prior = anchored_prior(ANCHOR, 1e-12, VARIANCE)
    theta = prior.to_parameters(prior.sample(100, torch.Generator().manual_seed(0)))
    torch.testing.assert_close(theta, ANCHOR.expand(100, 3), rtol=0, atol=1e-4)


def test_rules_are_replaceable():
    prior = anchored_prior(
        ANCHOR,
        0.7,
        VARIANCE,
        alpha=lambda s: 1 - s,
        covariance=lambda s, variance: s**2 * variance,
    )
    torch.testing.assert_close(prior.mean, 0.3 * ANCHOR)
    torch.testing.assert_close(prior.scale, 0.7 * VARIANCE.sqrt())
    constant = anchored_prior(ANCHOR, 0.7, VARIANCE, covariance=lambda s, variance: 4.0)
    assert constant.scale.tolist() == [2.0] * 3


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"alpha": lambda s: math.nan}, "`alpha` must be a rule with finite values, but got nan."),
        (
            {"covariance": lambda s, v: v - 1},
            "`covariance` must be a rule with positive, finite variances, but got -0.9.",
        ),
        ({"covariance": lambda s, v: v * math.inf}, "positive, finite variances, but got inf."),
        (
            {"covariance": lambda s, v: v[:2]},
            "must be a rule with one variance for each of the 3 parameters, but got (2,).",
        ),
    ],
)
def test_rules_that_are_no_use(rules, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        anchored_prior(ANCHOR, 0.3, VARIANCE, **rules)


@pytest.mark.parametrize("s", [0, -0.1, 1.1, math.nan, "1", None])
def test_s_outside_the_range(s):
    with pytest.raises(BadInput, match=re.escape("`s` must be in (0, 1] for a prior that can be")):
        anchored_prior(ANCHOR, s, VARIANCE)


@pytest.mark.parametrize("s", [0.2, 1.0])
def test_whitening_there_and_back(s):
    prior = anchored_prior(ANCHOR, s, VARIANCE)
    theta = torch.randn(4, 5, 3, dtype=torch.float64)
    torch.testing.assert_close(prior.to_parameters(prior.to_whitened(theta)), theta)
    positions = torch.randn(4, 5, 3, dtype=torch.float64)
    torch.testing.assert_close(prior.to_whitened(prior.to_parameters(positions)), positions)


@pytest.mark.parametrize("s", [0.2, 0.6, 1.0])
def test_the_density_in_z_is_that_in_theta_times_the_jacobian(s):
    prior = anchored_prior(ANCHOR, s, VARIANCE)
    positions = torch.randn(6, 3, dtype=torch.float64)
    theta = prior.to_parameters(positions)
    centre = ANCHOR if s < 0.5 else torch.zeros(3, dtype=torch.float64)
    in_theta = Normal(centre, (s * VARIANCE).sqrt()).log_prob(theta).sum(-1)
    in_z = -positions.square().sum(-1) / 2 - 3 / 2 * math.log(2 * math.pi)
    jacobian = (s * VARIANCE).sqrt().log().sum()
    torch.testing.assert_close(in_theta + jacobian, in_z)


INFORMATION = torch.tensor([0.0, 5.0, 1e6], dtype=torch.float64)


@pytest.mark.parametrize("f", [0.01, 0.3, 20.0])
def test_a_gaussian_factor_multiplies_the_original_prior(f):
    prior = factor_prior(ANCHOR, f, VARIANCE)
    torch.testing.assert_close(prior.mean, VARIANCE / (f + VARIANCE) * ANCHOR)
    torch.testing.assert_close(prior.scale.square(), VARIANCE * f / (VARIANCE + f))
    assert prior.anchor is ANCHOR
    # The product of the two densities, up to the constant that it has at the mean.
    theta = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def product(at):
        return Normal(0, VARIANCE.sqrt()).log_prob(at) + Normal(ANCHOR, f**0.5).log_prob(at)

    found = Normal(prior.mean, prior.scale)
    ours = found.log_prob(theta) - found.log_prob(prior.mean)
    torch.testing.assert_close(ours, product(theta) - product(prior.mean))


def test_the_factors_two_limits():
    near, far = (factor_prior(ANCHOR, f, VARIANCE) for f in (1e-12, 1e12))
    torch.testing.assert_close(near.mean, ANCHOR)
    torch.testing.assert_close(near.scale, torch.full((3,), 1e-6).double())
    torch.testing.assert_close(far.mean, torch.zeros(3).double(), rtol=0, atol=1e-10)
    torch.testing.assert_close(far.scale, VARIANCE.sqrt())


def test_the_two_limits_of_the_laplace_rule():
    assert torch.equal(laplace_variance(1.0, VARIANCE, INFORMATION), VARIANCE)
    laplace = 1 / (INFORMATION + 1 / VARIANCE)
    torch.testing.assert_close(laplace_variance(1e-9, VARIANCE, INFORMATION), 1e-9 * laplace)
    # Where the data say nothing, it is the linear rule.
    torch.testing.assert_close(
        laplace_variance(0.3, VARIANCE, torch.zeros(3).double()), 0.3 * VARIANCE
    )


@pytest.mark.parametrize("a", [0.01, 0.5, 0.99])
def test_a_split_is_the_laplace_approximation_of_its_share(a):
    prior = split_prior(ANCHOR, a, VARIANCE, INFORMATION)
    assert torch.equal(prior.mean, ANCHOR)
    torch.testing.assert_close(1 / prior.scale.square(), a * INFORMATION + 1 / (VARIANCE / a))


@pytest.mark.parametrize("heat", [0.25, 1.0, 3.0])
def test_a_tempered_prior_is_the_prior_to_a_power(heat):
    prior = anchored_prior(ANCHOR, 0.2, VARIANCE)
    found = prior.tempered(heat)
    theta = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    before, after = (p.to_whitened(theta).square().sum(-1) for p in (prior, found))
    torch.testing.assert_close(after, before / heat)
    assert found.mean is prior.mean
    if heat == 1:
        assert torch.equal(found.scale, prior.scale)


@pytest.mark.parametrize("f", [0, -1.0, math.nan, math.inf, "1", None])
def test_factors_that_are_refused(f):
    with pytest.raises(BadInput, match="`factor_variance` must be positive and finite, but got"):
        factor_prior(ANCHOR, f, VARIANCE)


@pytest.mark.parametrize("a", [0, 1, -0.5, math.nan, "0.5", None])
def test_splits_that_are_refused(a):
    with pytest.raises(BadInput, match=re.escape("`split` must be in (0, 1), but got")):
        split_prior(ANCHOR, a, VARIANCE, INFORMATION)


def test_samples_come_from_the_generator_alone():
    prior = anchored_prior(ANCHOR, 0.2, VARIANCE)
    first = prior.sample(4, torch.Generator().manual_seed(5))
    torch.manual_seed(99)
    assert torch.equal(first, prior.sample(4, torch.Generator().manual_seed(5)))
    assert first.shape == (4, 3)
    assert first.dtype == torch.float64


NET = nn.Sequential(*(nn.Linear(1, 1) for _ in range(12)))
SPACE = select_parameters(NET, r"^(1|11)\.")  # 1.weight, 1.bias, 11.weight, 11.bias


def resolved(variance):
    return resolve_variance(variance, SPACE, torch.float64).tolist()


@pytest.mark.parametrize(
    ("variance", "expected"),
    [
        (2, [2, 2, 2, 2]),
        (0.5, [0.5] * 4),
        (np.float32(0.5), [0.5] * 4),
        (torch.tensor(0.5), [0.5] * 4),
        (torch.tensor([1.0, 2.0, 3.0, 4.0]), [1, 2, 3, 4]),
        ({"weight": 1, "bias": 2.0}, [1, 2, 1, 2]),
        ({"bias": 2.0, "": 1}, [1, 2, 1, 2]),  # the first that matches holds
        ({"": 1, "bias": 2.0}, [1, 1, 1, 1]),
        # A whole name wins, though "1.weight" is also found in "11.weight".
        ({"1.weight": 3, "11.weight": 4, "bias": torch.tensor([2.0])}, [3, 2, 4, 2]),
        ({r"^11": 7, r"^1\.": torch.tensor(5.0)}, [5, 5, 7, 7]),
    ],
)
def test_forms_of_the_variance(variance, expected):
    assert resolved(variance) == expected


def test_a_tensor_for_a_parameter_keeps_its_shape():
    space = select_parameters(nn.Linear(2, 2))
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert resolve_variance({"weight": values, "bias": 5}, space, torch.float32).tolist() == [
        1,
        2,
        3,
        4,
        5,
        5,
    ]


@pytest.mark.parametrize(
    ("variance", "words"),
    [
        (0, "`prior_variance` must be positive and finite, but got 0.0."),
        (-1.5, "`prior_variance` must be positive and finite, but got -1.5."),
        (math.nan, "must be positive and finite, but got nan."),
        (math.inf, "must be positive and finite, but got inf."),
        ({"weight": 1, "bias": -2}, "must be positive and finite, but got -2.0."),
        (torch.tensor([1.0, 1.0, 0.0, 1.0]), "must be positive and finite, but got 0.0."),
        (torch.ones(3), "`prior_variance` must be of length 4, but got 3."),
        (torch.ones(2, 2), "a mapping or a tensor (4,), but got a Tensor of shape (2, 2)"),
        ("1", "must be a number, a mapping or a tensor (4,), but got '1'."),
        (True, "must be a number, a mapping or a tensor (4,), but got True."),
        (None, "must be a number, a mapping or a tensor (4,), but got None."),
        ({"weight": 1}, "but got ['weight'], none of which matches '1.bias'."),
        ({"weight": 1, "": 1, "wieght": 2}, "each match a sampled parameter"),
        ({"weight": "1", "": 1}, "must be a number or a tensor for '1.weight', but got '1'."),
        ({"weight": torch.ones(3), "": 1}, "must be of shape (1, 1) for '1.weight', but got (3,)."),
        ({"[": 1}, "must have names or regular expressions as keys, but got '['"),
    ],
)
def test_variances_that_are_refused(variance, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        resolved(variance)
