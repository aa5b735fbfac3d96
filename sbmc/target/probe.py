"""Probes: values of a model and its likelihood on a few rows, to recognise the same target.

Structure and weights do not identify a target, since a module's `forward` and a user's likelihood
are code. So their values are recorded and compared, up to rounding, which differs between machines
and numbers of threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.likelihoods import Likelihood
from sbmc.model.data import Inputs, count, leaves, tree_map
from sbmc.model.functional import call_model
from sbmc.model.parameters import ParameterSpace

KIND = "probe"
ROWS = 3
# So many outputs of a row are recorded, and one sum of all of them.
MOST_OUTPUTS = 16
# Larger rows are not made up, since a call of the model on them would be expensive.
MOST_ELEMENTS = 2**24
# Relative to the largest value: far above rounding, far below what another activation gives. The
# processors of other devices round products to fewer digits.
TOLERANCES = {"torch.float64": 1e-9, "torch.float32": 1e-4}
OTHER_DEVICE_TOLERANCE = 1e-2
COARSE_TOLERANCE = 5e-2  # of the types with 16 bits

Values = dict[str, Any]


def some_rows(inputs: Inputs) -> Inputs:
    """A few examples, from the first to the last.

    Examples:
        >>> some_rows(torch.arange(9)), some_rows(torch.arange(2))
        (tensor([0, 4, 8]), tensor([0, 1]))
    """
    size = count(inputs)
    # In float64, which has the numbers of all rows exactly.
    index = torch.linspace(0, size - 1, min(ROWS, size), dtype=torch.float64).round().long()
    return tree_map(lambda t: t[index.to(t.device)], inputs)


def with_neighbour(theta: Tensor) -> Tensor:
    """A parameter vector `(dim,)` and another near it, always the same: `(2, dim)`."""
    wave = torch.arange(len(theta), dtype=torch.float64).sin().to(theta)
    return torch.stack([theta, theta + 0.1 * (theta.abs().mean() + 0.1) * wave])


def evaluate(
    module: nn.Module,
    space: ParameterSpace,
    positions: Tensor,
    inputs: Inputs,
    likelihood: Likelihood | None = None,
    targets: Tensor | None = None,
) -> Values:
    """Compute outputs and log likelihoods at some parameter vectors.

    Args:
        module: in evaluation mode; called as its author wrote it, by no faster path.
        space: the parameters that the vectors hold.
        positions: `(points, dim)`.
        inputs: a few examples.
        likelihood: the likelihood of the outputs; None computes the outputs only.
        targets: of the examples, checked by the likelihood.

    Returns:
        Plain values for `disagreement`. Each log likelihood comes with a slope: how far it moves if
        outputs move by as much as the largest of them, which magnifies their rounding.
    """
    noted: dict[str, list[Any]] = {"outputs": [], "log_likelihood": [], "slope": []}
    for theta in positions:
        with torch.no_grad():
            outputs = call_model(module, space.split(theta), inputs)
        # Not every device has float64.
        noted["outputs"].append([_few(row) for row in outputs.detach().cpu().double()])
        if likelihood is None or targets is None:
            continue
        with torch.enable_grad():
            free = outputs.detach().clone().requires_grad_()
            values = likelihood.log_prob(free.unsqueeze(0), targets)[0]
            (slope,) = torch.autograd.grad(values.sum(), free)
        steepness = slope.cpu().double().abs().reshape(len(slope), -1).sum(1)
        moved = steepness * _largest(outputs.cpu().double())
        noted["log_likelihood"].append(_plain(values.detach().cpu().double()))
        noted["slope"].append(_plain(moved))
    device = positions.device.type
    return {"kind": KIND, "dtype": str(positions.dtype), "device": device, **noted}


def is_probe(value: Any) -> bool:
    """Whether a value is a probe."""
    return isinstance(value, Mapping) and value.get("kind") == KIND


def disagreement(old: Any, new: Any) -> tuple[str, str]:
    """Compare two probes of what should be one target.

    Args:
        old: the probe that was recorded ("there").
        new: the probe that is computed now ("here").

    Returns:
        A part, `outputs` or `log_likelihood`, and the two values that differ most, as text; two
        empty texts if all agree. A part that one of them lacks is not compared.

    Examples:
        >>> old = {"kind": "probe", "dtype": "torch.float32", "outputs": [[[0.5, 1.0]]]}
        >>> disagreement(old, {**old, "outputs": [[[0.5000001, 1.0]]]})
        ('', '')
        >>> disagreement(old, {**old, "outputs": [[[0.6, 1.0]]]})
        ('outputs', '0.5 there and 0.6 here')
    """
    tolerance = max(_tolerance(old), _tolerance(new))
    if old.get("device", "cpu") != new.get("device", "cpu"):
        tolerance = max(tolerance, OTHER_DEVICE_TOLERANCE)
    for part in ("outputs", "log_likelihood"):
        if not old.get(part) or not new.get(part):
            continue
        try:
            one, other = (torch.tensor(each[part], dtype=torch.float64) for each in (old, new))
            slack = torch.zeros_like(one)
            if part == "log_likelihood":
                slack = torch.tensor(old["slope"], dtype=torch.float64).expand_as(one)
        except (KeyError, TypeError, ValueError, RuntimeError, OverflowError):
            return part, "of no known form"
        if one.shape != other.shape:
            return part, f"shape {tuple(one.shape)} there and {tuple(other.shape)} here"
        # Infinite logits may be intended (masked classes); they have to be the same ones.
        same = (one == other) | (one.isnan() & other.isnan())
        allowed = tolerance * (_largest(one) + slack.nan_to_num() + 1e-6)
        gap = torch.where(same, 0.0, ((one - other).abs() / allowed).nan_to_num(math.inf))
        if bool((gap > 1).any()):
            at = int(gap.argmax())
            return part, f"{one.flatten()[at]:.6g} there and {other.flatten()[at]:.6g} here"
    return "", ""


def probe_differences(old: Any, new: Any) -> list[str]:
    """The disagreement of two probes as a message that says what to do."""
    part, values = disagreement(old, new)
    remedy = "give those that it was begun with, or another folder"
    return {
        "": [],
        "outputs": [
            f"outputs of the model on rows of the data differ ({values}), since its forward is "
            f"another, or its inputs are prepared in another way; {remedy}"
        ],
        "log_likelihood": [
            f"the log likelihood of rows of the data differs ({values}), since the likelihood is "
            f"another; {remedy}"
        ],
    }[part]


def describe_rows(inputs: Inputs) -> dict[str, Any]:
    """Describe inputs by plain values: shapes, types and ranges, but no rows.

    Args:
        inputs: some examples.

    Returns:
        A description for `made_up_rows`.
    """
    tensors = leaves(inputs)
    names = list(inputs) if isinstance(inputs, dict) else None
    form = "dict" if names else "tensor" if isinstance(inputs, Tensor) else "tuple"
    return {"form": form, "names": names, "leaves": [_describe(each) for each in tensors]}


def made_up_rows(described: Mapping[str, Any], like: Tensor) -> Inputs:
    """Make up a few rows of inputs from a description, always the same ones.

    Args:
        described: what `describe_rows` returned.
        like: a tensor with the device, and the type of floating-point numbers.

    Returns:
        The rows.

    Raises:
        ValueError: they would be too large, or are described in no known form.

    Examples:
        >>> made_up_rows(describe_rows(torch.tensor([[0, 5], [9, 2]])), torch.zeros(1))
        tensor([[0, 7],
                [4, 1],
                [8, 5]])
    """
    try:
        tensors = [_made_up(each, like) for each in described["leaves"]]
        if described["form"] == "dict":
            return dict(zip(described["names"], tensors, strict=True))
        return tensors[0] if described["form"] == "tensor" else tuple(tensors)
    except (KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        raise ValueError(f"rows of no known form ({error})") from error


def _describe(tensor: Tensor) -> dict[str, Any]:
    ends = [tensor.min().item(), tensor.max().item()] if tensor.numel() else [0, 0]
    return {"shape": list(tensor.shape[1:]), "dtype": str(tensor.dtype), "range": ends}


def _made_up(described: Mapping[str, Any], like: Tensor) -> Tensor:
    shape = [ROWS, *described["shape"]]
    size = math.prod(shape)
    if not 0 < size <= MOST_ELEMENTS:
        raise ValueError(f"rows of {size // ROWS} numbers each")
    low, high = described["range"]
    kind = getattr(torch, str(described["dtype"]).removeprefix("torch."))
    index = torch.arange(size)
    if kind == torch.bool:
        return (index % 2 == 0).reshape(shape).to(like.device)
    if kind.is_floating_point:
        wave = 0.5 + 0.5 * (1.0 + index.double()).sin()
        return (low + (high - low) * wave).reshape(shape).to(like.device, like.dtype)
    return (int(low) + 7 * index % (int(high) - int(low) + 1)).reshape(shape).to(like.device, kind)


def _few(row: Tensor) -> list[float]:
    flat = row.flatten()
    if len(flat) <= MOST_OUTPUTS:
        return _plain(flat)
    picked = flat[torch.linspace(0, len(flat) - 1, MOST_OUTPUTS).round().long()]
    wave = (1.0 + torch.arange(len(flat), dtype=torch.float64)).sin()
    summed = (flat.nan_to_num(0.0, 0.0, 0.0) * wave).sum() / math.sqrt(len(flat))
    return _plain([*picked.tolist(), float(summed)])


def _plain(values: Tensor | Sequence[float]) -> list[float]:
    """Numbers rounded to the digits that are compared."""
    each: Iterable[float] = values.tolist() if isinstance(values, Tensor) else values
    return [float(f"{value:.12g}") for value in each]


def _largest(values: Tensor) -> float:
    finite = values[torch.isfinite(values)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _tolerance(probe: Mapping[str, Any]) -> float:
    return TOLERANCES.get(str(probe.get("dtype")), COARSE_TOLERANCE)
