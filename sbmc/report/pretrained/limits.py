"""What a posterior or a distilled network does not know, in sentences for its card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbmc.checks import is_number

if TYPE_CHECKING:
    from sbmc.posterior.distillation.distilled import Distilled
    from sbmc.posterior.posterior import Posterior

OUT_OF_DOMAIN = (
    "It knows rows like those that it was fitted to. Epistemic uncertainty tends to grow away from "
    "them, but nothing guarantees that it does: measure it on out-of-domain rows of your own, or "
    "let a confidence decide when to abstain."
)


def limits_of_posterior(posterior: Posterior, networks: int) -> list[str]:
    """What a posterior does not know.

    Args:
        posterior: which.
        networks: how many particles have a positive weight.

    Returns:
        Sentences.
    """
    settings = posterior.settings
    limits = [_about_the_prior(posterior)]
    if networks > 1:
        limits.append(
            f"{networks} networks stand for the whole posterior. Averages over so few have errors "
            f"of their own, and about 1/{networks} of the epistemic variance is missing."
        )
    if settings.get("thinned"):
        moved = settings["thinned"]["moved"]
        limits.append(f"It was thinned: predictions moved by {moved:.2g} (root mean square).")
    if posterior.positions.dtype != posterior.dtype:
        stored = str(posterior.positions.dtype).removeprefix("torch.")
        limits.append(f"Its particles are stored as {stored}, which rounds every weight.")
    if not posterior.likelihood.classification:
        limits.append(
            "Intervals are those of the likelihood above. Where noise has another form, they cover "
            "more or less than they say."
        )
    return [*limits, OUT_OF_DOMAIN]


def _about_the_prior(posterior: Posterior) -> str:
    settings = posterior.settings
    sampler: Any = settings.get("sampler")
    s: Any = settings.get("s")
    if posterior.mixture is not None:
        members = [each for each in posterior.mixture.members if each.weight > 0]
        parts = "; ".join(f"{each.name} ({each.weight:.0%})" for each in members)
        return (
            f"It is a mixture of the trained network and of priors anchored at it: {parts}. "
            "Weights were chosen on held-out rows, and other rows may want others."
        )
    if not is_number(s):
        return f"It was made by the method {sampler}, whose assumptions it shares."
    if s == 0:
        one = "a single trained network, without epistemic uncertainty" if sampler is None else ""
        return f"Nothing was sampled (s = 0): it is {one or f'what the method {sampler} gives'}."
    anchors = settings.get("anchors", 1)
    centre = "one trained network" if anchors == 1 else f"{anchors} trained networks"
    if s < 1:
        return (
            f"Its prior is anchored at {centre} (s = {s:g}). What solutions far from there would "
            "say is missing, so that epistemic uncertainty is that of this neighbourhood."
        )
    return (
        f"Its prior is the full one (s = 1), but its chains began at {centre}, and modes that they "
        "did not reach are missing."
    )


def limits_of_distilled(distilled: Distilled) -> list[str]:
    """What a distilled network does not know; the arguments are those of `limits_of_posterior`."""
    teacher = distilled.settings.get("particles")
    return [
        f"It is one network that imitates {teacher}. What was lost was measured on rows that were "
        "held out of the distillation, and not elsewhere.",
        "What its teacher did not know, it does not know either.",
        OUT_OF_DOMAIN,
    ]
