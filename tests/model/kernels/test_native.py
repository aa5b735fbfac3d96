"""The stem in C gives what torch gives, wherever it can be compiled; elsewhere torch does it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from targets import target_of
from torch import nn

from sbmc.likelihoods import Categorical
from sbmc.model.chunks import Chunks
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.fused import FusedForward
from sbmc.model.kernels import native
from sbmc.model.kernels.native import build, planes
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import anchored_prior

PARTICLES, EXAMPLES = 3, 4
SOURCE = Path(planes.__file__).with_name("stem.c")

needs_compiler = pytest.mark.skipif(not build._compilers(), reason="there is no C compiler")

# (convolution, image): odd sizes, odd channels, fewer windows than lanes, blocks with and without
# a rest, strides and dilations with and without a common divisor.
CASES = {
    "paper": (lambda: nn.Conv2d(1, 4, 3, padding=1), (1, 28, 28)),
    "one window": (lambda: nn.Conv2d(1, 1, 2), (1, 3, 3)),
    "odd, no bias": (lambda: nn.Conv2d(2, 3, (2, 3), bias=False), (2, 7, 9)),
    "sixteen windows": (lambda: nn.Conv2d(3, 2, 1), (3, 8, 8)),
    "twenty-four windows": (lambda: nn.Conv2d(1, 5, 3), (1, 10, 14)),
    "stride 2": (lambda: nn.Conv2d(1, 3, 3, stride=2, padding=1), (1, 19, 14)),
    "stride, padding, dilation": (
        lambda: nn.Conv2d(2, 3, 3, stride=(1, 2), padding=(2, 1), dilation=(2, 1)),
        (2, 13, 17),
    ),
    "stride and dilation of a common divisor": (
        lambda: nn.Conv2d(2, 2, (3, 2), stride=(4, 3), padding=2, dilation=(2, 3)),
        (2, 25, 31),
    ),
}


@pytest.fixture(autouse=True)
def _native_unless_a_test_says_otherwise(monkeypatch):
    monkeypatch.delenv("SBMC_NATIVE", raising=False)


def make(name, dtype=torch.float32):
    torch.manual_seed(1)
    build_layer, shape = CASES[name]
    layer = build_layer()
    size = layer(torch.zeros(1, *shape)).shape
    features = size[1] * (size[2] // 2) * (size[3] // 2)
    layers = layer, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(features, 3)
    return nn.Sequential(*layers).to(dtype), shape


def inputs_for(shape, stacked):
    lead = (PARTICLES, EXAMPLES) if stacked else (EXAMPLES,)
    return torch.randn(*lead, *shape, generator=torch.Generator().manual_seed(3))


def draws(space, net):
    noise = torch.randn(PARTICLES, space.dim, generator=torch.Generator().manual_seed(2))
    return space.flatten(net) + 0.3 * noise.to(space.flatten(net))


def evaluated(net, theta, inputs, stacked, *, is_native):
    """Pooled values and gradient, with a check of who computes them."""
    space = select_parameters(net)
    forward = FusedForward(net, space, inputs.reshape(-1, *inputs.shape[-3:]))
    theta = theta.clone().requires_grad_()
    lead = inputs.shape[: 2 if stacked else 1]
    prepared = forward.prepare(inputs.reshape(-1, *inputs.shape[-3:]))
    assert prepared.ndim == (2 if is_native else 3)
    outputs = forward(theta, prepared.unflatten(0, lead), stacked=stacked)
    weights = torch.linspace(-1, 2, outputs.numel(), dtype=theta.dtype).view(outputs.shape)
    (gradient,) = torch.autograd.grad((outputs * weights).sum(), theta)
    return outputs.detach(), gradient


def by_torch(*args):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SBMC_NATIVE", "0")
        return evaluated(*args, is_native=False)


def same(ours, theirs, tolerance):
    pairs = zip(ours, theirs, strict=True)
    return all(float((a - b).abs().max() / b.abs().max()) <= tolerance for a, b in pairs)


def agrees(name, stacked):
    """Native in single precision against torch in single and in double precision."""
    net, shape = make(name)
    theta, inputs = draws(select_parameters(net), net), inputs_for(shape, stacked)
    ours = evaluated(net, theta, inputs, stacked, is_native=True)
    double, _ = make(name, torch.float64)
    exact = by_torch(double, theta.double(), inputs.double(), stacked)
    single = by_torch(net, theta, inputs, stacked)
    return same(ours, exact, 3e-6) and same(ours, single, 3e-6)


def ties_agree(stacked=False):
    """Images and kernels of small whole numbers: sums without rounding, windows full of ties."""
    net, shape = make("paper")
    space = select_parameters(net)
    inputs = inputs_for(shape, stacked).round().clamp(-1, 1)
    inputs[..., 0, :, :, :] = 0
    inputs[..., 1, :, :, :] = 1
    theta = draws(space, net)
    theta[:, :40] = (3 * theta[:, :40]).round()
    arguments = net, theta, inputs, stacked
    ours, theirs = evaluated(*arguments, is_native=True), by_torch(*arguments)
    return same(ours, theirs, 3e-6)


@needs_compiler
@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_native_is_torch(name, stacked):
    assert agrees(name, stacked)


@needs_compiler
@pytest.mark.parametrize("stacked", [False, True])
def test_ties_go_to_the_first_corner(stacked):
    assert ties_agree(stacked)


@needs_compiler
@pytest.mark.parametrize(
    ("right", "wrong", "check"),
    [
        ("2 - right_below", "3 + right_below", lambda: agrees("paper", False)),
        ("(b > a)", "(b >= a)", ties_agree),
        ("off & CORNERS", "off & 0", lambda: agrees("paper", False)),
        ("best >> 8", "best & 255", lambda: agrees("paper", True)),
        ("sum_of[each + i] +=", "sum_of[each + i] =", lambda: agrees("stride 2", False)),
    ],
)
def test_a_wrong_winner_or_sum_is_caught(right, wrong, check, tmp_path, monkeypatch):
    """Planted bugs, compiled in place of the source."""
    text = SOURCE.read_text()
    assert text.count(right) == 1
    assert check()
    planted = tmp_path / "planted.c"
    planted.write_text(text.replace(right, wrong))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(planes, "SOURCE", planted)
    monkeypatch.setattr(build, "FLAGS", ("-O1", *build.FLAGS[1:]))  # it is compiled sooner
    monkeypatch.setattr(planes, "_found", planes._Found())
    assert not check()


@needs_compiler
@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("place", [0, 4, 37])  # two taps and a bias
def test_what_is_not_finite_passes_as_in_torch(place, bad, stacked):
    net, shape = make("paper")
    net = nn.Sequential(*net[:4])  # a linear layer would make NaN of everything
    inputs = inputs_for(shape, stacked)
    inputs[..., 5:10, :] = 0
    theta = draws(select_parameters(net), net)
    theta[1, place] = bad
    ours, slope = evaluated(net, theta, inputs, stacked, is_native=True)
    theirs, _ = by_torch(net, theta, inputs, stacked)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, equal_nan=True)
    if not (place == 37 and bad == -torch.inf):  # which shuts a channel for good
        assert not torch.isfinite(ours[1]).all()
    assert torch.isfinite(ours[[0, 2]]).all()
    assert torch.isfinite(slope[[0, 2]]).all()


@needs_compiler
def test_a_pixel_that_is_no_number_shows_at_every_corner():
    net, shape = make("paper")
    net = nn.Sequential(*net[:4])
    theta = draws(select_parameters(net), net)
    for pixel in [(3, 3), (3, 4), (4, 3), (4, 4)]:
        inputs = inputs_for(shape, False)
        inputs[1, 0, pixel[0], pixel[1]] = torch.nan
        ours, _ = evaluated(net, theta, inputs, False, is_native=True)
        theirs, _ = by_torch(net, theta, inputs, False)
        assert torch.equal(ours.isnan(), theirs.isnan())
        assert ours.isnan().any()


def make_target(net, shape, **options):
    space = select_parameters(net)
    inputs = torch.randn(30, *shape, generator=torch.Generator().manual_seed(4))
    examples = Examples(inputs, torch.arange(30) % 3)
    prior = anchored_prior(space.flatten(net), 0.25, torch.ones(space.dim))
    forward = build_forward(net, space, inputs[:2])
    return target_of(forward, examples, Categorical(), prior, kernel=False, **options)


@needs_compiler
def test_a_target_rejects_what_is_not_finite():
    net, shape = make("paper")
    target = make_target(net, shape)
    assert target.engine._ranges.prepared.ndim == 2
    z = torch.zeros(3, target.dim)
    z[1, 2] = torch.inf
    value, gradient = target(z)
    assert torch.isfinite(value).tolist() == [True, False, True]
    assert torch.isfinite(gradient).all(1).tolist() == [True, False, True]


@needs_compiler
def test_threads_do_not_change_the_bits():
    net, shape = make("paper")
    target = make_target(net, shape, chunks=Chunks(4, 10, 8))
    z = 0.3 * torch.randn(5, target.dim)
    alone = target(z)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(target, [z] * 6):
            assert torch.equal(found.log_likelihood, alone.log_likelihood)
            assert torch.equal(found.gradient, alone.gradient)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = target(z)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found.log_likelihood, alone.log_likelihood)
    assert torch.equal(found.gradient, alone.gradient)


@needs_compiler
def test_a_gradient_that_is_spread_from_one_number():
    net, shape = make("odd, no bias")
    net = nn.Sequential(*net[:4])
    space = select_parameters(net)
    inputs = inputs_for(shape, False)
    forward = FusedForward(net, space, inputs)
    theta = draws(space, net).requires_grad_()
    (ours,) = torch.autograd.grad(forward(theta, forward.prepare(inputs)).sum(), theta)
    for row, slope in zip(theta.detach(), ours, strict=True):
        space.write(row, net)
        (theirs,) = torch.autograd.grad(net(inputs).sum(), net[0].weight)
        torch.testing.assert_close(slope, theirs.flatten(), rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_planes_say_how_much_memory_they_take(name):
    net, shape = make(name)
    inputs = inputs_for(shape, False)
    forward = FusedForward(net, select_parameters(net), inputs)
    prepared = forward.prepare(inputs)
    assert prepared.ndim == 2
    assert forward.prepared_bytes(inputs) == prepared.numel() * prepared.element_size()


def test_what_the_native_stem_does_not_take():
    layer = nn.Conv2d(1, 2, 1, stride=8)
    assert not native.usable(torch.zeros(1, 1, 32, 32), layer)
    assert not native.usable(torch.zeros(1, 1, 32, 32).double(), nn.Conv2d(1, 2, 3))
    assert not native.usable(torch.zeros(1, 1, 32, 32), nn.Conv2d(1, 2, 3).double())
    assert not native.usable(torch.zeros(1, 1, 32, 32, device="meta"), nn.Conv2d(1, 2, 3))


# Compilers that are not there, or fail.


def falls_back(caplog):
    """The result is torch's to the last bit; returns what was logged."""
    net, shape = make("paper")
    arguments = net, draws(select_parameters(net), net), inputs_for(shape, False), False
    with caplog.at_level(logging.DEBUG, "sbmc"):
        ours = evaluated(*arguments, is_native=False)
    theirs = by_torch(*arguments)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    return caplog.text


