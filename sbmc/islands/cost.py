"""What a run took: epochs, seconds, memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Cost:
    """What a run took. Epochs are per particle; see the design for the rules of counting.

    Attributes:
        epochs: likelihood and gradient evaluations per particle, mean over islands.
        forward_epochs: evaluations without gradient, likewise.
        anchor_epochs: the anchor's own (of all members together, for an ensemble).
        total_epochs: epochs x particles x islands + anchor_epochs + prior_epochs.
        wall_seconds: measured, without the anchor's training; of a run that was resumed, the
            seconds of its islands added up; None if not measured.
        prior_epochs: what the curvature of the prior took, all anchors together.
        expected_bytes: memory of the largest process at its peak, as it was expected before the
            run; None if it was not.
        peak_bytes: the same, measured from the start of the process to the end of the run.
        memory_limit: what was allowed; None for no limit.
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

    def as_dict(self) -> dict[str, float | None]:
        """Plain values, for JSON."""
        return asdict(self)
