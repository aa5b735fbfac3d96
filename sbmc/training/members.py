"""The members of a deep ensemble, as training returns them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from sbmc.checks import is_whole, require
from sbmc.likelihoods import Likelihood
from sbmc.model.noise import without_noise
from sbmc.model.parameters import ParameterSpace
from sbmc.posterior.ensemble import ensemble_posterior
from sbmc.training.history import TrainingHistory, TrainingRecipe, remember_recipe

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior
    from sbmc.prediction.kinds import EitherPrediction

# All members in one batch, by code without autograd or by autograd; or each in training mode.
COMPILED, BATCHED, ONE_BY_ONE = "compiled", "batched autograd", "autograd, one by one"
ENGINES = (COMPILED, BATCHED, ONE_BY_ONE)


@dataclass(frozen=True)
class Ensemble:
    """Trained members. Those whose training failed have a history and no place among the others.

    Args:
        positions: weights `(members, dim)` in the model's own coordinates.
        members: the index of each row of `positions` among the members that were trained.
        histories: one for every member that was trained, failed ones too.
        space: the parameters that `positions` stands for.
        model: a copy of the module that was given; the models are copies of this one.
        buffers: for each row of `positions`, the buffers that training changed, by name.
        likelihood: what the members were trained with.
        engine: how gradients were computed, one of `ENGINES`; empty where that is not known.
        recipe: how all were trained; None where that is not known.
    """

    positions: Tensor
    members: tuple[int, ...]
    histories: tuple[TrainingHistory, ...]
    space: ParameterSpace
    model: nn.Module
    buffers: tuple[dict[str, Tensor], ...]
    likelihood: Likelihood
    engine: str = ""
    recipe: TrainingRecipe | None = None

    @property
    def models(self) -> list[nn.Module]:
        """The members as modules, in evaluation mode; new copies at each call."""
        return list(self)

    @property
    def total_epochs(self) -> int:
        """Passes over the training data, all members together."""
        return sum(history.epochs for history in self.histories)

    @property
    def epochs(self) -> float:
        """Mean passes over the training data per member."""
        return self.total_epochs / len(self.histories)

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: int) -> nn.Module:
        """One member as a module, in evaluation mode; a new copy at each call."""
        module = without_noise(self.member_with_noise(index))
        remember_recipe(module, self.recipe)
        return module

    def member_with_noise(self, index: int) -> nn.Module:
        """The same, with noise that was learned after its outputs."""
        size = len(self)
        rule = f"an integer below the number of members, {size}"
        require(is_whole(index) and -size <= index < size, "index", rule, index)
        module = copy.deepcopy(self.model).eval()
        self.space.write(self.positions[index], module)
        own = dict(module.named_buffers())
        for name, value in self.buffers[index].items():
            own[name].copy_(value)
        return module

    def __iter__(self) -> Iterator[nn.Module]:
        return (self[index] for index in range(len(self)))

    def posterior(self, islands: int = 1) -> Posterior[EitherPrediction]:
        """The ensemble as a posterior with equal weights, so that it predicts as any sampler does.

        Args:
            islands: the members are dealt out to so many islands, in order; divides their number.

        Returns:
            The posterior.
        """
        return ensemble_posterior(self, self.likelihood, islands)
