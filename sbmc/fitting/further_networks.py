"""Train further networks beside the one that was handed over, as anchors for its posterior.

The posterior around one network does not reach the other ways in which the same data can be fitted.
A deep ensemble has them, and nothing else. So a part of the budget goes into a few networks that
are trained from weights drawn anew, by the library's own trainer, for as long as the first was.
"""

from __future__ import annotations

import copy

from torch import nn

from sbmc.checks import BadInput
from sbmc.fitting.request import FitRequest
from sbmc.log import logger, warn_user
from sbmc.model.parameters import select_parameters
from sbmc.training.ensemble import train_ensemble
from sbmc.training.setup import drawn_anew
from sbmc.training.shared_statistics import with_statistics_of


def train_further_networks(
    request: FitRequest, count: int, epochs: int, learning_rate: float
) -> list[nn.Module]:
    """Train copies of the model from other weights; what is not sampled stays as it is.

    Args:
        request: the arguments of `fit`.
        count: how many.
        epochs: passes over the data for each.
        learning_rate: of Adam.

    Returns:
        The networks, in evaluation mode, with the model's running statistics where layers have
        some; fewer or none if their training failed, which is warned of.
    """
    model = request.model
    space = select_parameters(model, request.parameters)
    logger.info("training %d further networks for %d epochs each", count, epochs)
    like = space.flatten(model)
    starts = []
    for member in range(count):
        start = copy.deepcopy(model)
        space.write(space.flatten(drawn_anew(model, space, member, request.seed)).to(like), start)
        starts.append(start)
    named = isinstance(request.prior_variance, str)
    try:
        trained = train_ensemble(
            model,
            request.data,
            members=count,
            initial=starts,
            max_epochs=epochs,
            learning_rate=learning_rate,
            prior_variance="auto" if named else request.prior_variance,
            likelihood=request.likelihood,
            weights=request.weights,
            parameters=request.parameters,
            seed=request.seed,
            memory_limit=request.compute.memory_limit,
            progress=request.progress,
        )
    except (RuntimeError, BadInput) as error:
        warn_user(f"No further networks beside the one given: {error}", RuntimeWarning)
        return []
    return [with_statistics_of(model, each) for each in trained]
