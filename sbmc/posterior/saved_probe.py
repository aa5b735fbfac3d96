"""Outputs on a few made-up rows, noted in a saved posterior: is this the module that it was.

No row of the data goes into the file. The rows are made up from the shapes, types and ranges of the
inputs, so that whoever loads the file can make them again.
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


def note(posterior: Posterior, model: nn.Module) -> dict[str, Any] | None:
    """What `compare` needs to tell the module of a posterior from others.

    Args:
        posterior: what is saved.
        model: its module.

    Returns:
        Plain values; None where nobody knows what inputs look like, or where the module cannot be
        called on made-up ones. Then the log says that outputs are not compared when it is loaded.
    """
    looks = posterior.looks
    if looks is None:
        logger.info("outputs are not compared on load: the posterior has never seen inputs")
        return None
    parts = model, posterior.space, posterior.likelihood, posterior.positions, looks
    try:
        values, again = _values(*parts), _values(*parts)
    # Whatever a user's module or likelihood meets on rows that are not its own.
    except Exception as error:
        logger.info("outputs are not compared on load: made-up inputs do not do (%s)", error)
        return None
    if disagreement(values, again) != ("", ""):
        logger.info("outputs are not compared on load: two calls of the model differ")
        return None
    return {**values, **looks}


def compare(
    noted: Any, model: nn.Module, space: ParameterSpace, likelihood: Likelihood, positions: Tensor
) -> None:
    """Refuse a module, or a callable, that does not give what was noted.

    Args:
        noted: what `note` gave; None, as in files of before, compares nothing.
        model: the module that was given.
        space: the sampled parameters.
        likelihood: as it is in the file, or as it was given.
        positions: those of the file, `(islands, particles, dim)`.

    Raises:
        BadInput: outputs or log likelihoods differ by more than rounding.
    """
    looks = looks_of(noted)
    if looks is None:
        return
    rule = "`model` must be the one that the file was made with, but got one"
    again = "Give the module with the code that it had when the posterior was saved."
    try:
        values = _values(model, space, likelihood, positions, looks)
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise BadInput(f"{rule} that cannot be evaluated as it could ({words}). {again}") from error
    part, differing = disagreement(noted, values)
    if part == "outputs":
        raise BadInput(
            f"{rule} whose outputs differ ({differing}): its forward is another. {again}"
        )
    if part:
        raise BadInput(
            "`likelihood` must be the callable that the posterior was made with, but got one whose "
            f"log likelihoods differ ({differing})."
        )


def looks_of(noted: Any) -> dict[str, Any] | None:
    """What inputs and targets look like, by what was noted; None if nothing was."""
    if not is_probe(noted) or not isinstance(noted.get("inputs"), Mapping):
        return None
    return {name: noted.get(name) for name in ("inputs", "targets")}


def _values(
    model: nn.Module,
    space: ParameterSpace,
    likelihood: Likelihood,
    positions: Tensor,
    looks: Mapping[str, Any],
) -> dict[str, Any]:
    """Outputs at the first particle and at the last, and log likelihoods of a user's callable.

    The other likelihoods stand in the file with all that decides them.
    """
    every = positions.flatten(0, 1)
    points = every[:1] if len(every) == 1 else torch.stack([every[0], every[-1]])
    targets = None
    if isinstance(likelihood, Custom) and looks.get("targets") is not None:
        made = made_up_rows(looks["targets"], positions)
        targets = made if isinstance(made, Tensor) else None
    inputs = made_up_rows(looks["inputs"], positions)
    return evaluate(evaluation_copy(model, space), space, points, inputs, likelihood, targets)