def test_native_code_can_be_turned_off(caplog, monkeypatch):
    monkeypatch.setenv("SBMC_NATIVE", "0")
    assert "not used (SBMC_NATIVE=0)" in falls_back(caplog)


def only(tmp_path, monkeypatch, script=None):
    """A path on which there is nothing, or one compiler; an empty cache."""
    if script is not None:
        compiler = tmp_path / "bin" / "cc"
        compiler.parent.mkdir()
        compiler.write_text(f"#!/bin/sh\n{script}\n")
        compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(planes, "_found", planes._Found())


@pytest.mark.skipif(sys.platform != "linux", reason="a Mac asks its own tools first")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "there is no C compiler"),
        ("echo out of order >&2; exit 3", "out of order"),
        ("exit 3", "exit status 3"),
        # Describes itself, but makes no library, or something else.
        ('case "$*" in *-dM*) echo x;; *) echo cannot >&2; exit 1;; esac', "cannot"),
        ("exit 0", "No such file"),
        (
            'while [ "$1" != -o -a $# -gt 0 ]; do shift; done; if [ "$2" ]; then : > "$2"; fi',
            "short",
        ),
    ],
)
def test_without_a_compiler_that_works_torch_does_it(script, reason, tmp_path, monkeypatch, caplog):
    only(tmp_path, monkeypatch, script)
    assert reason in falls_back(caplog)
    assert not list(tmp_path.glob("cache/sbmc/native/*"))


