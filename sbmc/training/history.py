"""What happened while one member was trained."""

from __future__ import annotations

from dataclasses import dataclass, field


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
