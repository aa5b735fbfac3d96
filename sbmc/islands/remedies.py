"""Remedies for a run that is not healthy, as the sampler's class states them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sbmc import samplers
from sbmc.samplers.contract import Sampler
from sbmc.samplers.remedies import Symptom

LONGER_RUN = "Give the chains a longer run"


def remedies_for(
    symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
) -> tuple[str, ...]:
    """Sentences that say what to try.

    Args:
        symptoms: what is wrong.
        settings: the settings of the posterior, with the sampler's name and settings.
        step_size: the smallest final step size of an island.

    Returns:
        The sentences, in the order in which to try them.

    Examples:
        >>> settings = {"sampler": "SGHMC", "sampler_settings": {"epochs": 4, "step_size": 0.1}}
        >>> remedies_for(["stayed"], settings, 0.1)[0]
        'Give the chains a longer run: sampler=sbmc.SGHMC(epochs=16, step_size=0.1).'
    """
    kind = _class_of(str(settings.get("sampler")))
    advice = kind.remedies(symptoms, settings.get("sampler_settings") or {}, step_size)
    if not settings.get("budget"):
        return advice
    # The sampler was not chosen by the user, whose word for its length is the budget.
    larger = f"{LONGER_RUN} by a larger `budget` than {settings['budget']}."
    return (larger, *(each for each in advice if not each.startswith(LONGER_RUN)))


def _class_of(name: str) -> type[Sampler]:
    """Find the class of a sampler by its name, in the library or in the running program.

    A posterior has only the name of its sampler, since it may come from a file. For a class that is
    not found, `Sampler` itself gives general advice.
    """
    public = getattr(samplers, name, None)
    if isinstance(public, type) and issubclass(public, Sampler):
        return public
    return next((kind for kind in _derived(Sampler) if kind.__name__ == name), Sampler)


def _derived(kind: type[Sampler]) -> Iterator[type[Sampler]]:
    """All classes that derive from `kind`, the newest first."""
    for each in reversed(kind.__subclasses__()):
        yield from _derived(each)
        yield each
