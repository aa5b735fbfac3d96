import pytest
import torch
from targets import target_of
from torch import nn

import sbmc
from sbmc.likelihoods import Categorical, Custom, Gaussian
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import anchored_prior
from sbmc.target import minibatch, target
from sbmc.target.minibatch import MiniBatches

EXAMPLES, PARTICLES = 11, 3


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
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4)), torch.randn(EXAMPLES, 5)


def named():
    return TwoInputs(), {"left": torch.randn(EXAMPLES, 3), "right": torch.randn(EXAMPLES, 2)}


def make_target(make=perceptron, path="auto", likelihood=None):
    model, inputs = make()
    likelihood = likelihood or Categorical()
    if isinstance(likelihood, Categorical):
        targets = torch.randint(4, (EXAMPLES,))
    else:
        targets = torch.randn(EXAMPLES, 4).double()
    examples = Examples(inputs, targets).to(dtype=torch.float64)
    model = model.double()
    space = select_parameters(model)
    forward = build_forward(model, space, examples.inputs, path)
    anchor = space.flatten(model)
    variance = torch.linspace(0.5, 2.0, len(anchor), dtype=torch.float64)
    return target_of(forward, examples, likelihood, anchored_prior(anchor, 0.3, variance))


def positions(whole):
    return torch.randn(PARTICLES, whole.dim, dtype=torch.float64)


def shuffled():
    return torch.stack([torch.randperm(EXAMPLES) for _ in range(PARTICLES)])


def over_a_pass(batches, z, order, size):
    """The estimates of a pass, each by the share of the data it has seen."""
    value, gradient = torch.zeros(PARTICLES).double(), torch.zeros_like(z)
    for index in order.split(size, dim=1):
        found = batches(z, index)
        value += index.shape[1] / EXAMPLES * found.log_likelihood
        gradient += index.shape[1] / EXAMPLES * found.gradient
    return value, gradient


def same(batches, whole, size=4):
    """Whether a pass in batches of `size` adds up to the target on all data."""
    z = positions(whole)
    value, gradient = over_a_pass(batches, z, shuffled(), size)
    full = whole(z)
    return torch.allclose(value, full.log_likelihood, rtol=1e-10, atol=1e-10) and torch.allclose(
        gradient, full.gradient, rtol=1e-9, atol=1e-9
    )


CASES = [
    (convolution, "fused"),
    (convolution, "vmap"),
    (perceptron, "fused"),
    (perceptron, "vmap"),
    (perceptron, "loop"),
    (named, "vmap"),
    (named, "loop"),
]


@pytest.mark.parametrize(("make", "path"), CASES)
@pytest.mark.parametrize("size", [1, 4, 11])
def test_a_pass_adds_up_to_all_data(make, path, size):
    whole = make_target(make, path)
    assert whole.engine.path == path
    # 11 examples in batches of 4: the last has 3, and its own scale.
    assert same(MiniBatches(whole), whole, size)


@pytest.mark.parametrize(
    "likelihood",
    [
        Gaussian(noise_variance=0.4),
        Custom(lambda outputs, targets: -(outputs - targets).abs().sum(-1)),
    ],
    ids=["gaussian", "custom"],
)
def test_other_likelihoods(likelihood):
    whole = make_target(likelihood=likelihood)
    assert same(MiniBatches(whole), whole)


