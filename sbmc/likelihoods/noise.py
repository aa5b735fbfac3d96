"""Noise of unknown size: learned with the weights, or given by the network.

The size of the noise is a column of logarithms beside the columns of the locations, one for each
of them or one for all. Where it is learned, the column is a parameter that is sampled with the
weights; where the network gives it, a further output. Either way it reaches the likelihood in the
outputs, so that all else is the same for both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import Phrase, is_number, require, require_choice
from sbmc.likelihoods.likelihood import FisherParts, Likelihood

# learned: one for each output; shared: learned, one for all outputs; network: given by it
Noise = Literal["learned", "shared", "network"]
NOISES = ("learned", "shared", "network")

# Logarithms up to this size are taken as they are: exp(±20) squared is a float32, with residuals.
LARGEST_LOG = 20.0


class NoisePrior(NamedTuple):
    """A normal prior of the logarithms that are learned: it is not scaled by s."""

    mean: Tensor  # (columns,)
    deviation: float


def softened(logs: Tensor) -> Tensor:
    """The logarithm that a column stands for, safe to exponentiate wherever the column starts.

    It is x up to |x| = 20 and ±(20 + log(1 + |x| − 20)) beyond: continuous with its slope, growing
    without end, and never with a slope of zero, so that a column that starts far away comes back.

    Args:
        logs: any numbers.

    Returns:
        Numbers of the same shape.

    Examples:
        >>> softened(torch.tensor([-7.0, 20.0, 1e6])).tolist()
        [-7.0, 20.0, 33.815...]
    """
    excess = (logs.abs() - LARGEST_LOG).clamp(min=0)
    return logs.clamp(-LARGEST_LOG, LARGEST_LOG) + logs.sign() * excess.log1p()


@dataclass(frozen=True, kw_only=True)
class NoisyLikelihood(Likelihood):
    """A likelihood whose outputs have columns of locations, and of noise where it is not known.

    Args:
        noise: `"learned"`, `"shared"` or `"network"`; None where the noise is known.
    """

    noise: Noise | None = None
    known: ClassVar[str]  # the field of noise that is known

    def __post_init__(self) -> None:
        value = getattr(self, self.known)
        if value is not None:
            good = is_number(value) and 0 < value < math.inf
            require(good, self.known, "positive and finite, or None to learn it", value)
            rule = f"left out where `{self.known}` is given"
            require(self.noise is None, "noise", rule, self.noise)
            object.__setattr__(self, self.known, float(value))
            return
        if self.noise is None:
            object.__setattr__(self, "noise", "learned")
        else:
            require_choice("noise", self.noise, NOISES)

    @property
    def learns_noise(self) -> bool:
        """Whether the noise is a parameter that is sampled with the weights."""
        return self.noise in ("learned", "shared")

    def known_log(self) -> float:
        """The logarithm of the noise, where it is known."""
        return math.log(getattr(self, self.known))

    def noise_columns(self, outputs: int) -> int:
        """How many columns of noise are learned for a network with so many outputs."""
        return {"learned": outputs, "shared": 1}.get(str(self.noise), 0)

    def split(self, outputs: Tensor) -> tuple[Tensor, Tensor | float]:
        """Locations, and the logarithm of the noise: of each column, of all, or known."""
        if self.noise is None:
            return outputs, self.known_log()
        columns = outputs.shape[-1]
        locations = columns - 1 if self.noise == "shared" else columns // 2
        return outputs[..., :locations], softened(outputs[..., locations:])

    def noise_prior(self, targets: Tensor, weights: Tensor | None = None) -> NoisePrior:
        """The prior of what is learned, for checked targets `(rows, outputs)` and their weights."""
        raise NotImplementedError

    def _location_scale_fisher(self, outputs: Tensor, place: float, size: float) -> FisherParts:
        """Locations with `place`/c², and logarithms of c² with `size` for each location."""
        places, logs = self.split(outputs)
        if not isinstance(logs, Tensor):
            return FisherParts(places, torch.full_like(places, place * math.exp(-logs)).detach())
        share = torch.full_like(logs, size * places.shape[-1] / logs.shape[-1])
        precisions = place * (-logs.detach()).exp().expand(places.shape)
        return FisherParts(torch.cat([places, logs], -1), torch.cat([precisions, share], -1))

    def _check_columns(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Targets as `(examples, outputs)`."""
        shape = tuple(outputs.shape)
        rule = "a network with outputs (examples, outputs)"
        require(outputs.ndim == 2, "model", rule, Phrase(f"outputs of shape {shape}"))
        wanted = shape[1]
        if self.noise == "network":
            rule = "a network with an even number of outputs: locations, then logs of the noise"
            require(shape[1] % 2 == 0, "model", rule, Phrase(f"outputs of shape {shape}"))
        if self.noise is not None:
            wanted = self.split(outputs)[0].shape[-1]
        values = targets.to(outputs.dtype)
        if values.ndim == 1:
            values = values.unsqueeze(-1)
        words = "the model's outputs" if self.noise != "network" else "half of the model's outputs"
        good = values.ndim == 2 and values.shape[1] == wanted
        rule = f"of shape (examples, {wanted}) like {words}"
        require(good, "targets", rule, tuple(targets.shape))
        return values


