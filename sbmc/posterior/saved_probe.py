"""Records outputs on a few made-up rows in a saved posterior, to recognise its module.

No row of the data is written to the file. The rows are made up from the shapes, types and ranges of
the inputs, so that the same rows can be made when the file is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput
from sbmc.likelihoods import Custom, Likelihood
from sbmc.log import logger
from sbmc.model.functional import evaluation_copy
from sbmc.model.parameters import ParameterSpace
from sbmc.posterior.posterior import Posterior
from sbmc.target.probe import disagreement, evaluate, is_probe, made_up_rows


def record_outputs(posterior: Posterior, model: nn.Module) -> dict[str, Any] | None:
    """Compute the outputs by which `compare` recognises the module of a posterior.

    Args:
        posterior: the posterior that is saved.
        model: its module.

    Returns:
        Plain values; None if the shapes of inputs are not known, or if the module cannot be called
        on made-up rows. Then the log says that outputs will not be compared.
    """
    description = posterior.input_description
    if description is None:
        logger.info("outputs are not compared on load: the posterior has not predicted any inputs")
        return None
    ends = first_and_last(posterior.positions, posterior.dtype)
    parts = model, posterior.space, posterior.likelihood, ends, description
    try:
        values, second = _values(*parts), _values(*parts)
    # A user's module or likelihood may raise any error on made-up rows.
    except Exception as error:
        logger.info(
            "outputs are not compared on load: the model fails on made-up inputs (%s)", error
        )
        return None
    if disagreement(values, second) != ("", ""):
        logger.info("outputs are not compared on load: two calls of the model differ")
        return None
    return {**values, **description}


def compare(
    recorded: Any,
    model: nn.Module,
    space: ParameterSpace,
    likelihood: Likelihood,
    positions: Tensor,
) -> None:
    """Refuse a module or a callable whose values differ from those that were recorded.

    Args:
        recorded: what `record_outputs` gave; None, as in files of before, compares nothing.
        model: the module that was given.
        space: the sampled parameters.
        likelihood: the likelihood from the file, or the callable that was given.
        positions: the first and the last of the file, as `first_and_last` gives them.

    Raises:
        BadInput: outputs or log likelihoods differ by more than rounding.
    """
    description = description_of(recorded)
    if description is None:
        return
    rule = "`model` must be the one that the file was made with, but got one"
    remedy = "Give the module with the code that it had when the posterior was saved."
    try:
        values = _values(model, space, likelihood, positions, description)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise BadInput(
            f"{rule} that cannot be evaluated as it could ({cause}). {remedy}"
        ) from error
    part, differing = disagreement(recorded, values)
    if part == "outputs":
        raise BadInput(
            f"{rule} whose outputs differ ({differing}): its forward is another. {remedy}"
        )
    if part:
        raise BadInput(
            "`likelihood` must be the callable that the posterior was made with, but got one whose "
            f"log likelihoods differ ({differing})."
        )


def first_and_last(positions: Tensor, dtype: torch.dtype) -> Tensor:
    """The first and the last particle of `(islands, particles, dim)`, in a dtype to compute in."""
    every = positions.flatten(0, 1)
    points = every[:1] if len(every) == 1 else torch.stack([every[0], every[-1]])
    return points.to(dtype)


def description_of(recorded: Any) -> dict[str, Any] | None:
    """The description of inputs and targets in a record; None if there is none."""
    if not is_probe(recorded) or not isinstance(recorded.get("inputs"), Mapping):
        return None
    return {name: recorded.get(name) for name in ("inputs", "targets")}


def _values(
    model: nn.Module,
    space: ParameterSpace,
    likelihood: Likelihood,
    positions: Tensor,
    description: Mapping[str, Any],
) -> dict[str, Any]:
    """Outputs at the first particle and at the last, and log likelihoods of a user's callable.

    The other likelihoods are described completely in the file.
    """
    targets = None
    if isinstance(likelihood, Custom) and description.get("targets") is not None:
        rows = made_up_rows(description["targets"], positions)
        targets = rows if isinstance(rows, Tensor) else None
    inputs = made_up_rows(description["inputs"], positions)
    return evaluate(evaluation_copy(model, space), space, positions, inputs, likelihood, targets)
