"""Kernels on mini-batches give what autograd gives; a wrong one is found out and not used."""

from __future__ import annotations

import copy
import logging

import pytest
import torch
from chain_networks import CHAINS, HEADS, make_target, needs_compiler, positions
from planting import planted

from sbmc.likelihoods import Custom
from sbmc.model.kernels.native import chain_batches, head_batches
from sbmc.model.kernels.native.scratch import Scratch
from sbmc.model.threads import torch_threads
from sbmc.target import minibatch
from sbmc.target.minibatch import MiniBatches

pytestmark = needs_compiler
EXAMPLES = 61


def batches_of(particles, size, examples=EXAMPLES, seed=3):
    """Examples for each particle, in an order of its own; some twice where there are too few."""
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(examples, (particles, size), generator=rng)


def assert_close(ours, theirs, tolerance=1e-5):
    for mine, expected in zip(ours, theirs, strict=True):
        assert mine.dtype == expected.dtype
        scale = float(expected.abs().max())
        assert float((mine - expected).abs().max()) <= tolerance * scale


def assert_equal(name, size, particles=3, likelihood="categorical", kernel="chain"):
    ours = make_target(name, EXAMPLES, likelihood)
    exact = make_target(name, EXAMPLES, likelihood, kernel=False)
    batches, plain = MiniBatches(ours), MiniBatches(exact)
    assert (batches.kernel, plain.kernel) == (kernel, None)
    z, index = positions(ours, particles), batches_of(particles, size)
    assert_close(batches(z, index), plain(z, index))


@pytest.mark.parametrize("size", [1, 50])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_gives_what_autograd_gives(name, size):
    assert_equal(name, size)


@pytest.mark.parametrize("size", [2, 8, 9, 16, 17, 33, 300])
@pytest.mark.parametrize("name", ["mlp", "windows that overlap"])
def test_slots_that_are_left_over_count_for_nothing(name, size):
    assert_equal(name, size, particles=2)


@pytest.mark.parametrize("size", [1, 7, 50])
@pytest.mark.parametrize("name", HEADS)
def test_a_head_gives_what_autograd_gives(name, size):
    assert_equal(name, size, kernel="head")


@pytest.mark.parametrize("name", ["mlp", "two convolutions with stride", "head"])
def test_gaussian_noise(name):
    """A head has no kernel of its own here: it is a chain of one layer."""
    assert_equal(name, 50, likelihood="gaussian")


@pytest.mark.parametrize("most", [16, 32])
def test_pieces_of_a_batch_add_up(monkeypatch, most):
    monkeypatch.setattr(chain_batches, "FEWEST", most)
    monkeypatch.setattr(chain_batches, "MOST", most)
    assert_equal("paper", 50)
    assert_equal("windows that overlap", 33)


@pytest.mark.parametrize("name", ["paper", "head"])
def test_a_particle_has_the_same_bits_in_any_company_and_on_any_number_of_threads(
    monkeypatch, name
):
    monkeypatch.setattr(minibatch, "LEAST_WORK", 1)
    target = make_target(name, EXAMPLES)
    batches, z, index = MiniBatches(target), positions(target, 5), batches_of(5, 21)
    with torch_threads(1):
        alone = [batches(z[i : i + 1], index[i : i + 1]) for i in range(5)]
    for threads in (1, 2, 3):
        with torch_threads(threads):
            together = batches(z, index)
        for i, each in enumerate(alone):
            assert torch.equal(together.gradient[i], each.gradient[0])
            assert torch.equal(together.log_likelihood[i], each.log_likelihood[0])


def test_an_index_may_be_a_part_of_another_or_lie_across():
    target = make_target("mlp", EXAMPLES)
    batches, z = MiniBatches(target), positions(target, 2)
    index = batches_of(2, 40)
    whole = batches(z, index[:, 7:19].contiguous())
    for view in (index[:, 7:19], index.T.contiguous().T[:, 7:19]):
        found = batches(z, view)
        assert torch.equal(found.gradient, whole.gradient)


