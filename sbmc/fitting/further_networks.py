"""Train further networks beside the one that was handed over, as anchors for its posterior.

The posterior around one network does not reach the other ways in which the same data can be fitted.
A deep ensemble has them, and nothing else. So a part of the budget goes into a few networks that
are trained from weights drawn anew, by the library's own trainer.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

from sbmc.checks import BadInput
from sbmc.fitting.request import FitRequest
from sbmc.log import logger, warn_user
from sbmc.model.parameters import ParameterSpace, select_parameters
from sbmc.training.ensemble import train_ensemble
from sbmc.training.history import TrainingRecipe, remembered_recipe
from sbmc.training.setup import drawn_anew
from sbmc.training.shared_statistics import with_statistics_of

# Adam's learning rate where nobody says how the model was trained.
USUAL_RATE = 1e-3


def train_further_networks(
    request: FitRequest, count: int, epochs: int, learning_rate: float | None = None
) -> list[nn.Module]:
    """Train copies of the model from other weights; what is not sampled stays as it is.

    Args:
        request: the arguments of `fit`.
        count: how many.
        epochs: passes over the data for each.
        learning_rate: of Adam. If not given, they are trained as the model was, where a trainer of
            the library has trained the same parameters.

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
    how: dict[str, Any] = {
        "learning_rate": USUAL_RATE if learning_rate is None else learning_rate,
        "prior_variance": "auto" if named else request.prior_variance,
    }
    recipe = remembered_recipe(model)
    if learning_rate is None and recipe is not None and _is_of(recipe, space):
        how = {"optimiser": recipe.optimiser, "batch_size": recipe.batch_size}
        how["prior_variance"] = recipe.prior_variance
        logger.info("they are trained as the model was, by %s", recipe.optimiser)
    try:
        trained = train_ensemble(
            model,
            request.data,
            members=count,
            initial=starts,
            max_epochs=epochs,
            likelihood=request.likelihood,
            weights=request.weights,
            parameters=request.parameters,
            seed=request.seed,
            memory_limit=request.compute.memory_limit,
            progress=request.progress,
            **how,
        )
    except (RuntimeError, BadInput) as error:
        warn_user(f"No further networks beside the one given: {error}", RuntimeWarning)
        return []
    return [with_statistics_of(model, each) for each in trained]


def _is_of(recipe: TrainingRecipe, space: ParameterSpace) -> bool:
    """Whether its prior is one for these parameters."""
    variance = recipe.prior_variance
    return not isinstance(variance, Tensor) or variance.ndim == 0 or len(variance) == space.dim
