"""Kernels give what autograd gives, on odd shapes; a wrong one is found out and not used."""

from __future__ import annotations

import logging
import pickle

import pytest
import torch
from chain_networks import (
    CHAINS,
    CLASSES,
    FUNCTIONS,
    LIKELIHOODS,
    VECTORS,
    make_target,
    needs_compiler,
    positions,
)
from planting import planted
from targets import target_of
from torch import nn

from sbmc.likelihoods import Categorical, Custom, Gaussian
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.kernels import choice as kernels
from sbmc.model.kernels.linear import LinearKernel
from sbmc.model.kernels.native import chain
from sbmc.model.parameters import select_parameters
from sbmc.target.engine import Chunks


def assert_equal(name, examples, particles, likelihood, dtype=torch.float32, kernel="chain"):
    """Against autograd in float64: what both are to give."""
    ours = make_target(name, examples, likelihood, dtype)
    assert ours.engine.kernel == kernel
    exact = make_target(name, examples, likelihood, dtype, kernel=False)
    assert exact.engine.kernel is None
    z = positions(ours, particles)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    for mine, theirs in zip(ours(z), exact(z), strict=True):
        assert mine.dtype == theirs.dtype
        scale = float(theirs.abs().max())
        assert float((mine - theirs).abs().max()) <= tolerance * scale
    torch.testing.assert_close(ours.log_likelihood(z), ours(z).log_likelihood, rtol=1e-6, atol=1e-6)


@needs_compiler
@pytest.mark.parametrize(("examples", "particles"), [(1, 1), (37, 3), (131, 2)])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_in_c_gives_what_autograd_gives(name, examples, particles):
    assert_equal(name, examples, particles, "categorical")


@needs_compiler
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_in_c_are_exact_near_zero_and_far_out(name):
    """Against float64, from where they are nearly linear to where they no longer change."""
    points = torch.tensor([1e-6, 1e-3, 0.1, 0.33, 0.35, 0.6, 0.65, 1.0, 3.0, 9.0, 30.0, 200.0])
    inputs = torch.cat([-points.flip(0), torch.zeros(1), points]).unsqueeze(1)
    net = nn.Sequential(nn.Linear(1, 1), FUNCTIONS[name], nn.Linear(1, 1))
    space = select_parameters(net)
    layers = [("0", net[0]), ("1", net[1]), ("2", net[2])]
    kernel = chain.ChainKernel(layers, space, Gaussian(noise_variance=1.0), inputs[:1])
    theta = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    ours = kernel.outputs(theta, kernel.lay(inputs), len(inputs))[0]
    theirs = FUNCTIONS[name](inputs.double())
    torch.testing.assert_close(ours.double(), theirs, rtol=2e-6, atol=1e-12)
    # A target above the output by one makes the gradient of the bias the function's slope.
    wanted = inputs.double().requires_grad_()
    (slopes,) = torch.autograd.grad(FUNCTIONS[name](wanted).sum(), wanted)
    for i in range(len(inputs)):
        prepared = kernel.prepare(inputs[i : i + 1], theirs[i : i + 1].float() + 1)
        _, gradient = kernel(theta, prepared, 0, 1)
        scale = 1e-5 + 1e-6 * float(theirs[i].abs())  # of the output, which the target holds
        assert float(gradient[0, 1]) == pytest.approx(float(slopes[i]), rel=scale, abs=1e-6)


@needs_compiler
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(("examples", "particles"), [(1, 1), (133, 2)])
def test_outputs_in_c_are_those_of_the_model(name, examples, particles):
    target = make_target(name, examples)
    kernel, forward = target.engine._ranges.kernel, target.engine._ranges.forward
    theta = target.prior.to_parameters(positions(target, particles))
    inputs = target.engine.examples.inputs
    with torch.no_grad():
        expected = forward(theta, forward.prepare(inputs))
    ours = kernel.outputs(theta, kernel.lay(inputs), examples)
    assert ours.shape == expected.shape == (particles, examples, CLASSES)
    assert float((ours - expected).abs().max()) <= 1e-5 * float(expected.abs().max())


@needs_compiler
@pytest.mark.parametrize("name", ["mlp", "two convolutions with stride"])
def test_a_chain_with_gaussian_noise(name):
    assert_equal(name, 37, 3, "gaussian")


