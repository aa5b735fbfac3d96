"""What counts as a model's output."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from sbmc.checks import Phrase, require


def as_logits(output: object) -> Tensor:
    """Take the tensor that the likelihood reads out of what a model returned.

    Args:
        output: a tensor, or an object with a tensor `.logits` or a dict with one under that name
            (Hugging Face).

    Returns:
        The tensor, as it came.

    Raises:
        BadInput: the model returned something else. Nothing is guessed: the first of a tuple may be
            the logits or the loss.

    Examples:
        >>> import torch
        >>> as_logits(torch.zeros(5, 2)).shape
        torch.Size([5, 2])
    """
    if isinstance(output, Mapping):
        found = output.get("logits")
    else:
        found = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    rule = "a module that returns a tensor, or a dict or an object with a tensor `.logits`"
    require(isinstance(found, Tensor), "model", rule, output)
    assert isinstance(found, Tensor)  # for the type checker; `require` has seen to it
    kind = Phrase(f"outputs of dtype {found.dtype}")
    require(found.is_floating_point(), "model", "a module that returns real numbers", kind)
    return found
