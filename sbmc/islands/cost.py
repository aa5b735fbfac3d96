"""The cost of a run: epochs, seconds and memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class Cost:
    """The cost of a run. Epochs are per particle; docs/design.md has the rules of counting.

    Attributes:
        epochs: likelihood and gradient evaluations per particle, mean over islands.
        forward_epochs: evaluations without gradient, likewise.
        anchor_epochs: epochs of training the anchor, or all members of an ensemble.
        total_epochs: epochs x particles x islands + anchor_epochs + prior_epochs.
        wall_seconds: measured, without the anchor's training; for a run that was resumed, the sum
            over its islands; None if not measured.
        prior_epochs: epochs of computing the curvature of the prior, over all anchors.
        expected_bytes: memory of the largest process at its peak, as predicted before the run;
            None if it was not predicted.
        peak_bytes: the same, measured from the start of the process to the end of the run.
        memory_limit: bytes that were allowed; None for no limit.
    """

    epochs: float
    forward_epochs: float
    anchor_epochs: float
    total_epochs: float
    wall_seconds: float | None
    prior_epochs: float = 0.0
    expected_bytes: int | None = None
    peak_bytes: int | None = None
    memory_limit: int | None = None

    def with_training(self, epochs: float, seconds: float) -> Cost:
        """The same with networks that were trained beside the anchor, all of them together."""
        total, measured = self.total_epochs + epochs, (self.wall_seconds or 0.0) + seconds
        return replace(self, total_epochs=total, wall_seconds=measured)

    def as_dict(self) -> dict[str, float | None]:
        """Plain values, for JSON."""
        return asdict(self)
