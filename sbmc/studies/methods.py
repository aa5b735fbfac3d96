"""The registry of methods: what `--method` may name, and how each is run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput, nearest
from sbmc.studies.samplers import build_sampler, sampler_defaults
from sbmc.studies.settings import Settings

if TYPE_CHECKING:
    from sbmc.posterior import Posterior
    from sbmc.studies.runner import Context


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
        description: one line for `sbmc methods`.
        run: does it.
        uses: settings it has besides `prior_variance` and those of training.
        fixed: settings that make it what it is, and that cannot be changed.
        sampler: `"hmc"`, `"sgld"` and so on, whose settings are then settings of the method.
    """

    name: str
    description: str
    run: Callable[[Context], Outcome]
    uses: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    sampler: str | None = None

    def defaults(self) -> Settings:
        """The sampler's own defaults."""
        return sampler_defaults(self.sampler)

    def setting_names(self, settings: Mapping[str, Any]) -> set[str]:
        """Name the settings that can be given, out of all that a record of this method has."""
        absent = {"network", "s", "particles", "islands", "steps", "leapfrog", "mutations"}
        return (set(settings) - absent) | set(self.uses) | set(self.fixed) | set(self.defaults())

    def validate(self, settings: Settings) -> None:
        """Have the sampler check its settings, before any computing."""
        if self.sampler is not None:
            build_sampler(self.sampler, settings)


def _run_map(context: Context) -> Outcome:
    trained = context.anchor()
    posterior = trained.posterior(1)
    return Outcome(
        posterior,
        cost=lambda islands: _cost(epochs=trained.epochs, chains=1),
        wall_seconds=trained.seconds,
        details={"training": trained.summary()},
    )


def _run_ensemble(context: Context) -> Outcome:
    particles, islands = context.settings["particles"], context.settings["islands"]
    trained = context.ensemble(particles * islands)

    def cost(islands: int) -> dict[str, float | None]:
        passes = trained.member_epochs[: particles * islands]
        return _cost(epochs=sum(passes) / len(passes), chains=len(passes))

    return Outcome(
        trained.posterior(islands), cost, trained.seconds, {"training": trained.summary()}
    )


def _sample(context: Context, kind: str) -> Outcome:
    import sbmc

    settings = context.settings
    start, s = settings["start"], settings["s"]
    # What the chains need before they begin, and what it costs. At s = 1/2 and above the prior is
    # not centred on the anchor, so unless chains start there nobody has to train one.
    trained = []
    model = context.network
    if s < 0.5 or start == "anchor":
        trained.append(context.anchor())
        model = trained[0].models[0]
    begin: Any = start
    if start == "ensemble":
        members = context.ensemble(settings["particles"])
        trained.append(members)
        begin = members.models
    anchor_epochs = sum(float(sum(item.member_epochs)) for item in trained)

    with warnings.catch_warnings():
        # What is warned of is in the record, and the command line says it in its own words.
        for words in (".*islands failed", "The population", "The evidence leaves"):
            warnings.filterwarnings("ignore", message=words, category=RuntimeWarning)
        posterior = sbmc.fit(
            model,
            context.data.train_and_validation,
            s=s,
            prior_variance=settings["prior_variance"],
            sampler=build_sampler(kind, settings),
            particles=settings["particles"],
            islands=settings["islands"],
            seed=context.seed,
            start=begin,
            island_weights=settings.get("island_weights"),
            anchor_epochs=anchor_epochs,
            progress=context.progress,
        )

    def cost(islands: int) -> dict[str, float | None]:
        own = posterior if islands == settings["islands"] else posterior.first(islands)
        return {
            "epochs": own.cost.epochs,
            "forward_epochs": own.cost.forward_epochs,
            "anchor_epochs": anchor_epochs,
            "total_epochs": own.cost.epochs * settings["particles"] * islands + anchor_epochs,
        }

    return Outcome(
        posterior,
        cost,
        (posterior.cost.wall_seconds or 0.0) + sum(item.seconds for item in trained),
        {"training": [item.summary() for item in trained], "fit": posterior.settings},
    )


