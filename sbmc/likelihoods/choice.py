"""The likelihood that an argument stands for, or that targets and outputs suggest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, describe_value, nearest
from sbmc.likelihoods.bernoulli import Bernoulli
from sbmc.likelihoods.categorical import Categorical, is_integer, is_one_hot, label_remedy
from sbmc.likelihoods.custom import Custom
from sbmc.likelihoods.dense import DenseCategorical
from sbmc.likelihoods.from_distribution import FromDistribution
from sbmc.likelihoods.gaussian import Gaussian
from sbmc.likelihoods.likelihood import Likelihood
from sbmc.likelihoods.multi_label import MultiLabel
from sbmc.likelihoods.negative_binomial import NegativeBinomial
from sbmc.likelihoods.poisson import Poisson
from sbmc.likelihoods.rescaled import Rescaled
from sbmc.likelihoods.student_t import StudentT

NAMED: dict[str, Callable[[], Likelihood]] = {
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "multi-label": MultiLabel,
    "segmentation": DenseCategorical,
    "tagging": lambda: DenseCategorical(dims=1, axis=-1),
    "gaussian": Gaussian,
    "gaussian-network": lambda: Gaussian(noise="network"),
    "student-t": StudentT,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
}
"""The likelihoods that have a string."""

# The same for a type checker: what is predicted under a likelihood that is given.
OfClasses = (
    Literal["categorical", "bernoulli", "multi-label", "segmentation", "tagging"]
    | Categorical
    | Bernoulli
    | MultiLabel
    | DenseCategorical
)
OfNumbers = (
    Literal["gaussian", "gaussian-network", "student-t", "poisson", "negative-binomial"]
    | Gaussian
    | StudentT
    | Poisson
    | NegativeBinomial
    | Callable[[Tensor, Tensor], Tensor]
)

_CLASSES: dict[str, type[Likelihood]] = {
    each.name: each
    for each in (
        Categorical,
        Bernoulli,
        MultiLabel,
        DenseCategorical,
        Gaussian,
        StudentT,
        Poisson,
        NegativeBinomial,
    )
}
OF_FUNCTIONS: dict[str, type[Custom] | type[FromDistribution]] = {
    Custom.name: Custom,
    FromDistribution.name: FromDistribution,
}
DESCRIBED = (*_CLASSES, *OF_FUNCTIONS, Rescaled.name)
"""The names by which `Likelihood.describe` calls likelihoods."""


class Inferred(NamedTuple):
    """A likelihood that was not given, and in words why it was taken."""

    likelihood: Likelihood
    reason: str

    @property
    def explanation(self) -> str:
        """Which it is, and why; empty for one that was given."""
        return f"{self.likelihood}, since {self.reason}" if self.reason else ""


def as_likelihood(likelihood: object) -> Likelihood:
    """A likelihood object, its string, or a callable `(outputs, targets) -> (examples,)`.

    Args:
        likelihood: what was given.

    Returns:
        The likelihood.

    Raises:
        BadInput: it is none of these.

    Examples:
        >>> as_likelihood("student-t").df
        4.0
    """
    if isinstance(likelihood, Likelihood):
        return likelihood
    if isinstance(likelihood, str) and likelihood in NAMED:
        return NAMED[likelihood]()
    if callable(likelihood) and not isinstance(likelihood, type | nn.Module):
        return Custom(likelihood)
    shown, hint = describe_value(likelihood), ""
    if isinstance(likelihood, str):
        hint = nearest(likelihood, NAMED)
    elif isinstance(likelihood, type):
        shown = f"the class {likelihood.__name__}"
    raise BadInput(
        f"`likelihood` must be one of {', '.join(map(repr, NAMED))}, a likelihood such as "
        f"sbmc.Gaussian(noise_variance=...), or a callable, but got {shown}.{hint}"
    )


def from_description(
    description: Mapping[str, Any], function: Callable[..., Any] = print
) -> Likelihood:
    """The likelihood that `Likelihood.describe` described.

    Args:
        description: its name and settings.
        function: of a likelihood that has one: code is not described.

    Returns:
        The likelihood.

    Raises:
        TypeError: settings that the likelihood does not have, or lacks.
        BadInput: settings that break their rules.

    Examples:
        >>> from_description({"name": "gaussian", "noise_variance": 2.0}).noise_variance
        2.0
    """
    settings = {name: value for name, value in description.items() if name != "name"}
    name = description["name"]
    if name == Rescaled.name:
        return Rescaled(from_description(settings.pop("base")), **settings)
    if name in OF_FUNCTIONS:
        return OF_FUNCTIONS[name](function, **settings)
    return _CLASSES[name](**settings)


def infer_likelihood(targets: Tensor, outputs: Tensor) -> Inferred:
    """The likelihood that the targets' dtype and shape and the outputs' shape suggest.

    Args:
        targets: of all rows.
        outputs: of the network, `(rows, ...)`, for the first few rows.

    Returns:
        The likelihood, and why.

    Raises:
        BadInput: they fit none, or several.

    Examples:
        >>> infer_likelihood(torch.zeros(4), torch.zeros(2, 1)).reason
        'targets are numbers in the shape of the outputs'
    """
    shape, width = tuple(targets.shape[1:]), tuple(outputs.shape[1:])
    one_each = shape in ((), (1,))
    if shape == width and outputs.ndim == 2 and is_one_hot(targets):
        pass  # labels of classes as easily as numbers or several labels: the user has to say
    elif targets.is_floating_point():
        if outputs.ndim == 2 and (shape == width or (shape == () and width == (1,))):
            return Inferred(Gaussian(), "targets are numbers in the shape of the outputs")
    elif outputs.ndim > 2:
        return _dense(targets, outputs)
    elif width == (1,) and one_each and _binary(targets):
        return Inferred(Bernoulli(), "targets are 0 and 1, and there is one output")
    elif len(width) == 1 and width[0] > 1 and shape == width and _binary(targets):
        return Inferred(MultiLabel(), "targets are 0 and 1 in the shape of the outputs")
    elif len(width) == 1 and width[0] > 1 and shape == () and is_integer(targets.dtype):
        return Inferred(Categorical(), f"targets are integers, and there are {width[0]} outputs")
    shown = ", ".join(["examples", *map(str, width)])
    raise BadInput(
        f"`likelihood` must be given for targets of shape {tuple(targets.shape)} and dtype "
        f"{targets.dtype} with outputs of shape ({shown}), but got None. "
        f"{_readings(targets, width)}"
    )


def _binary(targets: Tensor) -> bool:
    return targets.dtype == torch.bool or bool(((targets == 0) | (targets == 1)).all())


def _dense(targets: Tensor, outputs: Tensor) -> Inferred:
    shape, width = tuple(targets.shape[1:]), tuple(outputs.shape[1:])
    first, last = width[1:] == shape, width[:-1] == shape
    if is_integer(targets.dtype) and first != last:
        axis = 1 if first else -1
        where = "before" if first else "after"
        reason = f"targets are integers at each position, and classes come {where} the positions"
        return Inferred(DenseCategorical(dims=len(shape), axis=axis), reason)
    readings = (
        "sbmc.DenseCategorical(dims=..., axis=1) has classes before the positions, axis=-1 after"
    )
    raise BadInput(
        f"`likelihood` must be given for targets of shape {tuple(targets.shape)} with outputs of "
        f"shape {tuple(outputs.shape)}, but got None. {readings}."
    )


def _readings(targets: Tensor, width: tuple[int, ...]) -> str:
    if tuple(targets.shape[1:]) == width and is_one_hot(targets):
        return (
            "They can be read in several ways: as one-hot labels, for which "
            'targets.argmax(1) makes those of "categorical"; as "multi-label"; or as numbers, '
            '"gaussian".'
        )
    if targets.is_floating_point() and targets.ndim == 1 and width == (2,):
        return (
            'They can be read in two ways: sbmc.Gaussian(noise="network") for a mean and a log '
            'variance, or "categorical" for two classes, with integer targets: targets.long().'
        )
    if width == (1,) and is_integer(targets.dtype):
        return (
            'Give "poisson" or "negative-binomial" for counts, "gaussian" for numbers, or '
            '"categorical" for a network with an output for each class.'
        )
    if len(width) == 1 and width[0] > 1:
        return f'"categorical" takes integer targets of shape (examples,){label_remedy(targets)}.'
    return "They fit no likelihood by themselves."
