"""The kernel of a low-rank adjustment gives what autograd gives, and is found where it fits."""

import pytest
import torch
from targets import target_of
from torch import nn

from sbmc.language import LoraHead
from sbmc.likelihoods import Categorical
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.kernels import lowrank
from sbmc.model.kernels.choice import find_kernel
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import AnchoredPrior

CLASSES, FEATURES, RANK, EXAMPLES = 13, 9, 4, 50


def problem(dtype=torch.float64, head=None):
    rng = torch.Generator().manual_seed(0)
    base = torch.randn(CLASSES, FEATURES, generator=rng, dtype=dtype)
    model = LoraHead(base, RANK) if head is None else head(base)
    inputs = torch.randn(EXAMPLES, FEATURES, generator=rng, dtype=dtype)
    labels = torch.randint(CLASSES, (EXAMPLES,), generator=rng)
    space = select_parameters(model)
    theta = torch.randn(3, space.dim, generator=rng, dtype=dtype)
    return build_forward(model, space, inputs), Examples(inputs, labels), theta


def by_autograd(forward, examples, theta):
    theta = theta.clone().requires_grad_()
    values = Categorical().log_prob(forward(theta, examples.inputs), examples.targets).sum(-1)
    return values.detach(), torch.autograd.grad(values.sum(), theta)[0]


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-4)])
def test_value_and_gradient_are_those_of_autograd(monkeypatch, rows, dtype, tolerance):
    monkeypatch.setattr(lowrank, "ROWS", rows)
    forward, examples, theta = problem(dtype)
    kernel = find_kernel(forward, Categorical(), examples, theta[0])
    assert kernel is not None
    assert kernel.name == "low-rank"
    value, gradient = kernel(theta, kernel.prepare(*vars(examples).values()), 0, EXAMPLES)
    expected, slope = by_autograd(forward, examples, theta)
    torch.testing.assert_close(value, expected.double(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(gradient, slope.double(), rtol=tolerance, atol=tolerance)
    alone, nothing = kernel(
        theta, kernel.prepare(*vars(examples).values()), 0, EXAMPLES, gradient=False
    )
    assert nothing is None
    assert torch.equal(alone, value)


def test_a_part_of_the_examples():
    forward, examples, theta = problem()
    kernel = find_kernel(forward, Categorical(), examples, theta[0])
    laid = kernel.prepare(examples.inputs, examples.targets)
    whole = kernel(theta, laid, 0, 50)
    first, second = (kernel(theta, laid, *ends) for ends in ((0, 20), (20, 50)))
    for index in (0, 1):
        torch.testing.assert_close(whole[index], first[index] + second[index])


def test_labels_that_seem_impossible_have_their_value():
    forward, examples, theta = problem(torch.float32)
    theta = 40 * theta  # probabilities far below the smallest float32
    kernel = find_kernel(forward, Categorical(), examples, theta[0])
    value, _ = kernel(theta, kernel.prepare(examples.inputs, examples.targets), 0, EXAMPLES)
    expected, _ = by_autograd(forward, examples, theta)
    assert float(expected.min()) < -1e4
    torch.testing.assert_close(value, expected.double(), rtol=1e-4, atol=1e-2)


def test_what_is_not_finite_is_passed_on():
    forward, examples, theta = problem(torch.float32)
    kernel = find_kernel(forward, Categorical(), examples, theta[0])
    theta[1, 0] = torch.inf
    value, _ = kernel(theta, kernel.prepare(examples.inputs, examples.targets), 0, EXAMPLES)
    assert torch.isfinite(value).tolist() == [True, False, True]


def test_target_uses_it():
    forward, examples, theta = problem()
    scale = torch.full_like(theta[0], 0.5)
    prior = AnchoredPrior(theta[0], scale, theta[0])
    fast, slow = (
        target_of(forward, examples, Categorical(), prior, kernel=k) for k in (True, False)
    )
    assert (fast.engine.kernel, slow.engine.kernel) == ("low-rank", None)
    for ours, theirs in zip(fast(theta[1:]), slow(theta[1:]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


class Other(nn.Module):
    """A sum of two layers that is no adjustment of a frozen one."""

    def __init__(self, base, kind):
        super().__init__()
        self.kind = kind
        self.base = nn.Linear(FEATURES, CLASSES, bias=kind == "bias", dtype=base.dtype)
        self.base.requires_grad_(kind == "trained")
        self.down = nn.Linear(FEATURES, RANK, bias=False, dtype=base.dtype)
        self.up = nn.Linear(RANK, CLASSES, bias=False, dtype=base.dtype)

    def forward(self, x):
        inner = self.down(x).relu() if self.kind == "curved" else self.down(x)
        if self.kind == "doubled":
            return self.base(x) + self.up(inner) * 2
        if self.kind == "minus":
            return self.base(x) - self.up(inner)
        return self.up(inner) + self.base(x)


@pytest.mark.parametrize("kind", ["bias", "trained", "curved", "doubled", "minus"])
def test_other_models_are_left_to_autograd(kind):
    forward, examples, theta = problem(head=lambda base: Other(base, kind))
    assert forward.path == "fused"
    assert find_kernel(forward, Categorical(), examples, theta[0]) is None


def test_factors_may_come_first_in_the_sum():
    forward, examples, theta = problem(head=lambda base: Other(base, "plain"))
    kernel = find_kernel(forward, Categorical(), examples, theta[0])
    assert kernel is not None
    value, gradient = kernel(theta, kernel.prepare(examples.inputs, examples.targets), 0, EXAMPLES)
    expected, slope = by_autograd(forward, examples, theta)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, slope)
