"""Every sampler of `sbmc.samplers` as two methods: on the full posterior, and anchored (`s-`)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import sbmc
from sbmc.fitting.forecast import check
from sbmc_studies.experiments.methods.contract import Method, Outcome, Settings
from sbmc_studies.experiments.samplers import build_sampler, sampler_classes, sampler_defaults
from sbmc_studies.experiments.settings import anchors_at_map

if TYPE_CHECKING:
    from sbmc.islands.cost import Cost
    from sbmc_studies.experiments.context import Context, Trained

# Options of the prior, as `sbmc.Prior` takes them; None leaves them out.
PRIOR_OPTIONS = ("factor_variance", "covariance", "split", "posterior_temperature")
# The record has these warnings, and the command line prints them in its own form.
_IN_THE_RECORD = (".*islands failed", "The posterior is not ok", "The evidence leaves")


def sample(context: Context, kind: str, anchor_per_island: bool = False) -> Outcome:
    """Train what the chains need, and run them.

    Args:
        context: settings, data, network.
        kind: the sampler's name.
        anchor_per_island: anchor each island at another member of an ensemble.

    Returns:
        The outcome.
    """
    settings = context.settings
    trained: list[Trained] = []
    model: Any = context.network
    anchors = members = None
    if context.execution.memory_limit is not None:
        # Refuse a limit that is too small before anything is trained.
        options = untrained_fit_options(context, kind, anchor_per_island)
        check(context.network, context.data.train_and_validation, **options)
    if anchor_per_island:
        trained.append(context.ensemble(settings["islands"]))
        anchors = list(trained[0].models)
        model = anchors[0]
    elif needs_anchor(settings):
        trained.append(context.anchor(settings.get("anchor")))
        model = trained[0].models[0]
    if settings["start"] == "ensemble":
        trained.append(context.ensemble(settings["particles"]))
        members = trained[-1].models
    anchor_epochs = sum(float(sum(item.member_epochs)) for item in trained)

    with warnings.catch_warnings():
        for pattern in _IN_THE_RECORD:
            warnings.filterwarnings("ignore", message=pattern, category=RuntimeWarning)
        posterior = sbmc.fit(
            model,
            context.data.train_and_validation,
            progress=context.progress,
            **fit_options(context, kind, anchors, members, anchor_epochs),
        )

    def cost(islands: int) -> dict[str, float | None]:
        spent = posterior.first(islands).cost if islands < settings["islands"] else posterior.cost
        # If each island has an anchor, the first islands need only the first anchors.
        before = anchor_epochs
        if anchor_per_island:
            before = float(sum(trained[0].member_epochs[:islands]))
        chains = spent.epochs * settings["particles"] * islands
        return {
            "epochs": spent.epochs,
            "forward_epochs": spent.forward_epochs,
            "anchor_epochs": before,
            "total_epochs": chains + before + spent.prior_epochs,
        }

    return Outcome(
        posterior,
        cost,
        (posterior.cost.wall_seconds or 0.0) + sum(item.seconds for item in trained),
        {
            "training": [item.summary() for item in trained],
            "fit": posterior.settings,
            "memory": _memory(posterior.cost),
        },
    )


def untrained_fit_options(context: Context, kind: str, anchor_per_island: bool) -> Settings:
    """Arguments of `sbmc.expect`, with untrained networks where `sbmc.fit` takes trained ones.

    Args:
        context: settings, data, network.
        kind: the sampler's name.
        anchor_per_island: see `sample`.

    Returns:
        Keyword arguments; what they cost is the same, since the networks have the same shapes.
    """
    network, settings = context.network, context.settings
    anchors = [network] * settings["islands"] if anchor_per_island else None
    members = [network] * settings["particles"] if settings["start"] == "ensemble" else None
    return fit_options(context, kind, anchors, members)


def _memory(cost: Cost) -> dict[str, int | None]:
    """Bytes of the largest process: what was allowed, expected and measured."""
    return {
        "limit": cost.memory_limit,
        "expected": cost.expected_bytes,
        "peak": cost.peak_bytes,
    }


def needs_anchor(settings: Settings) -> bool:
    """Whether one network has to be trained, for the prior or to start from."""
    return anchors_at_map(settings) or settings["start"] == "anchor"


def prior_options(settings: Settings) -> dict[str, Any]:
    """Arguments of `sbmc.Prior` that the settings give."""
    return {name: settings[name] for name in PRIOR_OPTIONS if settings.get(name) is not None}


def fit_options(
    context: Context,
    kind: str,
    anchors: Any = None,
    members: Any = None,
    anchor_epochs: float = 0.0,
) -> Settings:
    """Arguments of `sbmc.fit` and `sbmc.expect`, apart from the model and the data.

    Args:
        context: settings, and how islands are run.
        kind: the sampler's name.
        anchors: networks, one for each island, if islands have different anchors.
        members: networks to start from, if that is what the settings say.
        anchor_epochs: what training the networks has cost.

    Returns:
        Keyword arguments.
    """
    settings, execution = context.settings, context.execution
    return {
        "s": settings["s"],
        "prior_variance": settings["prior_variance"],
        "sampler": build_sampler(kind, settings),
        "particles": settings["particles"],
        "islands": settings["islands"],
        "seed": context.seed,
        "start": settings["start"] if members is None else members,
        "anchors": anchors,
        "prior": sbmc.Prior(**prior_options(settings)),
        "compute": sbmc.Compute(
            executor=execution.build_executor(),
            checkpoint=execution.checkpoint_in(context.folder),
            memory_limit=execution.memory_limit,
            shards=execution.shards,
            retries=execution.retries,
            chunk_size=execution.chunk_size,
            first_island=settings.get("first_island") or 0,
            island_weights=settings.get("island_weights"),
            anchor_epochs=anchor_epochs,
        ),
    }


def sampler_method(
    kind: str,
    name: str,
    label: str,
    description: str,
    fixed: Settings,
    *,
    anchor_per_island: bool = False,
) -> Method:
    """A method that runs a sampler.

    Args:
        kind: the sampler's name.
        name: the method's.
        label: in tables.
        description: one line.
        fixed: settings that cannot be changed.
        anchor_per_island: see `sample`.

    Returns:
        The method.
    """
    sampler = sampler_classes()[kind]
    if sampler.default_start == "prior":  # SMC begins nowhere else
        fixed = {"start": "prior", **fixed}
    # Where each island has an anchor, there is no anchor to choose. And since those anchors are
    # trained as one batch, another machine could not train some of them to the same bits.
    chosen: tuple[str, ...] = () if anchor_per_island else ("anchor", "first_island")
    defaults = {**dict.fromkeys((*chosen, *PRIOR_OPTIONS)), **sampler_defaults(kind)}
    in_records = [each for each in ("steps", "leapfrog", "mutations") if each in defaults]
    return Method(
        name=name,
        label=label,
        description=description,
        cost=sampler.cost,
        run=partial(sample, kind=kind, anchor_per_island=anchor_per_island),
        uses=("s", "particles", "islands", *in_records),
        fixed=fixed,
        defaults=defaults,
        check=partial(build_sampler, kind),
        sampler=kind,
        grows=not anchor_per_island,
    )


def _both() -> Iterator[Method]:
    for kind, sampler in sampler_classes().items():
        title = sampler.__name__
        about = f"{title}∥, full posterior: {sampler.summary}"
        yield sampler_method(kind, kind, f"{title}∥", about, {"s": 1.0})
        about = f"S-{title}∥: the same, with the prior anchored at the MAP and scaled by s"
        yield sampler_method(kind, f"s-{kind}", f"S-{title}∥", about, {})


METHODS = tuple(_both())
