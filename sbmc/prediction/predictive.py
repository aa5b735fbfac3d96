"""The predictive distribution of an ensemble: a mixture of what its particles predict.

With F_i the distribution that particle i predicts for a target and w_i its weight, the mixture is

    F(y|x) = Σ_i w_i F_i(y|x).

Its quantiles are no means of quantiles, and its log density is no mean of log densities: both are
computed from the mixture itself.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, Normal

from sbmc.checks import Phrase, is_number, require
from sbmc.prediction.cdf import (
    NoDistributionFunction,
    cdf,
    component_quantiles,
    is_discrete,
)
from sbmc.prediction.crps import (
    counted_crps,
    gaussian_mixture_crps,
    integrated_crps,
    sampled_crps,
)
from sbmc.prediction.drawing import draw
from sbmc.prediction.elementwise import elementwise
from sbmc.randomness import Stream, generator

# Each halving of a bracket adds a bit, and float64 has 52 of them.
HALVINGS = 52
# Where CRPS divides the line, a thousandth of the bracket is near enough.
HALVINGS_OF_EDGES = 10
# Where a distribution has no distribution function, quantiles and CRPS are those of draws.
DRAWS = 2_000
# Counts up to here are added up one by one for CRPS; beyond, draws are used.
MOST_COUNTS = 20_000
# A level that is met but for rounding counts as met: 0.25 + 0.25 against a level of 0.5.
LEVEL_WITHIN = 1e-12


class PredictiveMixture:
    """A weighted mixture of univariate distributions, one for each example and output.

    Args:
        components: of the particles, with batch shape `(particles, examples, ...)`, or as a
            likelihood gives them.
        weights: `(particles,)` float64, positive, of sum 1.

    Raises:
        BadInput: the distributions are not of single numbers.

    Examples:
        >>> far_apart = Normal(torch.tensor([[-9.0], [9.0]], dtype=torch.float64), 1.0)
        >>> mixture = PredictiveMixture(far_apart, torch.tensor([0.5, 0.5]))
        >>> [round(mixture.quantile(level).item(), 2) for level in (0.25, 0.75)]
        [-9.0, 9.0]
    """

    def __init__(self, components: Distribution, weights: Tensor) -> None:
        self.components = elementwise(components)
        event = tuple(self.components.event_shape)
        rule = "of single numbers, for quantiles, CRPS and entropies"
        got = Phrase(f"a {type(self.components).__name__} of event shape {event}")
        require(not event, "likelihood", rule, got)
        self.weights = weights.to(components.mean.device, torch.float64)

    @property
    def examples(self) -> int:
        """How many examples the mixture is for."""
        return self.components.batch_shape[1]

    @property
    def mean(self) -> Tensor:
        """Σ_i w_i m_i, `(examples, ...)`."""
        return self._mixed(self.components.mean.double())

    @property
    def variance(self) -> Tensor:
        """By the law of total variance, `(examples, ...)`."""
        means = self.components.mean.double()
        between = self._mixed((means - self._mixed(means)).square())
        return self._mixed(self.components.variance.double()) + between

    def cdf(self, values: Tensor) -> Tensor:
        """P(Y ≤ value), of the shape of the values `(examples, ...)`.

        Raises:
            NoDistributionFunction: a component has none.
        """
        return self._mixed(cdf(self.components, values.to(self.weights).unsqueeze(0)))

    def probability_within(self, lower: Tensor, upper: Tensor) -> Tensor:
        """P(lower ≤ Y ≤ upper) for all outputs of an example together.

        Outputs are independent given the particle, and not in the mixture.

        Args:
            lower: `(examples, ...)`.
            upper: `(examples, ...)`.

        Returns:
            `(examples,)`.

        Raises:
            NoDistributionFunction: a component has none.
        """
        below = lower.to(self.weights).unsqueeze(0)
        if is_discrete(self.components):
            below = below.ceil() - 1  # the lower end itself is inside
        each = cdf(self.components, upper.to(self.weights).unsqueeze(0))
        each = (each - cdf(self.components, below)).clamp(min=0.0)
        return self._mixed(each.flatten(2).prod(-1) if each.ndim > 2 else each)

    def log_prob(self, targets: Tensor) -> Tensor:
        """The log density, log Σ_i w_i p_i(y|x), of all outputs of an example together.

        Args:
            targets: `(examples, ...)`.

        Returns:
            `(examples,)`.
        """
        each = self.components.log_prob(targets.to(self.weights).unsqueeze(0))
        joint = each.flatten(2).sum(-1) if each.ndim > 2 else each
        return torch.logsumexp(joint.double() + self.weights.log().unsqueeze(1), 0)

    def quantile(self, level: float, halvings: int = HALVINGS) -> Tensor:
        """The smallest value whose probability P(Y ≤ value) is at least `level`.

        It is found by bisection: of the mixture's CDF, or, for counts, of the integers. A
        distribution without a CDF gives the quantile of draws.

        Args:
            level: between 0 and 1.
            halvings: of the bracket, for continuous targets.

        Returns:
            `(examples, ...)` float64.
        """
        try:
            if is_discrete(self.components):
                return self._integer_quantile(level)
            return self._continuous_quantile(level, halvings)
        except NoDistributionFunction:
            return self._draws().quantile(level, dim=0)

    def crps(self, targets: Tensor) -> Tensor:
        """The continuous ranked probability score of each output; see `sbmc.prediction.crps`.

        Args:
            targets: `(examples, ...)`.

        Returns:
            Of the same shape.
        """
        targets = targets.to(self.weights)
        if isinstance(self.components, Normal):
            means, scales = self.components.loc.double(), self.components.scale.double()
            return gaussian_mixture_crps(means, scales, self.weights, targets)
        try:
            if not is_discrete(self.components):
                return integrated_crps(
                    self.cdf, lambda level: self.quantile(level, HALVINGS_OF_EDGES), targets
                )
            last = self._integer_quantile(1 - 1e-9)
            if float(torch.maximum(last, targets).max()) <= MOST_COUNTS:
                return counted_crps(self._cdf_of_several, last, targets)
        except NoDistributionFunction:
            pass
        return sampled_crps(self._draws(), targets)

    def _mixed(self, values: Tensor) -> Tensor:
        return torch.tensordot(self.weights, values.expand(len(self.weights), *values.shape[1:]), 1)

    def _continuous_quantile(self, level: float, halvings: int) -> Tensor:
        low, high = self._bracket(level)
        for _ in range(halvings):
            middle = low + (high - low) / 2
            reached = self.cdf(middle) >= level
            low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
        return low + (high - low) / 2

    def _integer_quantile(self, level: float) -> Tensor:
        low, high = self._bracket(level)
        # The answer is above `low` and at most `high`, and F(−1) is 0.
        low, high = (low.floor() - 1).clamp(min=-1.0), high.ceil().clamp(min=0.0)
        while bool((high - low > 1).any()):
            middle = ((low + high) / 2).floor()
            reached = self.cdf(middle) >= level - LEVEL_WITHIN
            low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
        return high

    def _bracket(self, level: float) -> tuple[Tensor, Tensor]:
        """Two values with the quantile between them.

        A quantile of a mixture lies between the smallest and the largest one of its components.
        Where these have no closed form, Cantelli's inequality gives bounds by mean and variance.
        """
        if not is_discrete(self.components):
            each = component_quantiles(self.components, level)
            if each is not None:
                return each.min(0).values, each.max(0).values
        mean, deviation = self.mean, self.variance.sqrt()
        finite = bool(deviation.isfinite().all() & mean.isfinite().all())
        if not finite:
            raise NoDistributionFunction("a distribution without variance")
        below, above = ((1 - level) / level) ** 0.5, (level / (1 - level)) ** 0.5
        return mean - below * deviation, mean + above * deviation

    def _cdf_of_several(self, values: Tensor) -> Tensor:
        return torch.stack([self.cdf(each) for each in values])

    def _draws(self) -> Tensor:
        """Draws `(particles × draws of each, examples, ...)`, the same ones at each call.

        They are repeated in proportion to the particles' weights.
        """
        rng = generator(0, Stream.PREDICTIONS)
        repeats = (self.weights * DRAWS).round().clamp(min=1).long()
        draws = [draw(self.components, rng) for _ in range(int(repeats.max()))]
        kept = [torch.stack(draws[:n])[:, i] for i, n in enumerate(repeats.tolist())]
        return torch.cat(kept).double()


def weighted_quantile(values: Tensor, weights: Tensor, level: float) -> Tensor:
    """The smallest value such that it and those below have a weight of at least `level`.

    Args:
        values: `(particles, ...)`.
        weights: `(particles,)`, of sum 1.
        level: between 0 and 1.

    Returns:
        `(...)`.

    Examples:
        >>> values, weights = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0.2, 0.5, 0.3])
        >>> weighted_quantile(values, weights, 0.6).item()
        2.0
    """
    ordered, order = values.sort(0)
    reached = weights.to(values.device)[order].cumsum(0) >= level - LEVEL_WITHIN
    # Rounding may leave the whole sum below the level: the last value is always enough.
    reached[-1] = True
    first = reached.to(torch.uint8).argmax(0, keepdim=True)
    return ordered.gather(0, first).squeeze(0)


def checked_level(level: object, name: str = "level") -> float:
    """A probability between 0 and 1, exclusively.

    Raises:
        BadInput: it is none.
    """
    good = is_number(level) and 0 < level < 1  # type: ignore[operator]
    require(good, name, "between 0 and 1, exclusively", level)
    return float(level)  # type: ignore[arg-type]