@pytest.mark.parametrize(
    ("dtype", "native"), [(torch.float32, ""), (torch.float32, "0"), (torch.float64, "")]
)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize(
    ("name", "examples", "particles"),
    [("head", 1, 1), ("head", 1040, 2), ("head without bias", 37, 3), ("head after dropout", 8, 3)],
)
def test_a_head_gives_what_autograd_gives(
    name, examples, particles, likelihood, dtype, native, monkeypatch
):
    # The one for classes in C has tests of its own.
    monkeypatch.setattr(kernels, "KERNELS", [LinearKernel])
    monkeypatch.setenv("SBMC_NATIVE", native)
    assert_equal(name, examples, particles, likelihood, dtype, kernel="linear")


@needs_compiler
@pytest.mark.parametrize("name", ["paper", "mlp", "head"])
def test_pieces_of_any_size_add_up(name):
    whole = make_target(name)
    z = positions(whole, 5)
    expected = whole(z)
    for chunks in (Chunks(1, 2), Chunks(13, 5), Chunks(36, 1)):
        for ours, theirs in zip(make_target(name, chunks=chunks)(z), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@needs_compiler
def test_several_chunks_of_particles_do_not_cut_up_the_examples():
    many = make_target("mlp", 1500)
    assert many.engine.chunks.together == 1280 > many.engine.chunks.examples
    z = positions(many, 2 * many.engine.chunks.particles + 1)
    parts = [many(some) for some in z.split(many.engine.chunks.particles // 2)]
    for i, found in enumerate(many(z)):
        expected = torch.cat([part[i] for part in parts])
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-3)


@needs_compiler
@pytest.mark.parametrize("name", ["paper", "two convolutions with stride"])
def test_what_is_not_kept_prepared_gives_the_same_bits(name, monkeypatch):
    kept = make_target(name)
    monkeypatch.setattr("sbmc.target.memory_needs.PREPARED_BYTES", 10)
    fresh = make_target(name)
    assert (kept.engine._ranges.laid is None, fresh.engine._ranges.laid is None) == (False, True)
    z = positions(kept)
    for ours, theirs in zip(fresh(z), kept(z), strict=True):
        assert torch.equal(ours, theirs)


def tied(name, kernel=True):
    """A target on images of one colour, where all corners of a window are equal."""
    target = make_target(name, 5, kernel=False)
    examples = Examples(
        torch.full_like(target.engine.examples.inputs, 0.5), target.engine.examples.targets
    )
    return target_of(
        target.engine._ranges.forward, examples, Categorical(), target.prior, kernel=kernel
    )


@needs_compiler
def test_ties_go_to_the_first_as_in_torch():
    ours, theirs = tied("paper"), tied("paper", kernel=False)
    assert ours.engine.kernel == "chain"
    z = positions(ours)
    torch.testing.assert_close(ours(z).gradient, theirs(z).gradient, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("name", ["paper", "mlp", "head", *FUNCTIONS, "small cnn"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_with_its_particle(name, bad):
    target = make_target(name)
    z = positions(target)
    clean = target(z)
    z[1, -1] = bad
    value, gradient = target(z)
    assert not torch.isfinite(value[1])
    assert torch.equal(value[::2], clean.log_likelihood[::2])
    assert torch.equal(gradient[::2], clean.gradient[::2])


@needs_compiler
def test_threads_do_not_change_the_bits():
    before = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            for particles in (2, 70):
                target = make_target("mlp", 300)
                results.append(target(positions(target, particles)))
    finally:
        torch.set_num_threads(before)
    for one, two in ((0, 2), (1, 3)):
        for ours, theirs in zip(results[one], results[two], strict=True):
            assert torch.equal(ours, theirs)


@needs_compiler
@pytest.mark.parametrize("name", ["paper", "head"])
def test_a_target_that_was_sent_has_its_kernel_again(name):
    target = make_target(name)
    sent = pickle.loads(pickle.dumps(target))
    assert sent.engine.kernel == target.engine.kernel is not None
    z = positions(target)
    for ours, theirs in zip(sent(z), target(z), strict=True):
        assert torch.equal(ours, theirs)


@needs_compiler
@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ([nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 3)], "layer_norm"),
        ([nn.Tanh(), nn.Linear(5, 4), nn.Linear(4, 3)], "a Tanh of the inputs"),
        ([nn.Linear(5, 4), nn.Linear(4, 3), nn.Tanh()], "no linear layer"),
        ([nn.ReLU(), nn.Linear(5, 4), nn.Linear(4, 3)], "a ReLU of the inputs"),
        ([nn.Linear(5, 4), nn.Linear(4, 3), nn.ReLU()], "no linear layer"),
        ([nn.Linear(5, 500), nn.ReLU(), nn.Linear(500, 300), nn.Linear(300, 3)], "too many"),
    ],
)
def test_what_is_no_chain_says_why(layers, reason, caplog):
    CHAINS["this"] = (lambda: nn.Sequential(*layers), VECTORS)
    try:
        with caplog.at_level(logging.DEBUG, "sbmc"):
            assert make_target("this").engine.kernel is None
    finally:
        del CHAINS["this"]
    assert reason in caplog.text


def test_other_likelihoods_and_frozen_layers_have_no_kernel():
    assert make_target("mlp", likelihood=Custom(lambda o, t: o[:, 0] * t)).engine.kernel is None
    assert make_target("head", likelihood=Custom(lambda o, t: o[:, 0] * t)).engine.kernel is None
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    net[0].requires_grad_(False)
    space = select_parameters(net)
    inputs = torch.randn(6, 5)
    forward = build_forward(net, space, inputs[:2])
    examples = Examples(inputs, torch.zeros(6, dtype=torch.int64))
    assert kernels.find_kernel(forward, Categorical(), examples, space.flatten(net)) is None


PLANTED = {
    "a bias without gradient": ("((lanes *)sums)[l->bias + o] += sum;", ""),
    "a ReLU that lets all gradients through": ("won &= ~(flags)(z <= 0.0f)", "won &= won"),
    "a loser of the pooling": ("open & ((z == y)", "open & ((z < y)"),
    "a tap too few": (
        "t < taps; t++) {\n            const float *x = in",
        "t < taps - 1; t++) {\n            const float *x = in",
    ),
    "an input's gradient of the wrong sign": ("a[j] += w * g0", "a[j] -= w * g0"),
    "a function's slope that is lost": ("load(slope + to) * bent_slope(", "bent_slope("),
    "a softmax that is not normalised": ("hit - load(g) * over", "hit - load(g)"),
}


@needs_compiler
@pytest.mark.parametrize("bug", PLANTED)
def test_a_wrong_chain_is_found_out_and_not_used(bug, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "sbmc")
    with planted(monkeypatch, tmp_path, chain, *PLANTED[bug]):
        names = "paper", "two convolutions with stride", "small cnn"
        found = [make_target(name).engine.kernel for name in names]
    assert None in found
    assert "the chain kernel differs from autograd" in caplog.text


@needs_compiler
def test_a_tie_that_all_corners_win_is_found_out(tmp_path, monkeypatch):
    right = tied("paper")
    with planted(monkeypatch, tmp_path, chain, "open &= ~won;", ""):
        wrong = tied("paper")
    assert (right.engine.kernel, wrong.engine.kernel) == ("chain", None)


def test_a_head_without_its_bias_gradient_is_found_out(monkeypatch):
    residuals = LinearKernel._residuals

    def dropped(self, out, targets, bias, value, slopes):
        residuals(self, out, targets, bias, value, torch.zeros_like(slopes))

    monkeypatch.setattr(kernels, "KERNELS", [LinearKernel])
    assert make_target("head").engine.kernel == "linear"
    monkeypatch.setattr(LinearKernel, "_residuals", dropped)
    assert make_target("head").engine.kernel != "linear"


@needs_compiler
def test_the_choice_is_one_line_of_the_log(caplog):
    with caplog.at_level(logging.DEBUG, "sbmc"):
        make_target("paper")
    (line,) = [r.getMessage() for r in caplog.records if r.getMessage().startswith("engine:")]
    for words in ("fused path", "chain kernel", "Chunks(", "thread(s)", "MiB"):
        assert words in line