def test_a_batch_is_scaled_by_its_own_size():
    """Against the log likelihood of the chosen examples, by torch alone."""
    model, inputs = perceptron()
    model, inputs, labels = model.double(), inputs.double(), torch.randint(4, (EXAMPLES,))
    space = select_parameters(model)
    anchor = space.flatten(model)
    prior = anchored_prior(anchor, 0.3, torch.ones_like(anchor))
    forward = build_forward(model, space, inputs)
    batches = MiniBatches(target_of(forward, Examples(inputs, labels), Categorical(), prior))
    z = torch.randn(2, len(anchor), dtype=torch.float64)
    index = torch.tensor([[0, 7, 3], [10, 1, 2]])
    found = batches(z, index)
    for particle, chosen in enumerate(index):
        at = z[particle].clone().requires_grad_()
        values = space.split(anchor + 0.3**0.5 * at)
        outputs = torch.func.functional_call(model, values, (inputs[chosen],))
        log_likelihood = -nn.functional.cross_entropy(outputs, labels[chosen], reduction="sum")
        (gradient,) = torch.autograd.grad(log_likelihood, at)
        expected = EXAMPLES / 3 * log_likelihood.detach()
        torch.testing.assert_close(found.log_likelihood[particle], expected)
        torch.testing.assert_close(found.gradient[particle], EXAMPLES / 3 * gradient)


def test_the_mean_over_batches_is_the_whole():
    """All batches of two, each as likely as another: the estimate has no bias."""
    whole = make_target()
    z = positions(whole)
    pairs = torch.combinations(torch.arange(EXAMPLES))
    batches = MiniBatches(whole)
    found = [batches(z, pair.expand(PARTICLES, 2)) for pair in pairs]
    full = whole(z)
    mean = torch.stack([each.gradient for each in found]).mean(0)
    torch.testing.assert_close(mean, full.gradient, rtol=1e-9, atol=1e-9)
    mean = torch.stack([each.log_likelihood for each in found]).mean(0)
    torch.testing.assert_close(mean, full.log_likelihood, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("bytes_of_a_call", [1, 10_000])
def test_pieces_of_a_batch_add_up(monkeypatch, bytes_of_a_call):
    monkeypatch.setattr(minibatch, "BATCH_BYTES", bytes_of_a_call)
    monkeypatch.setattr(minibatch, "SMALLEST_CHUNK", 2)
    whole = make_target(convolution)
    assert same(MiniBatches(whole), whole, 5)


def test_inputs_that_are_not_kept_prepared(monkeypatch):
    monkeypatch.setattr("sbmc.target.memory_needs.PREPARED_BYTES", 0)
    whole = make_target(convolution, "fused")
    batches = MiniBatches(whole)
    assert batches._parts.prepared is None
    assert same(batches, whole)


def test_examples_seen_are_counted_as_epochs():
    whole = make_target()
    batches = MiniBatches(whole)
    assert len(batches) == EXAMPLES
    z, order = positions(whole), shuffled()
    first, second, last = order.split(4, dim=1)
    counts = []
    for index in (first, second, last, first):
        batches(z, index)
        counts.append(whole.evaluations.gradient)
    # 12, 24, 33 and 45 examples of 11 to an epoch.
    assert counts == [1, 2, 3, 4]
    assert whole.evaluations.forward == 0


def test_a_missing_scale_is_caught(monkeypatch):
    """A planted bug: sums over a batch, not scaled by n / |B|."""
    evaluate = MiniBatches.__call__

    def unscaled(self, z, index):
        found = evaluate(self, z, index)
        share = index.shape[1] / EXAMPLES
        return target.Evaluation(share * found.log_likelihood, share * found.gradient)

    whole = make_target()
    assert same(MiniBatches(whole), whole)
    monkeypatch.setattr(MiniBatches, "__call__", unscaled)
    assert not same(MiniBatches(whole), whole)


def test_the_callers_gradient_mode_does_not_matter():
    whole = make_target()
    batches, z, order = MiniBatches(whole), positions(whole), shuffled()
    with torch.no_grad():
        quiet = batches(z, order[:, :4])
    assert torch.equal(quiet.gradient, batches(z, order[:, :4]).gradient)
    assert not quiet.gradient.requires_grad


def test_last_layer_only():
    """Features of the frozen part are made once; batches are taken from them."""
    model, inputs = perceptron()
    data = inputs, torch.randint(4, (EXAMPLES,))
    sampler = sbmc.SGLD(epochs=2, batch_size=4)
    found = sbmc.fit(model, data, parameters="last", sampler=sampler, particles=2, progress=False)
    assert found.positions.shape == (1, 2, 28)
