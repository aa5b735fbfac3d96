"""The target engine: sums in float64, gradients, chunks of any size, and the count of epochs."""

from __future__ import annotations

import pytest
import torch
from targets import target_of
from torch import nn

from sbmc.likelihoods import Categorical, Custom, Gaussian
from sbmc.model.chunks import Chunks, Footprint, choose_chunks
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import anchored_prior

EXAMPLES, PARTICLES = 11, 5


def make_net(dtype=torch.float64):
    torch.manual_seed(1)
    layers = nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    return nn.Sequential(*layers).to(dtype)


def make_examples(dtype=torch.float64):
    noise = torch.Generator().manual_seed(2)
    inputs = torch.randn(EXAMPLES, 1, 6, 6, generator=noise, dtype=torch.float64)
    return Examples(inputs.to(dtype), torch.randint(3, (EXAMPLES,), generator=noise))


def make_target(net, examples, likelihood=None, s=0.25, path="auto", **options):
    space = select_parameters(net)
    anchor = space.flatten(net)
    variance = torch.linspace(0.5, 2, space.dim).to(anchor)
    forward = build_forward(net, space, examples.slice(0, 2)[0], path)
    prior = anchored_prior(anchor, s, variance)
    return target_of(forward, examples, likelihood or Categorical(), prior, **options)


def positions(target, particles=PARTICLES):
    noise = torch.Generator().manual_seed(3)
    return 0.3 * torch.randn(particles, target.dim, generator=noise, dtype=torch.float64).to(
        target.prior.mean
    )


def by_hand(net, examples, target, z):
    """The sum over examples from the module itself."""
    space = select_parameters(net)
    values = []
    for theta in target.prior.mean + target.prior.scale * z:
        space.write(theta, net)
        logits = net(examples.inputs)
        values.append(-nn.functional.cross_entropy(logits, examples.targets, reduction="sum"))
    return torch.stack(values).detach()


@pytest.mark.parametrize("path", ["fused", "vmap", "loop"])
def test_sums_over_examples_not_means(path):
    net, examples = make_net(), make_examples()
    target = make_target(net, examples, path=path)
    z = positions(target)
    value, gradient = target(z)
    assert value.dtype == torch.float64
    assert gradient.shape == z.shape
    torch.testing.assert_close(target.log_likelihood(z), value, rtol=1e-12, atol=0)
    assert target.engine.path == path
    torch.testing.assert_close(value, by_hand(net, examples, target, z), rtol=1e-10, atol=0)