@needs_compiler
def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(planes, "_found", planes._Found())
    assert agrees("stride 2", False)


def test_the_cache_is_where_others_have_theirs(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert build.cache_folder() == Path("/somewhere/sbmc/native")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert build.cache_folder() == Path.home() / ".cache" / "sbmc" / "native"


LOAD = """
import logging, pathlib, runpy, sys, types
sys.modules["sbmc"], log = types.ModuleType("sbmc"), types.ModuleType("sbmc.log")
log.logger = logging.getLogger("sbmc")
checks = types.ModuleType("sbmc.checks")
checks.require = None
sys.modules |= {"sbmc.log": log, "sbmc.checks": checks}
for name in ("sbmc.model", "sbmc.model.kernels", "sbmc.model.kernels.native"):
    sys.modules[name] = types.ModuleType(name)
sys.modules[name].__path__ = [str(pathlib.Path(sys.argv[1]).parent)]
load = runpy.run_path(sys.argv[1])["load"]
library = load(pathlib.Path(sys.argv[2]))
assert library.sbmc_stem_forward and library.sbmc_stem_backward
print(library._name)
"""


@needs_compiler
def test_processes_that_compile_at_once(tmp_path):
    """All load one whole library, and leave nothing else behind; the next one compiles nothing."""
    command = [sys.executable, "-c", LOAD, build.__file__, str(SOURCE)]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}

    def start():
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    running = [start() for _ in range(3)]
    outputs = [process.communicate(timeout=60)[0].strip() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    kept, digest = sorted((tmp_path / "sbmc" / "native").iterdir())
    assert digest.name == f"{kept.name}.sha256"
    assert outputs == [str(kept)] * 3
    made = kept.stat().st_mtime_ns
    assert start().communicate(timeout=60)[0].strip() == str(kept)
    assert kept.stat().st_mtime_ns == made
