"""Measured condition numbers against Hessians that are known, or computed whole."""

from __future__ import annotations

import math

import pytest
import torch
from targets import conjugate_regression
from torch import nn
from torch.autograd.functional import hessian
from torch.func import functional_call

import sbmc
from sbmc import BadInput, Gaussian
from sbmc.diagnostics import condition_number
from sbmc.diagnostics.conditioning import DENSE_DIM, extremes
from sbmc.randomness import generator
from sbmc_studies.experiments.networks import paper_cnn


def regression_measured(dim, s, **options):
    problem = conjugate_regression(dim, examples=3 * dim)
    found = condition_number(
        problem.model,
        (problem.inputs, problem.targets),
        s=s,
        prior_variance=problem.prior_variance,
        likelihood=Gaussian(noise_variance=problem.noise_variance),
        **options,
    )
    values = torch.linalg.eigvalsh(problem.inputs.T @ problem.inputs / problem.noise_variance)
    return found, values, s * problem.prior_variance


@pytest.mark.parametrize("dim", [3, DENSE_DIM + 20])
@pytest.mark.parametrize("s", [0.01, 0.3, 1.0])
def test_conjugate_regression_has_the_hessian_of_its_normal_equations(dim, s):
    found, values, variance = regression_measured(dim, s, tolerance=1e-6)
    largest, smallest = 1 + variance * float(values[-1]), 1 + variance * float(values[0])
    assert found.largest == pytest.approx(largest, rel=1e-6)
    assert found.smallest == pytest.approx(smallest, rel=1e-6)
    assert found.condition_number == pytest.approx(largest / smallest, rel=1e-5)
    assert found.likelihood_largest == pytest.approx(float(values[-1]), rel=1e-4)
    assert found.formula == pytest.approx(largest, rel=1e-6)
    assert found.s == s
    assert found.epochs >= 2 * 2 * 3


def test_the_formula_is_right_where_the_data_leave_a_direction_free():
    problem = conjugate_regression(4, examples=3)  # three examples, four weights
    found = condition_number(
        problem.model,
        (problem.inputs, problem.targets),
        s=0.2,
        prior_variance=2.0,
        likelihood=Gaussian(noise_variance=0.5),
    )
    assert found.smallest == pytest.approx(1)
    assert found.condition_number == pytest.approx(found.formula)


def network_and_data():
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 3)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2)
    inputs = torch.randn(30, 4, dtype=torch.float64)
    return net, (inputs, torch.arange(30) % 3)


def whole_hessian(net, data, theta):
    """Hessian of the negative log likelihood, row by row."""
    shapes = {name: p.shape for name, p in net.named_parameters()}

    def loss(flat):
        parts = flat.split([shape.numel() for shape in shapes.values()])
        named = {n: p.view(shape) for (n, shape), p in zip(shapes.items(), parts, strict=True)}
        outputs = functional_call(net, named, data[0])
        return nn.functional.cross_entropy(outputs, data[1], reduction="sum")

    return hessian(loss, theta)


def images_and_labels():
    """A network of the kind that the studies use: convolution, ReLU, pooling."""
    torch.manual_seed(6)
    net = paper_cnn((1, 4, 4), 3).double()
    return net, (torch.rand(20, 1, 4, 4, dtype=torch.float64), torch.arange(20) % 3)


@pytest.mark.parametrize("problem", [network_and_data, images_and_labels])
def test_a_network_has_the_eigenvalues_of_its_whole_hessian(problem):
    net, data = problem()
    theta = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    assert len(theta) > DENSE_DIM  # by Lanczos
    at = theta + 0.3 * torch.randn(len(theta), generator=generator(1), dtype=torch.float64)
    dense = whole_hessian(net, data, at)
    found = condition_number(net, data, s=0.25, prior_variance=0.4, at=at, tolerance=1e-6)
    values = torch.linalg.eigvalsh(torch.eye(len(theta)) + 0.1 * dense)
    assert found.largest == pytest.approx(float(values[-1]), rel=1e-5)
    assert found.smallest == pytest.approx(float(values[0]), abs=1e-5)


