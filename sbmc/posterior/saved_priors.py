"""The priors of a posterior in its file, so that it can be updated after it was loaded.

A prior has three vectors as long as a particle. Where a vector has one value for each parameter of
the network, as variances by layer have, a file has these few values; and where the prior is centred
on the anchor, it has the anchor once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import BadInput
from sbmc.model.parameters import ParameterSpace
from sbmc.prior.gaussian import AnchoredPrior

VECTORS = ("anchor", "mean", "scale")
# Of a mean that is the anchor.
SAME = "anchor"


def priors_to_state(
    priors: Sequence[AnchoredPrior] | None, power: float, space: ParameterSpace
) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """Plain values and tensors for a file.

    Args:
        priors: of each island; None if they are not known.
        power: the exponent of the likelihood.
        space: the sampled parameters.

    Returns:
        None and no tensors if they are not known.
    """
    if priors is None:
        return None, {}
    different = list({id(each): each for each in priors}.values())
    places = {id(each): place for place, each in enumerate(different)}
    tensors: dict[str, Tensor] = {}
    stored = []
    for place, prior in enumerate(different):
        entry: dict[str, Any] = {}
        for name in VECTORS:
            vector = getattr(prior, name)
            if name == "mean" and torch.equal(vector, prior.anchor):
                entry[name] = SAME
                continue
            constants = _constants(vector, space)
            if constants is None:
                entry[name] = f"prior.{place}.{name}"
                tensors[entry[name]] = vector.detach().cpu().contiguous()
            else:
                entry[name] = constants
        stored.append(entry)
    dtype = str(priors[0].mean.dtype)
    of = [places[id(each)] for each in priors]
    return {"priors": stored, "of": of, "power": float(power), "dtype": dtype}, tensors


def priors_from_state(
    state: Any,
    tensors: Mapping[str, Tensor],
    space: ParameterSpace,
    islands: int,
    device: torch.device,
) -> tuple[list[AnchoredPrior], float]:
    """What `priors_to_state` stored.

    Args:
        state: the plain values.
        tensors: of the file.
        space: the sampled parameters.
        islands: how many there are.
        device: of the result.

    Returns:
        The prior of each island, and the power.

    Raises:
        BadInput: they are incomplete.
    """
    try:
        dtype = getattr(torch, state["dtype"].removeprefix("torch."))
        made = []
        for entry in state["priors"]:
            vectors: dict[str, Tensor] = {}
            for name in VECTORS:
                content = entry[name]
                if content == SAME:
                    vectors[name] = vectors[SAME]
                    continue
                found = tensors[content] if isinstance(content, str) else _spread(content, space)
                vectors[name] = found.to(device, dtype)
                assert vectors[name].shape == (space.dim,)
            made.append(AnchoredPrior(vectors["mean"], vectors["scale"], vectors["anchor"]))
        priors = [made[place] for place in state["of"]]
        assert len(priors) == islands
        return priors, float(state["power"])
    # Whatever is wrong with stored values, the file is at fault.
    except Exception as error:
        raise BadInput(
            "`path` must be a posterior file with complete priors, but got one whose priors are "
            f"not ({type(error).__name__}: {error}). Save the posterior again."
        ) from None


def _constants(vector: Tensor, space: ParameterSpace) -> list[float] | None:
    """The value of each parameter, if it has but one."""
    parts = vector.detach().split(list(space.sizes))
    if any(part.numel() and bool((part != part[0]).any()) for part in parts):
        return None
    return [float(part[0]) if part.numel() else 0.0 for part in parts]


def _spread(values: Sequence[float], space: ParameterSpace) -> Tensor:
    pairs = zip(values, space.sizes, strict=True)
    parts = [torch.full((size,), value, dtype=torch.float64) for value, size in pairs]
    return torch.cat(parts)
