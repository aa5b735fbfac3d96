"""The interface of a sampler: its settings, and its report on each island."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from torch import Tensor

from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.remedies import Symptom
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.target import Target

if TYPE_CHECKING:
    from typing import Self

# Vectors of a position's size that a particle takes at the peak of a step: position, gradient and
# momentum, old and new, parameters, sums in float64, and temporary results. Measured, with what
# allocators waste.
VECTORS = 30
VECTORS_WITHOUT_GRADIENT = 14


class IslandRun(Protocol):
    """The report of an algorithm on one island, while it runs and at the end.

    For the health of the posterior a run should also have `sampling_steps`, the number of moves
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
        """Mean acceptance after warm-up, or at SMC's last temperature."""


class EvaluationCount(NamedTuple):
    """How often a chain will evaluate the likelihood over all data.

    The counts are exact if there are no notes. Otherwise they are upper bounds or rest on an
    assumption, and the notes say which.
    """

    gradient: float  # with gradient
    forward: float  # without gradient
    notes: tuple[str, ...] = ()


class Sampler:
    """Settings of an algorithm that can run a batch of islands: a frozen dataclass.

    A sampler states here all that the rest of the library needs to know about it: what a run costs,
    how much memory it takes, whether a pilot runs before the islands, and what to try if the run
    was not healthy. No code outside `sbmc.samplers` depends on which sampler it is.

    Attributes:
        summary: what the algorithm is, in one line.
        cost: what its steps, passes or temperatures cost, in epochs.
        default_start: where particles start by default.
        default_weights: how islands are combined by default.
        steps: steps per chain, if the user gave them.
        epochs: the budget of evaluations per chain, if there is one.
        draws: states that are kept of each chain.
        batch_size: examples per mini-batch; None for a sampler that evaluates all data at once.
        pilot: whether `learn` is called once, before the islands run.
        tempers_data: whether added data are tempered in, with their evidence (`for_added_data`);
            otherwise chains go on from where they ended.
        independent_particles: whether the particles of an island share nothing, so that they may be
            sampled one after another where they do not fit into memory together.
        takes_streams: whether it reads data in passes alone, so that they need not be held.
    """

    summary: ClassVar[str]
    cost: ClassVar[str]
    default_start = "anchor"
    default_weights = "equal"
    steps: int | None = None
    epochs: int | None = None
    draws: int = 1
    batch_size: int | None = None
    pilot: bool = False
    takes_streams: bool = False
    tempers_data: ClassVar[bool] = False
    independent_particles: ClassVar[bool] = False

    def population(self, particles: int) -> int:
        """How many positions an island of `particles` starts from."""
        return particles

    def evaluations(self) -> EvaluationCount:
        """How often a chain will evaluate the likelihood, for the forecast of cost and time.

        Returns:
            By default `epochs`, or `steps`, with gradient, and a note that this is a guess.
        """
        guess = self.epochs or self.steps or 1
        return EvaluationCount(guess, 0, (f"{type(self).__name__}: as its settings say",))

    @property
    def vectors(self) -> int:
        """Vectors of a position's size that a particle takes at the peak of a step.

        They are states, gradients, momenta and temporary results; the `draws` are counted
        separately. By default they are as many as for a step of HMC.
        """
        return VECTORS

    @property
    def snapshot_vectors(self) -> int:
        """Vectors of a particle that a checkpoint saves: position, gradient, and kept draws."""
        return 2 + self.draws

    def batch_rows(self, examples: int) -> int | None:
        """Examples per mini-batch of data of this size; None if all are evaluated at once."""
        return self.batch_size

    def further_bytes(self, positions: int, dim: int, data: int) -> int:
        """Bytes that a batch of islands takes besides `vectors` and `draws`; by default none.

        Args:
            positions: how many, in all islands of the batch.
            dim: length of a position.
            data: bytes of the examples.
        """
        return 0

    def short_run(self) -> Self | None:
        """The shortest run of these settings, with its `epochs`, to measure the time of an epoch.

        Returns:
            None, the default, if evaluations of the likelihood take almost all of the time.
        """
        return None

    def learn(self, target: Target, rng: IslandNoise, start: Tensor) -> dict[str, Any]:
        """Learn settings that all islands share, by a pilot run.

        Args:
            target: log likelihood and gradient.
            rng: noise of one island, which no other island uses.
            start: where its particles start, whitened, `(population, dim)`.

        Returns:
            Values that JSON can hold, for `frozen_with`, with the cost of the pilot per particle as
            `epochs` and `forward_epochs`.
        """
        raise NotImplementedError

    def check_learned(self, learned: Mapping[str, Any]) -> None:
        """Refuse values that cannot come from `learn`, when a checkpoint is read.

        Args:
            learned: the values that were read, with lists for tuples.

        Raises:
            ValueError: the message says what is wrong.
        """

    def frozen_with(self, learned: Mapping[str, Any]) -> Self:
        """The settings with which the islands run after a pilot.

        Args:
            learned: what `learn` returned, with lists for tuples if it comes from a checkpoint.
        """
        raise NotImplementedError

    def for_added_data(self, per_island: int, particles: int) -> Self:
        """The settings of an update with more data; by default the same.

        Args:
            per_island: positions that an island has kept.
            particles: of an island, of which each may have kept several positions.
        """
        return self

    def as_given(self) -> Self:
        """The settings as a user would write them, from those of `for_added_data`."""
        return self

    @classmethod
    def remedies(
        cls, symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
    ) -> tuple[str, ...]:
        """What to try if particles did not move; `sbmc.samplers.remedies` helps with the calls.

        Args:
            symptoms: what is wrong, the likeliest cause first.
            settings: settings of the sampler by name, as far as they are known.
            step_size: the smallest final step size of an island.

        Returns:
            Sentences, in the order in which to try them.
        """
        return ("Give the chains a longer run, or a smaller step size.",)

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[Any]:
        """Run the islands of `rng` from `start` `(islands * population, dim)`, whitened.

        Args:
            target: log likelihood and gradient.
            rng: the islands' noise.
            start: where they start.
            report: a callback, to be called now and then with all runs.
            checkpointer: is offered snapshots from which the run can continue with the same bits.
                If the run was stopped before, it has the snapshot to continue from. All other
                arguments have to be the same as then, with the generators at their beginning.

        Returns:
            An `IslandRun` for each island.
        """
        raise NotImplementedError
