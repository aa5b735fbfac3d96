"""The head in C gives what autograd gives, on odd shapes; a wrong one is found out."""

from __future__ import annotations

import logging
import shutil

import pytest
import torch
from planting import planted
from targets import target_of
from torch import nn

from sbmc.likelihoods import Categorical
from sbmc.model.chunks import Chunks
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.kernels.native import head
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import anchored_prior

pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")),
    reason="no C compiler",
)


def positions(target, particles=3):
    noise = torch.Generator().manual_seed(6)
    return 0.5 * torch.randn(particles, target.dim, generator=noise)


def make_target(features, classes, examples, *, bias=True, scale=1.0, **options):
    torch.manual_seed(3)
    net = nn.Linear(features, classes, bias=bias)
    inputs = scale * torch.randn(examples, features)
    targets = torch.arange(examples) * 7 % classes
    space = select_parameters(net)
    prior = anchored_prior(space.flatten(net), 0.25, torch.ones(space.dim))
    forward = build_forward(net, space, inputs[:2])
    return target_of(forward, Examples(inputs, targets), Categorical(), prior, **options)


def assert_equal(target, exact, particles):
    assert (target.engine.kernel, exact.engine.kernel) == ("head", None)
    z = positions(target, particles)
    for ours, theirs in zip(target(z), exact(z), strict=True):
        assert ours.dtype == theirs.dtype
        assert float((ours - theirs).abs().max()) <= 1e-5 * float(theirs.abs().max())
    torch.testing.assert_close(target.log_likelihood(z), target(z).log_likelihood)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("features", "classes", "examples", "particles"),
    [
        (1, 2, 1, 1),
        (5, 2, 7, 3),
        (6, 3, 37, 8),
        (7, 10, 193, 9),  # one more than a block; one more than a vector
        (95, 2, 192, 17),  # with the bias, whole tiles
        (96, 4, 400, 5),
        (97, 11, 50, 16),
        (257, 2, 13, 33),  # one more than the features of a block
        (300, 7, 581, 2),
    ],
)
def test_odd_shapes_give_what_autograd_gives(features, classes, examples, particles, bias):
    shape = features, classes, examples
    assert_equal(
        make_target(*shape, bias=bias), make_target(*shape, bias=bias, kernel=False), particles
    )


def test_logits_far_apart_neither_overflow_nor_vanish():
    ours = make_target(5, 3, 40, scale=400.0)
    exact = make_target(5, 3, 40, scale=400.0, kernel=False)
    assert float(exact(positions(exact)).log_likelihood.abs().max()) > 1e3
    assert_equal(ours, exact, 3)


def test_pieces_of_any_size_add_up():
    whole = make_target(9, 4, 401)
    z = positions(whole, 5)
    for chunks in (Chunks(1, 2), Chunks(13, 5), Chunks(192, 1), Chunks(400, 5)):
        cut = make_target(9, 4, 401, chunks=chunks)
        for ours, theirs in zip(cut(z), whole(z), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_threads_do_not_change_the_bits():
    before = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            target = make_target(9, 4, 4000)
            results.append(target(positions(target, 3)))
    finally:
        torch.set_num_threads(before)
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_with_its_particle(bad):
    target = make_target(9, 4, 50)
    z = positions(target, 9)
    clean = target(z)
    z[3, 2] = bad
    value, gradient = target(z)
    others = [i for i in range(9) if i != 3]
    assert not torch.isfinite(value[3])
    assert torch.equal(value[others], clean.log_likelihood[others])
    assert torch.equal(gradient[others], clean.gradient[others])


def test_its_memory_is_what_it_says():
    target = make_target(9, 4, 50)
    kernel = target.engine._ranges.kernel
    assert isinstance(kernel, head.HeadKernel)
    assert kernel.working_bytes(20) > kernel.working_bytes(10) > 4 * 10 * 2 * 3 * 9


BUGS = {
    "the first class's weights are not subtracted": ("these[f] - first[f]", "these[f]"),
    "the first class has no gradient": ("first[f] -= these[f];", ""),
    "the bias has no gradient": ("from + f == h->features ? 1.0f : 0.0f", "0.0f"),
    "the label's class is off by one": ("(int64_t)label[e] - 1", "(int64_t)label[e]"),
    "the largest logit is forgotten": ("sum = exponential(-most);", "sum = all(1.0f);"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_one_is_found_out_and_not_used(bug, tmp_path, monkeypatch, caplog):
    with planted(monkeypatch, tmp_path, head, *BUGS[bug]), caplog.at_level(logging.INFO, "sbmc"):
        # Far from zero, so that the largest logit matters.
        found = make_target(9, 4, 50, scale=3.0).engine.kernel
    assert found == "linear"
    assert "the head kernel differs from autograd" in caplog.text
