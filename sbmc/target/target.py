"""The target of every sampler: the likelihood engine in the whitened coordinates of a prior.

With θ = mean + scale·z the prior is N(0, I) in z, and by the chain rule the gradient in z is the
gradient in θ times the scale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from sbmc.prior.gaussian import AnchoredPrior
from sbmc.target.contract import Engine


class Evaluation(NamedTuple):
    """The likelihood at a batch of positions; the leading axis is the particle."""

    log_likelihood: Tensor  # (particles,) float64, a sum over examples
    gradient: Tensor  # (particles, dim), with respect to the whitened position


@dataclass
class Evaluations:
    """How many particles were evaluated over all data, with and without gradient."""

    gradient: int = 0
    forward: int = 0


@dataclass(eq=False)
class Target:
    """ℓ(θ(z)) and its gradient in z, for whitened positions z: an engine composed with a prior.

    The tempered target is λ·ℓ(θ(z)) − ‖z‖²/2. The prior's part is left to the sampler, which needs
    no evaluation for it, so that a change of temperature costs none either. With a `power`, ℓ is
    that many times the log likelihood of the data.

    A target is light: several of them, each with its prior and its count of evaluations, share one
    engine.

    Args:
        engine: log likelihood and gradient in the model's own coordinates.
        prior: the prior, which defines the coordinates.
        power: the exponent of the likelihood, for a cold posterior or a part of the likelihood.
        evaluations: the count of evaluations that this target has made.
    """

    engine: Engine
    prior: AnchoredPrior
    power: float = 1.0
    evaluations: Evaluations = field(default_factory=Evaluations)

    @property
    def dim(self) -> int:
        """Number of sampled parameters."""
        return self.prior.dim

    @property
    def blocks(self) -> tuple[int, ...]:
        """How many coordinates each parameter of the model has, in their order."""
        return self.engine.block_sizes

    def __call__(self, positions: Tensor) -> Evaluation:
        """Log likelihood and gradient over all data; one epoch for each particle.

        Args:
            positions: whitened, `(particles, dim)`.

        Returns:
            The evaluation. Non-finite values are passed on, for the sampler to reject.
        """
        self.evaluations.gradient += len(positions)

        def whitened(gradient: Tensor) -> Tensor:
            # In place, because in float64 it is as large as two copies of the positions; and
            # before it is rounded to their dtype.
            return gradient.mul_(self.power).mul_(self.prior.scale).to(positions.dtype)

        parts = positions, self.prior.to_parameters, whitened, positions.dtype
        value, gradient = self.engine.evaluate(*parts)
        return Evaluation(self.power * value, gradient)

    def log_likelihood(self, positions: Tensor) -> Tensor:
        """Log likelihood alone, `(particles,)` float64: one forward epoch for each particle."""
        self.evaluations.forward += len(positions)
        return self.power * self.engine.log_likelihood(self.prior.to_parameters(positions))

    def split(self, batches: int) -> list[Target]:
        """Targets of disjoint parts of the data, which add up to this one.

        Each counts its own evaluations. An evaluation of all of them is one epoch of this one,
        which the caller has to count.
        """
        return [Target(part, self.prior, self.power) for part in self.engine.split(batches)]
