"""The likelihood that an argument stands for."""

from __future__ import annotations

from sbmc.checks import BadInput, nearest
from sbmc.likelihoods.categorical import Categorical
from sbmc.likelihoods.custom import Custom
from sbmc.likelihoods.likelihood import Likelihood


def as_likelihood(likelihood: object) -> Likelihood:
    """`"categorical"`, a likelihood object, or a callable `(outputs, targets) -> (examples,)`."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if isinstance(likelihood, str):
        if likelihood == "categorical":
            return Categorical()
        hint = nearest(likelihood, ["categorical"])
        raise BadInput(
            f"`likelihood` must be 'categorical', sbmc.Gaussian(noise_variance=...) or a callable, "
            f"but got {likelihood!r}.{hint}"
        )
    if callable(likelihood) and not isinstance(likelihood, type):
        return Custom(likelihood)
    of = type(likelihood).__name__
    shown = f"the class {likelihood.__name__}" if isinstance(likelihood, type) else of
    raise BadInput(
        f"`likelihood` must be 'categorical', sbmc.Gaussian(noise_variance=...) or a callable, "
        f"but got {shown}."
    )
