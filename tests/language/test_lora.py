"""The head is a linear layer with W₀ + B A; balanced factors have the same product."""

import pytest
import torch
from torch import nn

from sbmc.checks import BadInput
from sbmc.language import LoraHead, balanced

CLASSES, FEATURES, RANK = 11, 7, 3


def factors(dtype=torch.float64, scale=30.0):
    rng = torch.Generator().manual_seed(0)
    down = torch.randn(RANK, FEATURES, generator=rng, dtype=dtype) * scale
    up = torch.randn(CLASSES, RANK, generator=rng, dtype=dtype) / scale
    return down, up


def head(dtype=torch.float64):
    rng = torch.Generator().manual_seed(1)
    made = LoraHead(torch.randn(CLASSES, FEATURES, generator=rng, dtype=dtype), RANK)
    down, up = factors(dtype)
    with torch.no_grad():
        made.down.weight.copy_(down)
        made.up.weight.copy_(up)
    return made


def test_head_is_a_linear_layer_with_the_sum_of_both():
    lora = head()
    plain = nn.Linear(FEATURES, CLASSES, bias=False, dtype=torch.float64)
    with torch.no_grad():
        plain.weight.copy_(lora.base.weight + lora.up.weight @ lora.down.weight)
    inputs = torch.randn(5, FEATURES, dtype=torch.float64, generator=torch.Generator())
    torch.testing.assert_close(lora(inputs), plain(inputs), rtol=1e-12, atol=1e-12)


def test_head_begins_as_the_frozen_layer():
    base = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(2))
    lora = LoraHead(base, RANK)
    inputs = torch.eye(FEATURES)
    assert torch.equal(lora(inputs), inputs @ base.T)
    assert bool((lora.down.weight != 0).all())
    assert not bool(lora.up.weight.any())


def test_only_the_factors_are_trained():
    trained = {name for name, p in head().named_parameters() if p.requires_grad}
    assert trained == {"down.weight", "up.weight"}


def test_base_is_a_copy():
    base = torch.zeros(CLASSES, FEATURES)
    lora = LoraHead(base, RANK)
    base += 1
    assert not bool(lora.base.weight.any())


def test_balanced_factors_have_the_same_product():
    down, up = factors()
    new_down, new_up = balanced(down, up)
    torch.testing.assert_close(new_up @ new_down, up @ down, rtol=1e-12, atol=1e-12)
    assert (new_down.shape, new_up.shape) == (down.shape, up.shape)


def test_balanced_factors_have_equal_gram_matrices():
    new_down, new_up = balanced(*factors())
    values = torch.linalg.svdvals(torch.matmul(*reversed(factors())))[:RANK]
    torch.testing.assert_close(new_down @ new_down.T, values.diag(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(new_up.T @ new_up, values.diag(), rtol=1e-12, atol=1e-12)


def test_balancing_never_lowers_the_prior():
    down, up = factors()
    new_down, new_up = balanced(down, up)
    before = down.square().sum() + up.square().sum()
    after = new_down.square().sum() + new_up.square().sum()
    assert after < 0.1 * before  # the factors of this test are far from balanced


def test_balancing_twice_changes_only_signs_and_rounding():
    once = balanced(*factors())
    twice = balanced(*once)
    for first, second in zip(once, twice, strict=True):
        torch.testing.assert_close(first.abs(), second.abs(), rtol=1e-9, atol=1e-9)


def test_a_product_of_lower_rank_is_balanced_too():
    down, up = factors()
    down[2] = down[1]
    new_down, new_up = balanced(down, up)
    torch.testing.assert_close(new_up @ new_down, up @ down, rtol=1e-12, atol=1e-12)


def test_after_training_balances_the_head_and_keeps_its_logits():
    lora = head(torch.float32)
    inputs = torch.randn(5, FEATURES, generator=torch.Generator().manual_seed(4))
    before = lora(inputs).detach()
    lora.after_training()
    torch.testing.assert_close(lora(inputs).detach(), before, rtol=1e-5, atol=1e-5)
    down, up = lora.down.weight.detach(), lora.up.weight.detach()
    torch.testing.assert_close(down @ down.T, up.T @ up, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("which", ["down", "up"])
def test_a_zero_factor_is_refused(which):
    down, up = factors()
    (down if which == "down" else up).zero_()
    with pytest.raises(BadInput, match=f"`{which}` must be other than zero"):
        balanced(down, up)


def test_an_untrained_head_cannot_be_balanced():
    with pytest.raises(BadInput, match="`up` must be other than zero"):
        LoraHead(torch.eye(4), 2).after_training()


@pytest.mark.parametrize(
    ("down", "up", "words"),
    [
        ((2, 5), (4, 3), "`down and up` must be"),
        ((3, 2), (4, 3), "`down and up` must be"),  # a rank above a side
        ((2,), (4, 2), "`down and up` must be"),
    ],
)
def test_factors_that_do_not_fit_are_refused(down, up, words):
    with pytest.raises(BadInput, match=words):
        balanced(torch.ones(down), torch.ones(up))


def test_factors_that_are_not_finite_are_refused():
    down, up = factors()
    down[0, 0] = torch.nan
    with pytest.raises(BadInput, match="`down` must be finite"):
        balanced(down, up)


@pytest.mark.parametrize("rank", [0, 8, 2.5, True])
def test_ranks_that_make_no_sense_are_refused(rank):
    with pytest.raises(BadInput, match="`rank` must be a whole number from 1 to 7"):
        LoraHead(torch.ones(CLASSES, FEATURES), rank)


def test_a_base_that_is_no_matrix_is_refused():
    with pytest.raises(BadInput, match="`base` must be a matrix of floats"):
        LoraHead(torch.ones(4), 1)
