"""A low-rank adjustment of a frozen output layer, and factors that are balanced."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import Phrase, is_whole, require
from sbmc.prior.layer_rules import Rule, layer_rules, lora_rules
from sbmc.storage.arrays import as_tensor

RANK = 50


class LoraHead(nn.Module):
    """Logits (W₀ + B A) h of hidden states h, with W₀ frozen (LoRA: Hu et al., 2022).

    Only A, `down.weight` `(rank, features)`, and B, `up.weight` `(classes, rank)`, are trained and
    sampled. As usual with LoRA, A is random at first and B zero, so that the layer begins as W₀.

    Args:
        base: W₀, `(classes, features)`; it is copied.
        rank: of the adjustment.

    Raises:
        BadInput: the base is not a matrix of floats, or the rank is above its sides.

    Examples:
        >>> head = LoraHead(torch.eye(3, 4), rank=2)
        >>> head(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
        tensor([[1., 2., 3.]], grad_fn=<AddBackward0>)
    """

    def __init__(self, base: Tensor, rank: int = RANK) -> None:
        super().__init__()
        base = as_tensor(base, "base")
        matrix = base.ndim == 2 and base.is_floating_point() and base.numel() > 0
        require(matrix, "base", "a matrix of floats", Phrase(f"{base.dtype} {tuple(base.shape)}"))
        classes, features = base.shape
        most = min(classes, features)
        require(
            is_whole(rank) and 1 <= rank <= most, "rank", f"a whole number from 1 to {most}", rank
        )
        like: dict[str, Any] = {"bias": False, "dtype": base.dtype, "device": base.device}
        self.base = nn.utils.skip_init(nn.Linear, features, classes, **like)
        self.base.weight = nn.Parameter(base.detach().clone(), requires_grad=False)
        self.down = nn.Linear(features, int(rank), **like)
        self.up = nn.Linear(int(rank), classes, **like)
        with torch.no_grad():
            # Hidden states have entries of order one: rows of A give inner values of that order.
            nn.init.normal_(self.down.weight, std=1 / math.sqrt(features))
            nn.init.zeros_(self.up.weight)

    def forward(self, states: Tensor) -> Tensor:
        """Logits `(..., classes)` of hidden states `(..., features)`."""
        return self.base(states) + self.up(self.down(states))

    def after_training(self) -> None:
        """Balance the factors in place; the logits stay as they are."""
        down, up = balanced(self.down.weight.detach(), self.up.weight.detach())
        with torch.no_grad():
            self.down.weight.copy_(down)
            self.up.weight.copy_(up)


@layer_rules.register
def _prior_of_the_factors(head: LoraHead) -> dict[str, Rule]:
    rank, features = head.down.weight.shape
    down, up = lora_rules(rank, features)
    return {"down.weight": down, "up.weight": up}


def balanced(down: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """Factors of the same product that share its singular values evenly.

    With the singular value decomposition B A = U S Vᵀ,

        B' = U S^½,    A' = S^½ Vᵀ,

    so that B'ᵀ B' = A' A'ᵀ = S. Of all factors with this product, these have the least
    ‖A‖² + ‖B‖², so a Gaussian prior of one variance likes them best, and a step in A moves the
    logits as far as one in B. A factor that is zero is refused: the gradient of the other one
    vanishes there, and an anchor at such a point says nothing about either.

    Args:
        down: A, `(rank, features)`.
        up: B, `(classes, rank)`.

    Returns:
        A' and B', of the shapes and the type of A and B; the largest singular value first.

    Raises:
        BadInput: factors that do not fit together, are not finite, or of which one is zero.

    Examples:
        >>> down, up = balanced(torch.tensor([[4.0, 0.0]]), torch.tensor([[1.0], [0.0], [0.0]]))
        >>> down.abs(), up.abs().T
        (tensor([[2., 0.]]), tensor([[2., 0., 0.]]))
    """
    down, up = as_tensor(down, "down"), as_tensor(up, "up")
    for name, factor in (("down", down), ("up", up)):
        dtype = Phrase(f"dtype {factor.dtype}")
        require(factor.is_floating_point(), name, "a matrix of floats", dtype)
    fit = down.ndim == up.ndim == 2 and up.shape[1] == down.shape[0]
    fit = fit and down.shape[0] <= min(down.shape[1], up.shape[0])
    shapes = Phrase(f"{tuple(down.shape)} and {tuple(up.shape)}")
    require(
        fit, "down and up", "(rank, features) and (classes, rank), of a rank below both", shapes
    )
    for name, factor in (("down", down), ("up", up)):
        require(bool(torch.isfinite(factor).all()), name, "finite", Phrase("NaN or infinity"))
        good = bool((factor != 0).any())
        require(good, name, "other than zero to be balanced (train it first)", Phrase("all zero"))
    # Two small factorisations instead of one of the product, which is (classes, features).
    left, left_r = torch.linalg.qr(up.double())
    right, right_r = torch.linalg.qr(down.double().T)
    turn, values, turned = torch.linalg.svd(left_r @ right_r.T)
    root = values.sqrt()
    new_up = (left @ turn) * root
    new_down = root.unsqueeze(-1) * (turned @ right.T)
    return new_down.to(down.dtype), new_up.to(up.dtype)
