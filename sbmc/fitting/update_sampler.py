"""The sampler that goes on with more data: that of the fit, read from the posterior's settings."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sbmc import samplers
from sbmc.checks import BadInput, require
from sbmc.samplers.contract import Sampler
from sbmc.samplers.smc.data_tempering import DataTempering

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior

AGAIN = "Fit again, to all data: sbmc.fit(...)."
# What chains make of their steps or epochs, since they begin where they ended.
SHORTER = 2
# The sampler of the fit, in the settings of an updated posterior.
FITTED_WITH = "fitted_with"


def update_sampler(posterior: Posterior, given: Any) -> Sampler:
    """The sampler of an update: the one that is given, or that of the fit with shorter chains.

    Args:
        posterior: that is updated.
        given: settings of a sampler; None for those of the fit.

    Returns:
        The settings; of SMC with moves for added data, and with a schedule that adapts.

    Raises:
        BadInput: chains for SMC or the other way round, or a sampler that sbmc does not know.
    """
    made = _rebuilt(fitted_with(posterior))
    chosen = given
    if given is None:
        if made is None:
            raise BadInput(
                f"`sampler` must be given, since {posterior.settings['sampler']} is none of "
                "sbmc's samplers, but got None. Give settings such as sbmc.HMC(...)."
            )
        chosen = _shorter(made)
    good = isinstance(chosen, Sampler) and dataclasses.is_dataclass(chosen)
    require(good, "sampler", "settings such as sbmc.HMC(...) or sbmc.SMC(...)", chosen)
    tempered = posterior.settings["sampler"] == "SMC"
    if tempered != isinstance(chosen, samplers.SMC):
        # SMC needs draws of the old posterior with their evidence; chains would lose it.
        raise BadInput(
            "`sampler` must be SMC for a posterior of SMC and a chain for one of chains, but got "
            f"{type(chosen).__name__} for one of {posterior.settings['sampler']}. {AGAIN}"
        )
    if not isinstance(chosen, samplers.SMC):
        return chosen
    mutations = chosen.mutations if isinstance(chosen.mutations, int) else max(chosen.mutations)
    rows, particles = posterior.positions.shape[1], int(posterior.settings["particles"])
    if chosen.waste_free:
        mutations = rows // particles
    return replace(
        chosen,
        move=DataTempering(chosen.move),
        mutations=mutations,
        temperatures=None,
        step_sizes=None,
        pilot=False,
    )


def fitted_with(posterior: Posterior) -> dict[str, Any]:
    """The sampler of the fit, as plain values; updates may have had another."""
    settings = posterior.settings
    described = {"name": settings["sampler"], **settings["sampler_settings"]}
    return settings.get(FITTED_WITH, described)


def _rebuilt(described: dict[str, Any]) -> Any:
    name = described.get("name")
    kind = getattr(samplers, str(name), None) if name in samplers.__all__ else None
    if kind is None:
        return None
    known = {field.name for field in dataclasses.fields(kind) if field.init}
    values = {
        key: _rebuilt(value) if isinstance(value, dict) and "name" in value else value
        for key, value in described.items()
        if key in known
    }
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})


def _shorter(sampler: Sampler) -> Sampler:
    """Half of the steps or epochs, where that leaves a valid sampler."""
    for name in ("steps", "epochs"):
        value = getattr(sampler, name)
        if value is not None and value > 1:
            try:
                return replace(sampler, **{name: -(-value // SHORTER)})  # type: ignore[type-var]
            except BadInput:  # too short for its draws
                return sampler
    return sampler