def test_variances_that_differ_are_part_of_the_coordinates():
    net, data = network_and_data()
    theta = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    variances = {"weight": 0.3, "bias": 2.0}
    scale = torch.cat(
        [
            torch.full((p.numel(),), math.sqrt(0.5 * variances[name.rpartition(".")[2]]))
            for name, p in net.named_parameters()
        ]
    ).double()
    dense = whole_hessian(net, data, theta)
    found = condition_number(net, data, s=0.5, prior_variance=variances, tolerance=1e-7)
    values = torch.linalg.eigvalsh(torch.eye(len(theta)) + scale[:, None] * dense * scale)
    steepest = float(torch.linalg.eigvalsh(dense)[-1])
    assert found.largest == pytest.approx(float(values[-1]), rel=1e-6)
    assert found.smallest == pytest.approx(float(values[0]), abs=1e-6)
    assert found.likelihood_largest == pytest.approx(steepest, rel=1e-6)
    assert found.formula == pytest.approx(1 + steepest * 0.5 * 2.0, rel=1e-6)
    assert found.largest < found.formula  # with the largest variance it is a bound


def test_a_negative_eigenvalue_is_reported_and_has_no_ratio():
    net, data = network_and_data()
    found = condition_number(net, data, s=1, prior_variance=50.0)
    assert found.smallest < 0
    assert found.condition_number is None
    assert found.as_dict()["condition_number"] is None


def test_only_the_sampled_parameters_count():
    net, data = network_and_data()
    found = condition_number(
        net, data, s=0.1, prior_variance=1.0, parameters="last", tolerance=1e-7
    )
    size = sum(p.numel() for p in net[2].parameters())
    theta = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    block = whole_hessian(net, data, theta)[-size:, -size:]
    values = torch.linalg.eigvalsh(block)
    assert found.largest == pytest.approx(1 + 0.1 * float(values[-1]), rel=1e-6)
    assert found.smallest == pytest.approx(1 + 0.1 * float(values[0]), rel=1e-6)


def test_a_smallest_eigenvalue_near_zero_is_found():
    values = torch.linspace(0, 50, 100, dtype=torch.float64) ** 2
    values[0] = 1e-9
    low, high = extremes(lambda v: v * values, 100, 1e-4, generator(0), values)
    assert low == pytest.approx(0, abs=1e-4)
    assert high == pytest.approx(2500, rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_a_smallest_eigenvalue_among_many_neighbours_is_found(seed):
    # Most directions at the prior, some just below, and the data's far above: a network's spectrum.
    # A tolerance relative to each eigenvalue stops at a neighbour here.
    values = 1 - 0.02 * torch.rand(1000, generator=generator(9), dtype=torch.float64)
    values[:60] = torch.logspace(0.2, math.log10(230), 60, dtype=torch.float64)
    values[60:66] = torch.tensor([0.874, 0.876, 0.9, 0.92, 0.94, 0.95], dtype=torch.float64)
    low, high = extremes(lambda v: v * values, 1000, 1e-3, generator(seed), values)
    assert low == pytest.approx(0.874, abs=1e-3)
    assert high == pytest.approx(230, rel=1e-3)


def test_a_likelihood_without_curvature_leaves_the_prior():
    net = nn.Linear(2, 2)
    data = torch.randn(6, 2), torch.zeros(6)
    found = condition_number(net, data, likelihood=lambda outputs, targets: outputs.sum(-1))
    assert (found.largest, found.smallest, found.condition_number) == (1, 1, 1)


def test_float32_models_are_measured_in_float64_and_left_alone():
    net, data = network_and_data()
    single = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 3))
    single.load_state_dict(net.state_dict())
    before = [p.clone() for p in single.parameters()]
    found = condition_number(single, (data[0].float(), data[1]), s=0.1)
    assert found.largest == pytest.approx(condition_number(net, data, s=0.1).largest, rel=1e-5)
    assert all(torch.equal(p, q) for p, q in zip(single.parameters(), before, strict=True))
    assert all(p.dtype == torch.float32 for p in single.parameters())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"s": 0}, r"`s` must be in \(0, 1\], but got 0."),
        ({"tolerance": 0}, r"`tolerance` must be in \(0, 1\), but got 0."),
        ({"dtype": torch.int64}, "`dtype` must be a floating-point torch.dtype"),
        ({"at": torch.zeros(3)}, r"`at` must be a tensor \(75,\), but got \(3,\)"),
        ({"at": torch.full((75,), math.nan)}, "`at` must be finite"),
        ({"prior_variance": -1.0}, "`prior_variance` must be positive"),
    ],
)
def test_bad_arguments_are_refused(options, words):
    net, data = network_and_data()
    with pytest.raises(BadInput, match=words):
        condition_number(net, data, **options)


def test_targets_that_do_not_fit_are_refused():
    net, data = network_and_data()
    with pytest.raises(BadInput, match="class labels below the model's 3 outputs"):
        condition_number(net, (data[0], data[1] + 3))
    with pytest.raises(BadInput, match="`data`"):
        sbmc.diagnostics.condition_number(net, None)