def _cost(epochs: float, chains: int) -> dict[str, float | None]:
    # A trained network is its own anchor: its passes are the method's, as in the paper's table.
    return {
        "epochs": epochs,
        "forward_epochs": 0.0,
        "anchor_epochs": 0.0,
        "total_epochs": epochs * chains,
    }


_HMC_SETTINGS = ("s", "particles", "islands", "steps", "leapfrog")
_SMC_SETTINGS = ("s", "particles", "islands", "mutations", "leapfrog")
_CHAIN_SETTINGS = ("s", "particles", "islands")

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "map",
            "the network that maximises the posterior (MAP): no uncertainty but the softmax",
            _run_map,
            fixed={"s": 0.0, "particles": 1, "islands": 1},
        ),
        Method(
            "de",
            "deep ensemble: particles × islands networks trained from different initial weights",
            _run_ensemble,
            uses=("particles", "islands"),
            fixed={"s": 0.0},
        ),
        Method(
            "hmc",
            "HMC∥ on the full posterior (s = 1): particles × islands parallel chains",
            partial(_sample, kind="hmc"),
            uses=_HMC_SETTINGS,
            fixed={"s": 1.0},
            sampler="hmc",
        ),
        Method(
            "s-hmc",
            "S-HMC∥: HMC on the posterior whose prior is anchored at the MAP and scaled by s",
            partial(_sample, kind="hmc"),
            uses=_HMC_SETTINGS,
            sampler="hmc",
        ),
        Method(
            "smc",
            "SMC∥ on the full posterior (s = 1): islands of tempered particles, from the prior",
            partial(_sample, kind="smc"),
            uses=_SMC_SETTINGS,
            fixed={"s": 1.0, "start": "prior"},
            sampler="smc",
        ),
        Method(
            "s-smc",
            "S-SMC∥: SMC on the posterior whose prior is anchored at the MAP and scaled by s",
            partial(_sample, kind="smc"),
            uses=_SMC_SETTINGS,
            fixed={"start": "prior"},
            sampler="smc",
        ),
        Method(
            "sgld",
            "SGLD∥ on the full posterior (s = 1): Langevin dynamics, on mini-batches",
            partial(_sample, kind="sgld"),
            uses=_CHAIN_SETTINGS,
            fixed={"s": 1.0},
            sampler="sgld",
        ),
        Method(
            "s-sgld",
            "S-SGLD∥: SGLD on the posterior whose prior is anchored at the MAP and scaled by s",
            partial(_sample, kind="sgld"),
            uses=_CHAIN_SETTINGS,
            sampler="sgld",
        ),
        Method(
            "sghmc",
            "SGHMC∥ on the full posterior (s = 1): HMC with friction, on mini-batches",
            partial(_sample, kind="sghmc"),
            uses=_CHAIN_SETTINGS,
            fixed={"s": 1.0},
            sampler="sghmc",
        ),
        Method(
            "s-sghmc",
            "S-SGHMC∥: SGHMC on the posterior whose prior is anchored at the MAP and scaled by s",
            partial(_sample, kind="sghmc"),
            uses=_CHAIN_SETTINGS,
            sampler="sghmc",
        ),
        Method(
            "ubu",
            "UBU∥ on the full posterior (s = 1): kinetic Langevin, mini-batches there and back",
            partial(_sample, kind="ubu"),
            uses=_CHAIN_SETTINGS,
            fixed={"s": 1.0},
            sampler="ubu",
        ),
        Method(
            "s-ubu",
            "S-UBU∥: UBU on the posterior whose prior is anchored at the MAP and scaled by s",
            partial(_sample, kind="ubu"),
            uses=_CHAIN_SETTINGS,
            sampler="ubu",
        ),
    )
}


def get_method(name: str) -> Method:
    """Look a method up by its name.

    Args:
        name: a key of `METHODS`.

    Returns:
        The method.

    Raises:
        BadInput: if there is no such method; the message has the nearest name.

    Example:
        >>> get_method("s-hmc").name
        's-hmc'
    """
    if name not in METHODS:
        raise BadInput(
            f"`method` must be one of {', '.join(METHODS)}, but got {name!r}."
            + nearest(name, METHODS)
        )
    return METHODS[name]


def get_methods(names: Iterable[str]) -> list[Method]:
    """Look several methods up, each once, in the order given."""
    return [get_method(name) for name in dict.fromkeys(names)]