@pytest.mark.parametrize("path", ["fused", "vmap", "loop"])
@pytest.mark.parametrize("likelihood", ["categorical", "gaussian", "custom"])
def test_the_gradient_in_whitened_coordinates_against_finite_differences(path, likelihood):
    net, examples = make_net(), make_examples()
    noise = torch.Generator().manual_seed(5)
    values = torch.randn(EXAMPLES, 3, generator=noise, dtype=torch.float64)
    family, targets = {
        "categorical": (Categorical(), examples.targets),
        "gaussian": (Gaussian(noise_variance=0.4), values),
        "custom": (Custom(lambda o, t: -(o - t).abs().pow(1.5).sum(-1)), values),
    }[likelihood]
    examples = Examples(examples.inputs, targets)
    target = make_target(net, examples, family, path=path, chunks=Chunks(4, 3))
    z = positions(target, 2)
    gradient = target(z).gradient
    step = 1e-5
    shifts = step * torch.eye(target.dim, dtype=torch.float64)
    for row, slope in zip(z, gradient, strict=True):
        up, down = target.log_likelihood(row + shifts), target.log_likelihood(row - shifts)
        torch.testing.assert_close((up - down) / (2 * step), slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("path", ["fused", "vmap", "loop"])
@pytest.mark.parametrize("chunks", [(1, 1), (4, 2), (3, 5), (11, 4), (10, 3), (100, 100)])
def test_chunked_is_whole(chunks, path):
    net, examples = make_net(), make_examples()
    whole = make_target(net, examples, path=path, chunks=Chunks(EXAMPLES, PARTICLES))
    parts = make_target(net, examples, path=path, chunks=Chunks(*chunks))
    z = positions(whole)
    for ours, theirs in zip(parts(z), whole(z), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(parts.log_likelihood(z), whole.log_likelihood(z), rtol=1e-11, atol=0)


def test_epochs_are_counted_where_they_happen():
    target = make_target(make_net(), make_examples(), chunks=Chunks(4, 2))
    assert (target.evaluations.gradient, target.evaluations.forward) == (0, 0)
    target(positions(target, 5))
    target(positions(target, 2))
    target.log_likelihood(positions(target, 3))
    assert (target.evaluations.gradient, target.evaluations.forward) == (7, 3)


class Constant(nn.Module):
    """One parameter per output; the inputs do not matter, but as a factor."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x * self.weight


@pytest.mark.parametrize("chunk", [1, 1024, 200_000])
def test_sums_are_made_in_double_precision(chunk):
    # 2**24 plus many ones: each one alone is lost in single precision.
    examples = 1_025 if chunk == 1 else 131_073
    inputs = torch.ones(examples, 1)
    inputs[0] = 2.0**24
    family = Custom(lambda outputs, targets: outputs.squeeze(-1))
    net = Constant()
    target = make_target(
        net, Examples(inputs, torch.zeros(examples)), family, s=1.0, chunks=Chunks(chunk, 1)
    )
    exact = 2.0**24 + examples - 1
    z = target.prior.to_whitened(torch.ones(1, 1))
    theta = float(target.prior.to_parameters(z))
    assert float(target.log_likelihood(z)) == pytest.approx(exact * theta, abs=1e-3)
    value, gradient = target(z)
    assert float(value) == pytest.approx(exact * theta, abs=1e-3)
    assert gradient.dtype == torch.float32
    if chunk == 1:
        # Across chunks gradients are summed in float64; rounded once, at the end.
        expected = torch.tensor(exact, dtype=torch.float64) * target.prior.scale.double()
        assert float(gradient) == pytest.approx(float(expected), rel=1e-7)


def test_what_does_not_fit_prepared_gives_the_same_numbers(monkeypatch):
    net, examples = make_net(), make_examples()
    kept = make_target(net, examples, chunks=Chunks(4, 2))
    monkeypatch.setattr("sbmc.target.memory_needs.PREPARED_BYTES", 10)
    fresh = make_target(net, examples, chunks=Chunks(4, 2))
    assert kept.engine._ranges.prepared is not None
    assert fresh.engine._ranges.prepared is None
    z = positions(kept)
    for ours, theirs in zip(fresh(z), kept(z), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(fresh.log_likelihood(z), kept.log_likelihood(z))


@pytest.mark.parametrize("path", ["fused", "vmap", "loop"])
def test_the_chunk_rule_depends_on_shapes_alone(path):
    net, examples = make_net(), make_examples()
    chosen = make_target(net, examples, path=path).engine.chunks
    other = Examples(torch.randn_like(examples.inputs), torch.zeros_like(examples.targets))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_()
    again = [make_target(net, other, path=path, s=s).engine.chunks for s in (0.1, 1.0)]
    assert again == [chosen, chosen]


def test_the_measured_footprint_of_a_linear_layer():
    net = nn.Linear(64, 8, bias=False)
    examples = Examples(torch.randn(30, 64), torch.zeros(30, dtype=torch.int64))
    footprint = make_target(net, examples, path="fused").engine._footprint()
    # The inputs once; for each particle the 8 log-probabilities and the label.
    assert footprint.shared == pytest.approx(64 * 4, abs=16)
    assert 8 * 4 <= footprint.own <= 3 * 8 * 4 + 16


@pytest.mark.parametrize(
    ("footprint", "examples", "chunks"),
    [
        (Footprint(0, 1), 10, Chunks(10, 4096, 10)),  # never more than there are, nor too many
        (Footprint(0, 10**9), 1000, Chunks(24, 10, 24)),  # nor too few
        (Footprint(10**6, 1), 10**6, Chunks(24, 256, 24)),
        (Footprint(1000, 1000), 10**6, Chunks(6 * 2**20 // 11_000, 10, 6 * 2**20 // 2_000)),
    ],
)
def test_the_chunk_rule_at_its_limits(footprint, examples, chunks):
    assert choose_chunks(footprint, examples) == chunks


@pytest.mark.parametrize("footprint", [(28_000, 12_500), (100, 9_000), (30_000, 50)])
def test_fewer_particles_take_more_examples_of_the_same_bytes(footprint):
    footprint = Footprint(*footprint)
    chunks = choose_chunks(footprint, 10**6)
    assert chunks.examples_for(chunks.particles) == chunks.examples
    assert chunks.examples_for(1) == chunks.alone
    for n in range(1, chunks.particles + 1):
        exact = 6 * 2**20 / (footprint.shared + n * footprint.own)
        # Both ends are rounded down, by less than one example each.
        assert exact * (1 - 1 / chunks.examples) - 1 < chunks.examples_for(n) <= exact


def test_a_chunk_size_that_is_given_holds_for_any_number_of_particles():
    assert [Chunks(7, 5).examples_for(n) for n in range(1, 6)] == [7] * 5
    assert Chunks(7, 1, 9).examples_for(1) == 7


@pytest.mark.parametrize("particles", [1, 2, 3, 5])
def test_chunks_follow_the_particles_of_the_call(particles, monkeypatch):
    target = make_target(make_net(), make_examples(), chunks=Chunks(2, 3, 8))
    z = positions(target, particles)
    sizes = []
    sums = target.engine._ranges.sums

    def note(theta, inputs, targets):
        sizes.append((len(theta), len(targets)))
        return sums(theta, inputs, targets)

    monkeypatch.setattr(target.engine._ranges, "sums", note)
    whole = make_target(make_net(), make_examples(), chunks=Chunks(EXAMPLES, 5))
    for ours, theirs in zip(target(z), whole(z), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
    expected = {
        1: [(1, 8), (1, 3)],
        2: [(2, 3)] * 3 + [(2, 2)],
        3: [(3, 2)] * 5 + [(3, 1)],
    }
    expected[5] = expected[2] + expected[3]  # as even as can be
    assert sizes == expected[particles]
    with_gradient = list(sizes)
    sizes.clear()
    target.log_likelihood(z)
    assert sizes == with_gradient


def test_single_precision_is_close_to_double():
    single = make_target(make_net(torch.float32), make_examples(torch.float32))
    double = make_target(make_net(), make_examples())
    z = positions(double)
    ours, theirs = single(z.float()), double(z)
    assert ours.gradient.dtype == torch.float32
    torch.testing.assert_close(ours.log_likelihood, theirs.log_likelihood, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.gradient.double(), theirs.gradient, rtol=1e-4, atol=1e-4)


def test_values_that_are_not_finite_are_passed_on_for_their_particle_alone():
    net, examples = make_net(), make_examples()
    target = make_target(net, examples)
    z = positions(target)
    z[1] = torch.nan
    value, gradient = target(z)
    assert torch.isfinite(value).tolist() == [True, False, True, True, True]
    assert torch.isfinite(gradient).all(1).tolist() == [True, False, True, True, True]


def test_the_callers_gradient_mode_does_not_matter():
    target = make_target(make_net(), make_examples())
    z = positions(target)
    expected = target(z)
    with torch.no_grad():
        found = target(z)
    assert torch.equal(found.gradient, expected.gradient)
    assert not found.gradient.requires_grad
    assert not found.log_likelihood.requires_grad


def test_parts_of_a_split_add_up_and_count_for_themselves():
    net, examples = make_net(), make_examples()
    target = make_target(net, examples)
    z = positions(target)
    parts = target.split(3)
    whole = target(z)
    pieces = [part(z) for part in parts]
    values = torch.stack([piece.log_likelihood for piece in pieces])
    gradients = torch.stack([piece.gradient for piece in pieces])
    torch.testing.assert_close(values.sum(0), whole.log_likelihood, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradients.sum(0), whole.gradient, rtol=1e-10, atol=1e-12)
    assert target.evaluations.gradient == len(z)
    # Every third example each, so that data in the order of their classes are split evenly.
    first = make_target(net, Examples(examples.inputs[::3], examples.targets[::3]))
    torch.testing.assert_close(values[0], first(z).log_likelihood, rtol=1e-12, atol=0)
