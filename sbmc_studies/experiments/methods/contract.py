"""What a method of a study is: a name, a description, settings, and a function that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior
    from sbmc_studies.experiments.context import Context, Trained

Settings = dict[str, Any]

# Settings in every record that not all methods have, so that only some can be given them.
_NOT_OF_ALL = {"network", "s", "particles", "islands", "steps", "leapfrog", "mutations"}


@dataclass(frozen=True)
class Outcome:
    """What a method hands back.

    Attributes:
        posterior: the ensemble, with its islands' reports.
        cost: maps a number of islands to the cost of the first that many, with the fields of a
            record's cost but the wall time.
        wall_seconds: measured, for all islands, the training of what they start from included.
        details: what a reader of the record may want to know besides.
    """

    posterior: Posterior
    cost: Callable[[int], dict[str, float | None]]
    wall_seconds: float
    details: dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A way to get an ensemble.

    Attributes:
        name: what `--method` takes.
        label: its name in tables.
        description: one line for `sbmc methods`.
        cost: what it takes, in epochs, for `sbmc methods`.
        run: does it.
        uses: settings it has besides `prior_variance` and those of training.
        fixed: settings that define the method, and cannot be changed.
        defaults: further settings, with their defaults.
        check: refuses settings that break a rule, before any computing.
        sampler: name of the sampler that it runs, if it runs one.
        grows: whether islands can be added to a run, or made apart, because all islands start from
            the same networks.
    """

    name: str
    label: str
    description: str
    cost: str
    run: Callable[[Context], Outcome]
    uses: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Settings], object] | None = None
    sampler: str | None = None
    grows: bool = False

    def setting_names(self, settings: Mapping[str, Any]) -> set[str]:
        """The names of the settings that can be given, of all that a record of this method has."""
        named = {*self.uses, *self.fixed, *self.defaults}
        return (set(settings) - _NOT_OF_ALL) | named

    def validate(self, settings: Settings) -> None:
        """Refuse settings that break a rule, before any computing."""
        if self.check is not None:
            self.check(settings)


def training_cost(epochs: float, chains: int) -> dict[str, float | None]:
    """The cost of trained networks; their training is the method, so no anchor is counted."""
    return {
        "epochs": epochs,
        "forward_epochs": 0.0,
        "anchor_epochs": 0.0,
        "total_epochs": epochs * chains,
    }


def network_outcome(trained: Trained) -> Outcome:
    """One trained network as a method's outcome."""
    return Outcome(
        trained.posterior(1),
        cost=lambda islands: training_cost(trained.epochs, 1),
        wall_seconds=trained.seconds,
        details={"training": trained.summary()},
    )


def ensemble_outcome(trained: Trained, particles: int, islands: int) -> Outcome:
    """Trained networks as a method's outcome, dealt out to islands in order."""

    def cost(islands: int) -> dict[str, float | None]:
        passes = trained.member_epochs[: particles * islands]
        return training_cost(sum(passes) / len(passes), len(passes))

    details = {"training": trained.summary()}
    return Outcome(trained.posterior(islands), cost, trained.seconds, details)


def single_network_outcome(
    posterior: Posterior, trained: Trained | None, seconds: float
) -> Outcome:
    """Draws around one network as a method's outcome.

    Args:
        posterior: its total epochs are those of the network and of what was fitted around it.
        trained: the network, if it was trained separately.
        seconds: measured, without that training.

    Returns:
        The outcome; the epochs are of the one network, as in the paper's table.
    """
    cost = {**training_cost(posterior.cost.total_epochs, 1)}
    cost["forward_epochs"] = posterior.cost.forward_epochs
    details: dict[str, Any] = {"fit": posterior.settings}
    if trained is not None:
        details["training"] = trained.summary()
        seconds += trained.seconds
    return Outcome(posterior, lambda islands: dict(cost), seconds, details)