# Of the search for the noise: how many steps, how far one goes in a logarithm, the distance at
# which slopes are compared, and what counts as rounding.
MOST_STEPS, LONGEST_STEP, NEARBY, ROUNDING = 100, 2.0, 1e-4, 1e-12


def estimate_noise(
    likelihood: NoisyLikelihood, outputs: Tensor, targets: Tensor, weights: Tensor | None = None
) -> Tensor:
    """The most probable logarithms of the noise, with the network's outputs as they are.

    It maximises the log likelihood of all rows plus the log prior, in float64, by Newton's method
    with steps that are halved until they gain: a function of one or a few numbers, whose optimum is
    inside since the prior has tails. torch's optimisers and its second derivatives would import its
    compiler first, which takes a second; here second derivatives are differences of first ones.

    Args:
        likelihood: one that learns its noise.
        outputs: of the network alone, `(rows, outputs)`.
        targets: checked, `(rows, outputs)`.
        weights: of the rows, `(rows,)`; None if all are 1.

    Returns:
        `(columns,)` in the dtype of the outputs.

    Examples:
        >>> from sbmc.likelihoods.gaussian import Gaussian
        >>> targets = torch.tensor([1.0, -1.0]).repeat(5_000).unsqueeze(1)
        >>> round(estimate_noise(Gaussian(), torch.zeros(10_000, 1), targets).item(), 3)
        -0.0
    """
    locations, values = outputs.detach().double(), targets.double()
    prior = likelihood.noise_prior(values, weights)
    counts = 1.0 if weights is None else weights.double()

    def lack(logs: Tensor) -> Tensor:
        both = torch.cat([locations, logs.expand(len(locations), -1)], -1)
        surprise = -(counts * likelihood.log_prob(both, values)).sum()
        return surprise + 0.5 * ((logs - prior.mean) / prior.deviation).square().sum()

    def slope(logs: Tensor) -> Tensor:
        with torch.enable_grad():
            point = logs.detach().requires_grad_()
            return torch.autograd.grad(lack(point), point)[0]

    logs = prior.mean.clone()
    for _ in range(MOST_STEPS):
        value, gradient = lack(logs), slope(logs)
        # Each column has noise of its own: the second derivatives are a diagonal.
        curvature = (slope(logs + NEARBY) - slope(logs - NEARBY)) / (2 * NEARBY)
        # Where the function is not convex, the prior's curvature gives a direction downhill.
        step = gradient / torch.where(curvature > 0, curvature, prior.deviation**-2)
        step = step.clamp(-LONGEST_STEP, LONGEST_STEP)
        while lack(logs - step) > value + ROUNDING * value.abs():
            step = step / 2
        logs = logs - step
        if bool((step.abs() <= ROUNDING * (1 + logs.abs())).all()):
            break
    return logs.to(outputs.dtype)


def spread(targets: Tensor, columns: int, weights: Tensor | None = None) -> Tensor:
    """The log variance of weighted targets, `(columns,)`; of constant ones it is that of 1."""
    counts = torch.ones_like(targets[:, 0]) if weights is None else weights.to(targets)
    shares = (counts / counts.sum()).unsqueeze(1)
    variance = (shares * (targets - (shares * targets).sum(0)).square()).sum(0)
    variance = torch.where(variance > 0, variance, 1.0)
    return (variance if columns > 1 else variance.mean(0, keepdim=True)).log()
