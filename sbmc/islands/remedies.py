"""What to try when a sampler did not do its work: the sampler itself says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sbmc import samplers
from sbmc.samplers.contract import Sampler
from sbmc.samplers.remedies import Symptom


def remedies_for(
    symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
) -> tuple[str, ...]:
    """Sentences that say what to try.

    Args:
        symptoms: what is wrong.
        settings: of the posterior; the sampler's name and settings are read.
        step_size: the smallest that an island ended with.

    Returns:
        The sentences, the one to begin with first.

    Example:
        >>> settings = {"sampler": "SGHMC", "sampler_settings": {"epochs": 4, "step_size": 0.1}}
        >>> remedies_for(["stayed"], settings, 0.1)[0]
        'Give the chains a longer run: sampler=sbmc.SGHMC(epochs=16, step_size=0.1).'
    """
    kind = _class_of(str(settings.get("sampler")))
    return kind.remedies(symptoms, settings.get("sampler_settings") or {}, step_size)


def _class_of(name: str) -> type[Sampler]:
    """A sampler by its name: the library's, or else one that this program has defined.

    A posterior knows its sampler by name alone, since it may come from a file. `Sampler` itself,
    with its general advice, stands for a class that this program does not know.
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
