"""The diagonal of the Fisher information: against dense computations in float64, on every path."""

from __future__ import annotations

import sys

import pytest
import torch
from targets import target_of
from torch import nn
from torch.func import functional_call, jacrev

import sbmc.target.curvature
from sbmc import BadInput, fit
from sbmc.likelihoods import Categorical, Custom, Gaussian
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.target.curvature import diagonal_fisher, has_information

EXAMPLES = 9
NOISE = 0.3


class TwoInputs(nn.Module):
    """A model that takes its inputs by name."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(2, 4)

    def forward(self, left, right):
        return (self.first(left) * self.second(right)).tanh()


def convolution():
    layers = nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(8, 4)), torch.randn(EXAMPLES, 1, 4, 4)


def perceptron():
    layers = nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 4)
    return nn.Sequential(*layers), torch.randn(EXAMPLES, 5)


def named():
    return TwoInputs(), {"left": torch.randn(EXAMPLES, 3), "right": torch.randn(EXAMPLES, 2)}


def linear():
    return nn.Linear(3, 4), torch.randn(EXAMPLES, 3)


def make_target(make, likelihood=None, path="auto", power=1.0):
    torch.manual_seed(5)
    model, inputs = make()
    model = model.double().eval()
    likelihood = likelihood or Categorical()
    targets = torch.randint(4, (EXAMPLES,))
    if isinstance(likelihood, Gaussian):
        targets = torch.randn(EXAMPLES, 4)
    examples = Examples(inputs, targets).to(dtype=torch.float64)
    space = select_parameters(model)
    forward = build_forward(model, space, examples.inputs, path)
    theta = space.flatten(model)
    prior = AnchoredPrior(theta, torch.ones_like(theta), theta)
    return model, space, target_of(forward, examples, likelihood, prior, power=power)


def outputs_of(model, space, examples):
    """Outputs as a function of the flat vector, by the module itself."""

    def outputs(theta):
        given = examples.inputs
        arguments, keywords = ((), given) if isinstance(given, dict) else ((given,), {})
        return functional_call(model, space.split(theta), arguments, keywords)

    return outputs


def dense(model, space, target, likelihood):
    """Diagonal of Σ_i J_iᵀ H_i J_i, with H the Hessian of −log p in the outputs."""
    outputs = outputs_of(model, space, target.engine.parts().examples)
    theta = space.flatten(model)
    jacobian = jacrev(outputs)(theta)  # (examples, outputs, dim)
    if isinstance(likelihood, Gaussian):
        hessian = torch.eye(4).double().expand(EXAMPLES, 4, 4) / likelihood.noise_variance
    else:
        p = outputs(theta).softmax(-1).detach()
        hessian = torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)
    return torch.einsum("nkd,nkl,nld->d", jacobian, hessian, jacobian).detach()


# The fused path takes one input.
WAYS = [
    (make, path)
    for make in (convolution, perceptron, named)
    for path in ("fused", "vmap", "loop")
    if (make, path) != (named, "fused")
]


@pytest.mark.parametrize("likelihood", [Categorical(), Gaussian(noise_variance=NOISE)])
@pytest.mark.parametrize(("make", "path"), WAYS)
def test_it_is_the_dense_gauss_newton_diagonal(make, path, likelihood):
    model, space, target = make_target(make, likelihood, path)
    found = diagonal_fisher(target.engine.parts(), space.flatten(model))
    expected = dense(model, space, target, likelihood)
    torch.testing.assert_close(found.diagonal, expected, rtol=1e-10, atol=1e-12)
    assert found.diagonal.dtype == torch.float64
    assert found.epochs == 4
    assert float(expected.max()) > 1e-2


def test_it_is_the_variance_of_the_score_under_the_models_own_predictions():
    model, space, target = make_target(perceptron)
    theta = space.flatten(model)
    outputs = outputs_of(model, space, target.engine.parts().examples)

    def score(labels):
        logs = Categorical().log_prob(outputs(theta_free), labels)
        return torch.stack(
            [torch.autograd.grad(value, theta_free, retain_graph=True)[0] for value in logs]
        )

    theta_free = theta.clone().requires_grad_()
    chances = outputs(theta).softmax(-1).detach()
    expected = sum(
        (chances[:, c : c + 1] * score(torch.full((EXAMPLES,), c)).square()).sum(0)
        for c in range(4)
    )
    found = diagonal_fisher(target.engine.parts(), theta).diagonal
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    # The labels that were observed give another matrix, the empirical one.
    empirical = score(target.engine.parts().examples.targets).square().sum(0)
    assert not torch.allclose(found, empirical, rtol=0.1)


@pytest.mark.parametrize("likelihood", [Categorical(), Gaussian(noise_variance=NOISE)])
def test_for_a_linear_model_it_is_the_hessian(likelihood):
    model, space, target = make_target(linear, likelihood)
    theta = space.flatten(model)
    examples = target.engine.parts().examples
    outputs = outputs_of(model, space, examples)

    def loss(vector):
        return -likelihood.log_prob(outputs(vector), examples.targets).sum()

    hessian = torch.autograd.functional.hessian(loss, theta)
    found = diagonal_fisher(target.engine.parts(), theta).diagonal
    torch.testing.assert_close(found, hessian.diagonal(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("room", [1, 20_000])
@pytest.mark.parametrize("kept", [True, False])
def test_chunks_of_any_size_give_the_same(monkeypatch, room, kept):
    if not kept:
        monkeypatch.setattr("sbmc.target.memory_needs.PREPARED_BYTES", 0)
    model, space, target = make_target(convolution)
    assert (target.engine.parts().prepared is None) != kept
    theta = space.flatten(model)
    whole = diagonal_fisher(target.engine.parts(), theta).diagonal
    sizes = []
    add = sbmc.target.curvature._add_chunk

    def watched(total, parts, theta, inputs, weights):
        sizes.append(len(inputs))
        return add(total, parts, theta, inputs, weights)

    monkeypatch.setattr(sbmc.target.curvature, "_add_chunk", watched)
    monkeypatch.setattr(sbmc.target.curvature, "CURVATURE_BYTES", room)
    found = diagonal_fisher(target.engine.parts(), theta).diagonal
    assert sum(sizes) == EXAMPLES
    assert (max(sizes) == 1) == (room == 1)
    assert len(sizes) > 1
    torch.testing.assert_close(found, whole, rtol=1e-12, atol=1e-14)


def test_neither_power_nor_gradient_mode_nor_where_the_target_is_anchored_matters():
    model, space, target = make_target(perceptron)
    theta = space.flatten(model) + 0.1
    plain = diagonal_fisher(target.engine.parts(), theta).diagonal
    space.write(theta, model)
    expected = dense(model, space, target, Categorical())
    torch.testing.assert_close(plain, expected, rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        quiet = diagonal_fisher(
            make_target(perceptron, power=0.5)[2].engine.parts(), theta
        ).diagonal
    assert torch.equal(quiet, plain)


def test_a_class_that_is_masked_tells_nothing():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 4)

        def forward(self, x):
            mask = torch.tensor([0.0, 0.0, 0.0, -torch.inf], dtype=x.dtype)
            return self.fc(x) + mask

    model, space, target = make_target(lambda: (Masked(), torch.randn(EXAMPLES, 3)))
    found = space.split(diagonal_fisher(target.engine.parts(), space.flatten(model)).diagonal)
    inputs = target.engine.parts().examples.inputs
    p = (inputs @ model.fc.weight[:3].T + model.fc.bias[:3]).softmax(-1)
    expected = ((p - p.square()).T @ inputs.square()).detach()
    torch.testing.assert_close(found["fc.weight"][:3], expected)
    assert torch.equal(found["fc.weight"][3], torch.zeros(3).double())


@pytest.mark.parametrize("bug", ["equal chances", "squared sums"])
def test_planted_bugs_are_caught(monkeypatch, bug):
    model, space, target = make_target(perceptron)
    if bug == "equal chances":

        def equal_chances(likelihood, outputs):
            logs = outputs.log_softmax(-1)
            return logs, torch.full_like(logs, 0.25).detach()

        monkeypatch.setattr(Categorical, "fisher", equal_chances)
        found = diagonal_fisher(target.engine.parts(), space.flatten(model)).diagonal
    else:
        found = target(torch.zeros(1, space.dim).double()).gradient[0].square()
    expected = dense(model, space, target, Categorical())
    assert not torch.allclose(found, expected, rtol=1e-2)


def test_a_likelihood_of_the_users_own_is_refused():
    own = Custom(lambda outputs, targets: -(outputs.sum(-1) ** 2))
    assert not has_information(own)
    assert has_information(Categorical())
    model, space, target = make_target(linear)
    parts = target.engine.parts()._replace(likelihood=own)
    words = "`likelihood` must be one whose Fisher information is known, but got custom"
    with pytest.raises(BadInput, match=words):
        diagonal_fisher(parts, space.flatten(model))


def test_the_final_layer_alone():
    """Sampled alone, the layer sees features: its information is its part of the whole one's."""
    model, space, target = make_target(perceptron)
    whole = diagonal_fisher(target.engine.parts(), space.flatten(model)).diagonal
    examples = target.engine.parts().examples
    seen = []
    original = sbmc.target.curvature.diagonal_fisher

    def watched(parts, theta):
        seen.append(original(parts, theta))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        # As an attribute of the package, `fit` is the function.
        patch.setattr(sys.modules["sbmc.fitting.preparation"], "diagonal_fisher", watched)
        posterior = fit(
            model,
            (examples.inputs, examples.targets),
            parameters="last",
            prior=sbmc.Prior(covariance="laplace"),
            sampler=sbmc.HMC(steps=1, leapfrog=1, step_size=0.1),
            particles=2,
        )
    last = whole[-len(seen[0].diagonal) :]
    torch.testing.assert_close(seen[0].diagonal, last, rtol=1e-10, atol=1e-12)
    assert posterior.settings["prior_epochs"] == posterior.cost.prior_epochs == 4
