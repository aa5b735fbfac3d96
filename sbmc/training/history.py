"""How members were trained, and what happened meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from sbmc.training.optimiser import Optimiser


@dataclass(frozen=True)
class TrainingRecipe:
    """How a network was trained, so that others can be trained alike.

    Args:
        optimiser: with its settings.
        batch_size: examples in a mini-batch.
        prior_variance: of the prior, a number or one for each trained parameter `(dim,)`.
    """

    optimiser: Optimiser
    batch_size: int
    prior_variance: float | Tensor


def remember_recipe(model: nn.Module, recipe: TrainingRecipe | None) -> None:
    """Note on a network how it was trained; a copy of the module knows it, too."""
    model.trained_by = recipe  # type: ignore[assignment]


def remembered_recipe(model: nn.Module) -> TrainingRecipe | None:
    """How a network was trained, if one of the library's trainers did it."""
    recipe = getattr(model, "trained_by", None)
    return recipe if isinstance(recipe, TrainingRecipe) else None


@dataclass
class TrainingHistory:
    """The course of one member's training; epochs are counted from 1.

    Args:
        member: the member's index in its ensemble.
        train_loss: for each epoch, the mean over its batches of the loss, prior included.
        validation_loss: for each epoch, the same loss on the validation data; empty without them.
        best_epoch: the epoch whose weights were kept; 0 if none were.
        seconds: time until the member stopped, shared with the members trained beside it.
        outcome: "completed", or "failed" when a loss stopped being finite.
    """

    member: int = 0
    train_loss: list[float] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    best_epoch: int = 0
    seconds: float = 0.0
    outcome: str = "completed"

    @property
    def epochs(self) -> int:
        """Passes made over the training data."""
        return len(self.train_loss)
