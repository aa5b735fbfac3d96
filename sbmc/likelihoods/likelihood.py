"""The interface of a likelihood: the density of a target given a network's outputs for its row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor
from torch.distributions import Distribution

# classes: one of K; labels: each of L on or off; real: numbers; counts: 0, 1, 2, ...
Kind = Literal["classes", "labels", "real", "counts"]


class TargetMoments(NamedTuple):
    """What one particle predicts: the mean of the targets, and the variance of their noise."""

    mean: Tensor
    variance: Tensor | float


class FisherParts(NamedTuple):
    """What the Fisher information of a row is made of: Σ_j weight_j · (∂ value_j / ∂θ)²."""

    values: Tensor  # (rows, parts), differentiable in the outputs
    weights: Tensor  # (rows, parts), not negative


class Likelihood(ABC):
    """The density of a row's target given a network's outputs for that row.

    Outputs have the shape `(..., rows, *output shape)`; leading axes are particles. Values of rows
    are never averaged. Noise that is learned or given by the network is in the outputs too, after
    the other columns, so that everything can be computed from them alone.

    Attributes:
        name: in files, and as a string for `fit`.
        has_fisher: whether `fisher` is known.
    """

    name: ClassVar[str]
    has_fisher: ClassVar[bool] = False

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What the targets are: `"classes"`, `"labels"`, `"real"` or `"counts"`."""

    @property
    def classification(self) -> bool:
        """Whether predictions are probabilities of classes, and not means and variances."""
        return self.kind in ("classes", "labels")

    @staticmethod
    def of(
        function: Callable[[Tensor], Distribution], *, kind: Kind = "real", output_dims: int = 1
    ) -> Likelihood:
        """The likelihood of a function that makes a torch distribution of a network's outputs.

        Args:
            function: outputs `(rows, *output shape)` to a distribution of batch shape `(rows,)`, or
                with further axes that belong to the target of a row.
            kind: of the targets; `"classes"` or `"labels"` for `Categorical` and `Bernoulli`.
            output_dims: how many axes the outputs of one row have.

        Returns:
            The likelihood; the distribution also gives its predictions and their noise.

        Examples:
            >>> from torch.distributions import Laplace
            >>> Likelihood.of(lambda outputs: Laplace(outputs, 1.0)).kind
            'real'
        """
        from sbmc.likelihoods.from_distribution import FromDistribution

        return FromDistribution(function, kind, output_dims)

    @abstractmethod
    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Log likelihood of each row.

        Args:
            outputs: `(..., rows, *output shape)`.
            targets: `(rows, *target shape)`, shared by the leading axes; or, with `stacked`,
                with the leading axes of the outputs.
            stacked: whether the targets have these leading axes.

        Returns:
            `(..., rows)`.
        """

    @abstractmethod
    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """The targets in the form that `log_prob` wants, or an error.

        Args:
            targets: of all rows.
            outputs: of the network itself, `(rows, *output shape)`, for the first few rows.
        """

    @abstractmethod
    def distribution(self, outputs: Tensor) -> Distribution:
        """The predictive distribution of each particle and row.

        Args:
            outputs: `(..., rows, *output shape)`.

        Returns:
            A distribution of batch shape `(..., rows)`, whose event is the target of one row.
        """

    def logits(self, outputs: Tensor) -> Tensor:
        """Unnormalised log probabilities `(..., rows, *positions, classes)`, of classes alone."""
        raise TypeError(f"{type(self).__name__} has no classes")

    def moments(self, outputs: Tensor) -> TargetMoments:
        """Mean and variance of the targets of each particle and row; of numbers and counts."""
        distribution = self.distribution(outputs)
        return TargetMoments(distribution.mean, distribution.variance)

    def fisher(self, outputs: Tensor) -> FisherParts | None:
        """The parts of the Fisher information, the expectation over targets; None if not known.

        Args:
            outputs: `(rows, outputs)`.
        """
        return None

    def describe(self) -> dict[str, Any]:
        """Name and settings as plain values; settings that are None are left out."""
        plain: dict[str, Any] = {"name": self.name}
        if is_dataclass(self):
            values = {item.name: getattr(self, item.name) for item in fields(self)}
            plain |= {name: value for name, value in values.items() if value is not None}
        return plain
