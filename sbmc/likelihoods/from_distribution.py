"""A likelihood by a function that returns a distribution of torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, Independent

from sbmc.checks import (
    Phrase,
    describe_value,
    require,
    require_choice,
    require_count,
    require_function,
)
from sbmc.likelihoods.bernoulli import two_class_logits
from sbmc.likelihoods.likelihood import Kind, Likelihood

KINDS = ("classes", "labels", "real", "counts")


@dataclass(frozen=True)
class FromDistribution(Likelihood):
    """The log density of a distribution that a function makes of the outputs.

    Args:
        function: outputs `(rows, *output shape)` to a `torch.distributions.Distribution` whose
            batch shape begins with the rows. Further axes of its batch shape belong to the target
            of a row. Rows are independent: those of several particles are given together.
        kind: of the targets; `"classes"` for a `Categorical` or `Bernoulli`, `"labels"` for several
            of the latter, `"counts"`, or else `"real"`.
        output_dims: how many axes the outputs of one row have.

    Examples:
        >>> from torch.distributions import Laplace
        >>> laplace = FromDistribution(lambda outputs: Laplace(outputs, 0.5))
        >>> laplace.log_prob(torch.zeros(2, 3, 1), torch.zeros(3, 1)).exp()[0]
        tensor([1., 1., 1.])
    """

    function: Callable[[Tensor], Distribution]
    kind: Kind = "real"
    output_dims: int = 1
    name: ClassVar[str] = "distribution"

    def __post_init__(self) -> None:
        require_function("function", self.function, "outputs")
        require_choice("kind", self.kind, KINDS)
        require_count("output_dims", self.output_dims, 0)

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """The distribution's values, for all particles in one call of the function."""
        return self.distribution(outputs).log_prob(targets)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Call the function on the first rows, and check its distribution."""
        count = len(outputs)
        with torch.enable_grad():
            free = outputs.detach().clone().requires_grad_()
            made = self.function(free)
            shown = Phrase(describe_value(made))
            rule = "a function that returns a torch Distribution"
            require(isinstance(made, Distribution), "likelihood", rule, shown)
            shape = Phrase(f"batch shape {tuple(made.batch_shape)} for {count} rows")
            rule = "a function whose distribution has the rows as the first axis of its batch shape"
            require(made.batch_shape[:1] == (count,), "likelihood", rule, shape)
            self._check_kind(made)
            rows = self.distribution(free)
            values = targets
            if made.support.is_discrete is False:  # type: ignore[union-attr]
                values = targets.to(outputs.dtype)
            if values.ndim == 1 and tuple(rows.event_shape) == (1,):
                values = values.unsqueeze(-1)
            rule = f"of shape (examples, {', '.join(map(str, rows.event_shape))})"
            good = values.shape[1:] == rows.event_shape
            require(good, "targets", rule.replace(", )", ",)"), tuple(targets.shape))
            densities = rows.log_prob(values[:count])
        rule = "a function that is differentiable in the outputs"
        require(densities.requires_grad, "likelihood", rule, Phrase("values without a gradient"))
        return values

    def distribution(self, outputs: Tensor) -> Distribution:
        """What the function makes of the rows of all particles, with their axes."""
        leading = outputs.shape[: outputs.ndim - self.output_dims]
        flat = self.function(outputs.reshape(-1, *outputs.shape[len(leading) :]))
        further = len(flat.batch_shape) - 1
        rows = Independent(flat, further, validate_args=False) if further else flat
        return rows if len(leading) == 1 else Reshaped(rows, leading)

    def logits(self, outputs: Tensor) -> Tensor:
        """Of the classes, or of off and on."""
        leading = outputs.shape[: outputs.ndim - self.output_dims]
        made = self.function(outputs.reshape(-1, *outputs.shape[len(leading) :]))
        while isinstance(made, Independent):
            made = made.base_dist
        if isinstance(made, Categorical):
            return made.logits.unflatten(0, leading)
        assert isinstance(made, Bernoulli)  # or `_check_kind` has refused it
        found = two_class_logits(made.logits.unflatten(0, leading))
        one_column = self.kind == "classes" and found.ndim == len(leading) + 2
        return found.squeeze(-2) if one_column and found.shape[-2] == 1 else found

    def describe(self) -> dict[str, Any]:
        """A function cannot be described further."""
        return {"name": self.name, "kind": self.kind, "output_dims": self.output_dims}

    def _check_kind(self, made: Distribution) -> None:
        base = made
        while isinstance(base, Independent):
            base = base.base_dist
        classes = isinstance(base, (Categorical, Bernoulli))
        rule = f'"classes" or "labels" for a {type(base).__name__}, and for no other distribution'
        require(classes == self.classification, "kind", rule, self.kind)


class Reshaped(Distribution):
    """A distribution of rows, seen with the axes of particles.

    Args:
        rows: of batch shape `(rows,)`.
        shape: whose product is the number of rows.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, rows: Distribution, shape: torch.Size) -> None:
        self.rows = rows
        super().__init__(torch.Size(shape), rows.event_shape, validate_args=False)

    @property
    def support(self) -> Any:
        """That of a row."""
        return self.rows.support

    @property
    def mean(self) -> Tensor:
        """Of each row."""
        return self.rows.mean.unflatten(0, self.batch_shape)

    @property
    def variance(self) -> Tensor:
        """Of each row."""
        return self.rows.variance.unflatten(0, self.batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Of targets that can be expanded to the batch shape."""
        return self._of_rows(self.rows.log_prob, value)

    def cdf(self, value: Tensor) -> Tensor:
        """Of targets that can be expanded to the batch shape."""
        return self._of_rows(self.rows.cdf, value)

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008, as in torch
        """Draws `(*sample shape, *batch shape, *event shape)`."""
        drawn = self.rows.sample(torch.Size(sample_shape))
        return drawn.unflatten(len(sample_shape), self.batch_shape)

    def _of_rows(self, function: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
        each = value.expand(*self.batch_shape, *self.event_shape)
        rows = each.reshape(-1, *self.event_shape)
        return function(rows).unflatten(0, self.batch_shape)
