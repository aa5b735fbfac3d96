"""The likelihood of a model's outputs, where none was given."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sbmc.likelihoods import Categorical, as_likelihood, infer_likelihood
from sbmc.likelihoods.choice import Inferred
from sbmc.log import logger
from sbmc.model.calling import errors_in_words, refuse_probabilities, require_rows
from sbmc.model.data import Examples, rows
from sbmc.model.functional import call_model, evaluation_copy
from sbmc.model.parameters import ParameterSpace


def resolve_likelihood(
    likelihood: Any, model: nn.Module, examples: Examples, name: str = "data"
) -> Inferred:
    """The likelihood that was given, or the one that targets and outputs suggest.

    Args:
        likelihood: as for `fit`; None to infer it.
        model: the network, in the dtype and on the device of the data.
        examples: the data.
        name: what error messages call them.

    Returns:
        The likelihood, and why it was taken; the reason is empty if it was given.

    Raises:
        BadInput: it is none, or targets and outputs do not decide.

    Examples:
        >>> data = Examples(torch.zeros(4, 2), torch.tensor([0, 1, 1, 2]))
        >>> resolve_likelihood(None, nn.Linear(2, 3), data).likelihood
        Categorical()
    """
    if likelihood is not None:
        return Inferred(as_likelihood(likelihood), "")
    module = evaluation_copy(model, ParameterSpace((), ()))
    few = rows(examples.inputs, 0, 2)
    with torch.no_grad(), errors_in_words(module, examples.inputs, f"{name} inputs"):
        outputs = call_model(module, {}, few)
    require_rows(outputs, few)
    inferred = infer_likelihood(examples.targets, outputs)
    if isinstance(inferred.likelihood, Categorical):
        refuse_probabilities(outputs)
    logger.info("likelihood: %s", inferred.explanation)
    return inferred
