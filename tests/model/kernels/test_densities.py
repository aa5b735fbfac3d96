"""Likelihoods in C, of all data and of mini-batches, against autograd in float64."""

from __future__ import annotations

import pytest
import torch
from planting import planted
from torch import nn

from sbmc.likelihoods import Bernoulli, Gaussian, MultiLabel, NegativeBinomial, StudentT
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.kernels.choice import choose_kernel, find_batch_kernel
from sbmc.model.kernels.native import available, chain, chain_batches
from sbmc.model.noise import learn_noise
from sbmc.model.parameters import select_parameters
from sbmc.model.predicting import Predictor

ROWS, PARTICLES = 77, 3

pytestmark = pytest.mark.skipif(not available(), reason="needs a C compiler")


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


LABELS = (numbers(ROWS, 3) > 0).long()
CASES = {
    "learned": (Gaussian(), 2, numbers(ROWS, 2)),
    "learned, one output": (Gaussian(), 1, numbers(ROWS)),
    "shared": (Gaussian(noise="shared"), 3, numbers(ROWS, 3)),
    "network": (Gaussian(noise="network"), 4, numbers(ROWS, 2)),
    "student": (StudentT(df=3.0), 2, numbers(ROWS, 2)),
    "student network": (StudentT(noise="network"), 2, numbers(ROWS)),
    "bernoulli": (Bernoulli(), 1, LABELS[:, 0]),
    "labels": (MultiLabel(), 3, LABELS),
}


class Problem:
    """A small network with one of the likelihoods, in float32 for C and in float64 for autograd."""

    def __init__(self, likelihood, outputs, targets, layers=True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, outputs))
        net = net if layers else nn.Linear(4, outputs)
        self.likelihood = likelihood
        space, data = select_parameters(net), Examples(numbers(ROWS, 4, seed=2), targets)
        noise = learn_noise(net, space, likelihood, data)
        if noise is not None:
            net, space = noise.wider_model(), noise.wider_space
        with torch.no_grad():
            checked = likelihood.check(targets, net(data.inputs[:2]))
        self.examples = Examples(data.inputs, checked)
        self.theta = space.flatten(net) + 0.3 * numbers(PARTICLES, space.dim, seed=3)
        self.forward = build_forward(net, space, data.inputs[:2], "fused")
        self.wide = build_forward(net.double(), space, data.inputs[:2].double(), "loop")
        net.float()

    def expected(self, rows):
        """Sums and gradients over some rows, or over a row of an index for each particle."""
        theta = self.theta.double().requires_grad_()
        inputs, targets = self.examples.inputs.double()[rows], self.examples.targets[rows]
        stacked = inputs.ndim == 3
        targets = targets.double() if targets.is_floating_point() else targets
        outputs = self.wide(theta, inputs, stacked=stacked)
        values = self.likelihood.log_prob(outputs, targets, stacked=stacked).sum(-1)
        return values.detach(), torch.autograd.grad(values.sum(), theta)[0]

    def kernel(self):
        return choose_kernel(self.forward, self.likelihood, self.examples, self.theta[0])


@pytest.fixture(params=list(CASES))
def problem(request):
    return Problem(*CASES[request.param])


def agree(ours, theirs):
    for mine, expected in zip(ours, theirs, strict=True):
        scale = float(expected.abs().max())
        torch.testing.assert_close(mine.double(), expected, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize(("start", "end"), [(0, ROWS), (3, 50), (40, 41)])
def test_sums_over_rows_are_those_of_autograd(problem, start, end):
    choice = problem.kernel()
    assert choice.kernel.name == "chain", choice.reason
    prepared = choice.kernel.prepare(problem.examples.inputs, problem.examples.targets)
    expected = problem.expected(slice(start, end))
    agree(choice.kernel(problem.theta, prepared, start, end), expected)
    value, none = choice.kernel(problem.theta, prepared, start, end, gradient=False)
    assert none is None
    agree((value,), expected[:1])


@pytest.mark.parametrize("batch", [1, 5, 16, 40])
def test_sums_over_mini_batches_are_those_of_autograd(problem, batch):
    given = problem.forward, problem.likelihood, problem.examples, problem.theta[0]
    kernel = find_batch_kernel(problem.kernel().kernel, *given)
    assert kernel is not None
    index = torch.randint(ROWS, (PARTICLES, batch), generator=torch.Generator().manual_seed(4))
    factor = torch.linspace(0.5, 1.5, problem.theta.shape[1])
    gradient = torch.empty_like(problem.theta)
    value = kernel(problem.theta, index, factor, gradient)
    expected, slope = problem.expected(index)
    agree((value, gradient), (expected, slope * factor.double()))


@pytest.mark.parametrize("log", [-60.0, -25.0, 25.0, 1e4])
def test_noise_from_any_start_is_that_of_autograd(log):
    problem = Problem(*CASES["learned"])
    problem.theta[:, -2:] = log
    kernel = problem.kernel().kernel
    prepared = kernel.prepare(problem.examples.inputs, problem.examples.targets)
    ours = kernel(problem.theta, prepared, 0, ROWS)
    assert all(torch.isfinite(each).all() for each in ours)
    agree(ours, problem.expected(slice(None)))


def test_one_linear_layer_with_noise_runs_in_c():
    problem = Problem(*CASES["learned"], layers=False)
    assert problem.kernel().kernel.name == "chain"


def test_predictions_in_c_have_the_noise_after_the_outputs():
    problem = Problem(*CASES["shared"])
    inputs = problem.examples.inputs
    predictor = Predictor.build(problem.forward, problem.theta[0], inputs[:2])
    assert predictor.kernel is not None
    parts = [outputs for _, outputs in predictor.outputs(problem.theta, inputs)]
    expected = problem.wide(problem.theta.double(), inputs.double())
    torch.testing.assert_close(torch.cat(parts).double(), expected, rtol=1e-4, atol=1e-5)


def test_a_likelihood_that_c_does_not_have_is_left_to_autograd():
    problem = Problem(NegativeBinomial(), 1, LABELS[:, 0])
    choice = problem.kernel()
    assert choice.kernel is None
    assert "a likelihood that the kernels do not have" in choice.reason


BUGS = [
    ("learned", "0.5f * (square - 1.0f) * bend", "0.5f * square * bend"),
    ("student", "(c->df + 1) * logarithm(tail)", "c->df * logarithm(tail)"),
    ("bernoulli", "(flags)(y - chance)", "(flags)(y + chance)"),
]


@pytest.mark.parametrize(("case", "right", "wrong"), BUGS)
@pytest.mark.parametrize("module", [chain, chain_batches])
def test_a_wrong_density_is_not_used(monkeypatch, tmp_path, case, right, wrong, module):
    with planted(monkeypatch, tmp_path, module, right, wrong):
        problem = Problem(*CASES[case])
        given = problem.forward, problem.likelihood, problem.examples, problem.theta[0]
        kernel = problem.kernel().kernel
        if module is chain:
            assert kernel is None
        else:
            assert find_batch_kernel(kernel, *given) is None
