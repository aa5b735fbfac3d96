"""What `fit` asks of an algorithm's settings, and what a run of it tells of each island."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from torch import Tensor

from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.snapshot import NOTHING, Keeper
from sbmc.target.target import Target


class IslandRun(Protocol):
    """What an algorithm says of one island, while it runs and at the end.

    For the verdict on the posterior a run should also have `sampling_steps`, the number of moves
    after warm-up, and, if moves can be rejected, `particle_acceptance`, the mean acceptance of each
    particle over these moves, `(particles,)`.
    """

    step_size: float
    epochs: int
    forward_epochs: int
    non_finite: int
    outcome: str
    message: str
    draws: list[Tensor]

    @property
    def steps(self) -> int:
        """Steps made; temperatures for SMC."""

    @property
    def acceptance(self) -> list[float]:
        """Mean acceptance of each step."""

    @property
    def sampling_acceptance(self) -> float:
        """Mean acceptance of what counts."""


class Sampler:
    """Settings of an algorithm that can run a batch of islands: a frozen dataclass.

    Attributes:
        summary: what the algorithm is, in one line of plain words.
        cost: what its steps, passes or temperatures cost, in epochs.
        default_start: where particles begin if nothing is said.
        default_weights: how islands are combined if nothing is said.
        steps: steps per chain, if they are given.
        epochs: the budget of evaluations per chain, if there is one.
    """

    summary: ClassVar[str]
    cost: ClassVar[str]
    default_start = "anchor"
    default_weights = "equal"
    steps: int | None = None
    epochs: int | None = None

    def population(self, particles: int) -> int:
        """How many positions an island of `particles` starts from."""
        return particles

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any = None,
        keeper: Keeper = NOTHING,
    ) -> list[Any]:
        """Run the islands of `rng` from `start` `(islands * population, dim)`, whitened.

        Args:
            target: log likelihood and gradient.
            rng: the islands' noise.
            start: where they begin.
            report: to be called now and then with all runs.
            keeper: is offered places from which the run can go on with the same bits, and has
                the one that it is to go on from, if it was stopped before. All else has to be
                as it was then, the generators at their beginning too.

        Returns:
            An `IslandRun` of each.
        """
        raise NotImplementedError
