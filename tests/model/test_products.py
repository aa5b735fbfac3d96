"""Linear layers by oneDNN are torch's, in values and gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from sbmc.model import products
from sbmc.model.products import linear

needs_onednn = pytest.mark.skipif(not products.available(), reason="torch has no oneDNN here")


def gradients(function, x, weight, bias):
    leaves = [each.clone().requires_grad_() for each in (x, weight, bias) if each is not None]
    given = [*leaves, None] if bias is None else leaves
    y = function(*given)
    slopes = torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum(), leaves)
    return y.detach(), *slopes


@needs_onednn
@pytest.mark.parametrize("lead", [(700,), (7, 100), (3, 5, 47)])
@pytest.mark.parametrize("sizes", [(64, 64), (33, 47), (16, 129)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_values_and_gradients_are_those_of_torch(lead, sizes, with_bias, monkeypatch):
    monkeypatch.setattr(products, "SMALL_PRODUCT", 1)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(*lead, sizes[0], generator=rng)
    weight = torch.randn(sizes[1], sizes[0], generator=rng)
    bias = torch.randn(sizes[1], generator=rng) if with_bias else None
    ours = gradients(linear, x, weight, bias)
    theirs = gradients(F.linear, x, weight, bias)
    for found, expected in zip(ours, theirs, strict=True):
        scale = float(expected.abs().max())
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * scale)


@needs_onednn
def test_values_in_another_order_in_memory(monkeypatch):
    monkeypatch.setattr(products, "SMALL_PRODUCT", 1)
    rng = torch.Generator().manual_seed(0)
    x, weight = torch.randn(40, 6, 32, generator=rng), torch.randn(20, 32, generator=rng)
    ours = gradients(lambda a, w, _: linear(a.transpose(0, 1), w), x, weight, None)
    theirs = gradients(lambda a, w, _: F.linear(a.transpose(0, 1), w), x, weight, None)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


@needs_onednn
def test_who_multiplies(monkeypatch):
    called = []
    product = products._product
    monkeypatch.setattr(products, "_product", lambda *a: called.append(1) or product(*a))
    linear(torch.ones(300, 64), torch.ones(64, 64))
    assert called == [1]
    linear(torch.ones(3, 64), torch.ones(64, 64))  # small
    linear(torch.ones(3000, 64), torch.ones(8, 64))  # few columns
    linear(torch.ones(300, 64).double(), torch.ones(64, 64).double())
    assert called == [1]


def test_without_onednn_torch_multiplies(monkeypatch):
    products.available.cache_clear()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    try:
        assert not products.available()
        assert float(linear(torch.ones(300, 64), torch.ones(64, 64))[0, 0]) == 64
    finally:
        products.available.cache_clear()


def test_a_wrong_product_is_found_out(monkeypatch):
    products.available.cache_clear()
    monkeypatch.setattr(products, "_product", lambda x, w, b=None: F.linear(x, w, b) + 0.01)
    try:
        assert not products.available()
    finally:
        products.available.cache_clear()
