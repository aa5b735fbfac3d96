"""The rows that choose s: those that the network was not trained on."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.fitting.request import FitRequest
from sbmc.log import logger
from sbmc.model.data import Examples, as_examples
from sbmc.model.unseen_rows import remembered_rows


class UnseenRows(NamedTuple):
    """Rows that the network was not trained on, and where they come from, in words."""

    examples: Examples
    source: str


def unseen_rows(request: FitRequest, examples: Examples) -> UnseenRows | None:
    """The rows that choose the mixture: those given as `validation`, or those the model remembers.

    Args:
        request: the arguments of `fit`.
        examples: the training data.

    Returns:
        The rows, or None if there are none that are not in the training data too.

    Raises:
        BadInput: `validation` has rows of the training data.
    """
    if request.validation is not None:
        given = as_examples(request.validation, "validation")
        shared = _shared_rows(given, examples)
        rule = "rows that are not in `data`: on rows it was trained on, the network always wins"
        require(shared == 0, "validation", rule, Phrase(f"{shared} of {len(given)} that are"))
        return UnseenRows(given, "given as `validation`")
    remembered = remembered_rows(request.model)
    if remembered is None:
        return None
    if _shared_rows(remembered, examples):
        logger.info(
            "the rows that were set aside when the network was trained are part of `data` now, "
            "and cannot choose s"
        )
        return None
    return UnseenRows(remembered, "set aside when the network was trained")


def _shared_rows(some: Examples, others: Examples) -> int:
    """How many rows of `some` are in `others`; 0 where inputs are no single tensor."""
    if not isinstance(some.inputs, Tensor) or not isinstance(others.inputs, Tensor):
        return 0
    known = {row.tobytes() for row in _flat(others.inputs)}
    return sum(row.tobytes() in known for row in _flat(some.inputs))


def _flat(inputs: Tensor) -> Any:
    return inputs.detach().cpu().float().flatten(1).contiguous().numpy()