def test_what_is_not_finite_is_passed_on_for_that_particle_alone():
    for name in ("paper", "head"):
        target = make_target(name, EXAMPLES)
        z, index = positions(target, 3), batches_of(3, 21)
        z[1, 0] = torch.nan
        found = MiniBatches(target)(z, index)
        assert torch.isfinite(found.log_likelihood).tolist() == [True, False, True]
        assert torch.isfinite(found.gradient).all(1).tolist() == [True, False, True]


def test_no_kernel_where_there_is_none_for_all_data(monkeypatch):
    assert (
        make_target("mlp", likelihood=Custom(lambda o, t: o[:, 0] * t)).engine.batch_kernel()
        is None
    )
    assert make_target("mlp", kernel=False).engine.batch_kernel() is None
    assert make_target("mlp", dtype=torch.float64).engine.batch_kernel() is None
    engine = make_target("mlp").engine
    engine.without_kernel()
    assert engine.batch_kernel() is None
    monkeypatch.setenv("SBMC_NATIVE", "0")
    assert MiniBatches(make_target("mlp")).kernel is None
    assert MiniBatches(make_target("head")).kernel is None


def test_an_engine_that_was_sent_has_its_kernel_again():
    target = make_target("mlp", EXAMPLES)
    z, index = positions(target, 2), batches_of(2, 9)
    before = MiniBatches(target)(z, index)
    sent = copy.deepcopy(target)
    assert sent.engine.batch_kernel() is not target.engine.batch_kernel()
    assert torch.equal(MiniBatches(sent)(z, index).gradient, before.gradient)


def test_a_data_set_smaller_than_the_probe():
    target = make_target("mlp", 1)
    index = torch.zeros(2, 3, dtype=torch.int64)
    found, full = MiniBatches(target)(positions(target, 2), index), target(positions(target, 2))
    torch.testing.assert_close(found.gradient, full.gradient, rtol=1e-5, atol=1e-6)


def test_scratch_is_lent_once_at_a_time():
    scratch = Scratch()
    with scratch.lend(4) as first, scratch.lend(4) as second:
        assert first is not second
    with scratch.lend(10) as larger:
        assert len(larger) == 10


CHAIN_BUGS = {
    "examples of the first particle for all": ("particle * apart + first", "first"),
    "slots that are left over count": (
        "flags index = COUNTED, given = *(const flags *)(label + e);\n"
        "        flags inside = index + (int32_t)e < (int32_t)count;",
        "flags given = *(const flags *)(label + e);\n        flags inside = ~(flags){0};",
    ),
    "the last vector's taps are one too few": (
        "t < taps; t++) {\n        lanes x",
        "t < taps - 1; t++) {\n        lanes x",
    ),
    "the factor is forgotten": ("sums[i] *= factor[i];", "sums[i] *= 1.0f;"),
    "a bias without gradient": ("sums[l->bias + o + i] += sum[i];", "sums[l->bias] += 0.0f;"),
    "sums of the wrong weights": ("to[j] += sum[i * wide + j]", "to[j] += sum[j * width + i]"),
}
HEAD_BUGS = {
    "the first class has no gradient": ("slope[h->weight + f] -= these[f];", ""),
    "the label's class is off by one": ("(k == label - 1)", "(k == label)"),
    "the first particle's examples for all": ("index + particle * apart", "index"),
    "the rest of the features is lost": ("+ rest;", ";"),
    "the factor is forgotten": ("slope[i] *= factor[i];", ";"),
}


@pytest.mark.parametrize("bug", CHAIN_BUGS)
def test_a_wrong_chain_is_found_out_and_not_used(bug, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "sbmc")
    with planted(monkeypatch, tmp_path, chain_batches, *CHAIN_BUGS[bug]):
        target = make_target("paper", EXAMPLES)
        batches = MiniBatches(target)
    assert (target.engine.kernel, batches.kernel) == ("chain", None)
    assert "differs from autograd on mini-batches" in caplog.text
    assert batches(positions(target), batches_of(3, 5)).gradient.isfinite().all()


@pytest.mark.parametrize("bug", HEAD_BUGS)
def test_a_wrong_head_is_found_out_and_not_used(bug, tmp_path, monkeypatch):
    with planted(monkeypatch, tmp_path, head_batches, *HEAD_BUGS[bug]):
        assert MiniBatches(make_target("head", EXAMPLES)).kernel is None
