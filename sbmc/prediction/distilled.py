"""Predictions of a distilled network: the same questions, answered without particles.

Of classes a distilled network knows the mean probabilities p and the epistemic part of their
entropy. The spread of the probabilities is taken to be the Dirichlet distribution of mean p whose
mutual information is that part. Of numbers it knows the mean and two variances, and the target is
taken to be normal, and so is its mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, Normal

from sbmc.checks import BadInput, is_whole, require
from sbmc.likelihoods import Likelihood
from sbmc.prediction.entropies import Split
from sbmc.prediction.prediction import Prediction
from sbmc.prediction.predictive import checked_level
from sbmc.prediction.regression import RegressionPrediction
from sbmc.prediction.samples import KeptOutputs, Samples
from sbmc.randomness import Stream, generator

# Logs of the concentrations between which the one of a prediction is looked for.
LEAST_LOG, LARGEST_LOG = -30.0, 30.0
HALVINGS = 60


@dataclass(frozen=True, eq=False, repr=False)
class DistilledPrediction(Prediction):
    """Classes, predicted by a distilled network; see the top of this module."""

    @cached_property
    def concentration(self) -> Tensor:
        """The sum a of the Dirichlet parameters, `(examples,)`: large where particles agree.

        It solves `epistemic` = H(p) − [ψ(a + 1) − Σ_y p_y ψ(a p_y + 1)], which falls in a.
        """
        return dirichlet_concentration(self.probs, self.epistemic)

    @property
    def dirichlet(self) -> Tensor:
        """The Dirichlet parameters a·p, `(examples, classes)`."""
        return self.concentration.unsqueeze(-1) * self.probs

    def split(self, by: str = "entropy") -> Split:
        """By `"entropy"`, which the network knows, or by `"variance"`, from the Dirichlet.

        Raises:
            BadInput: another word; `"zero-one"` needs the particles.
        """
        if by != "variance":
            return super().split(by)
        agreement = self.probs.square().sum(-1)
        within = (agreement * self.concentration + 1) / (self.concentration + 1)
        return Split(1 - agreement, 1 - within, within - agreement)

    def quantile(self, q: float | Sequence[float], *, kind: str = "prediction") -> Tensor:
        """Of the probabilities (`kind="credible"`): quantiles of the Dirichlet's Beta marginals."""
        if kind != "credible":
            return super().quantile(q, kind=kind)
        from scipy.special import betaincinv

        several = isinstance(q, (Sequence, Tensor))
        levels = [checked_level(each, "q") for each in (q if several else [q])]  # type: ignore
        parameters = self.dirichlet.cpu().numpy()
        rest = np.maximum(self.concentration.cpu().numpy()[:, None] - parameters, 1e-300)
        found = [betaincinv(np.maximum(parameters, 1e-300), rest, level) for level in levels]
        ends = torch.from_numpy(np.stack(found)).to(self.probs)
        return ends if several else ends[0]

    def sample(self, n: int, *, seed: int = 0) -> Tensor:
        """Draws of the labels, `(n, examples)`, each example by itself.

        How labels depend on one another over examples is known to the particles alone.
        """
        require(is_whole(n) and n > 0, "n", "a positive integer", n)
        rng = generator(seed, Stream.PREDICTIONS)
        return torch.multinomial(self.probs.cpu(), n, replacement=True, generator=rng).T

    def _need_particles(self) -> NoReturn:
        raise BadInput(
            "`prediction` must be one of a posterior to be asked this, but got one of a distilled "
            "network, which has no particles. Ask `posterior.predict(x)`."
        )

    def __repr__(self) -> str:
        return f"Distilled{super().__repr__()}"


@dataclass(frozen=True, eq=False, repr=False)
class DistilledRegressionPrediction(RegressionPrediction):
    """Numbers, predicted by a distilled network; see the top of this module.

    Its one particle is the normal distribution with the predicted mean and total variance.
    """

    def quantile(self, q: float | Sequence[float], *, kind: str = "prediction") -> Tensor:
        """Of the target, or (`kind="credible"`) of its mean, both taken to be normal."""
        if kind != "credible":
            return super().quantile(q, kind=kind)
        several = isinstance(q, (Sequence, Tensor))
        levels = [checked_level(each, "q") for each in (q if several else [q])]  # type: ignore
        deviation = self.epistemic.sqrt()
        ends = [
            self.mean + deviation * torch.special.ndtri(torch.tensor(level, dtype=torch.float64))
            for level in levels
        ]
        return torch.stack(ends) if several else ends[0]

    def split(self, by: str = "variance") -> Split:
        """By `"variance"`, or by `"entropy"` of normal distributions, in nats."""
        if by != "entropy":
            return super().split(by)
        total, aleatoric = (
            0.5 * (2 * torch.pi * torch.e * part).log() for part in (self.total, self.aleatoric)
        )
        return Split(total, aleatoric, total - aleatoric)

    def __repr__(self) -> str:
        return f"Distilled{super().__repr__()}"


def distilled_prediction(
    mean: Tensor, total: Tensor, aleatoric: Tensor, epistemic: Tensor, *, classes: bool
) -> DistilledPrediction | DistilledRegressionPrediction:
    """The prediction of a distilled network from its parts, float64.

    Args:
        mean: `(examples, classes)` probabilities, or `(examples, outputs)` numbers.
        total: entropies `(examples,)`, or variances in the shape of the mean, as are the others.
        aleatoric: of it.
        epistemic: of it.
        classes: which of the two.
    """
    if classes:
        return DistilledPrediction(mean, total, aleatoric, epistemic)
    outputs = torch.cat([mean, total.sqrt()], -1).unsqueeze(0)
    particle = Samples(KeptOutputs(outputs), torch.ones(1, dtype=torch.float64), NORMAL)
    return DistilledRegressionPrediction(mean, aleatoric, epistemic, total, particles=particle)


def dirichlet_concentration(probs: Tensor, epistemic: Tensor) -> Tensor:
    """The sum of the parameters of the Dirichlet distribution with a mean and an information.

    Args:
        probs: its mean, `(examples, classes)`.
        epistemic: the mutual information of the label and the probabilities, `(examples,)`.

    Returns:
        `(examples,)` float64, by bisection of its logarithm; from e^−30 to e^30.

    Examples:
        >>> half = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
        >>> information = mutual_information(half, torch.tensor([3.0]))
        >>> round(dirichlet_concentration(half, information).item(), 6)
        3.0
    """
    low = torch.full_like(epistemic, LEAST_LOG, dtype=torch.float64)
    high = torch.full_like(low, LARGEST_LOG)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        too_spread = mutual_information(probs, middle.exp()) > epistemic
        low, high = torch.where(too_spread, middle, low), torch.where(too_spread, high, middle)
    return ((low + high) / 2).exp()


def mutual_information(probs: Tensor, concentration: Tensor) -> Tensor:
    """H(p) − [ψ(a + 1) − Σ_y p_y ψ(a p_y + 1)] of Dirichlet distributions of mean p, `(examples,)`.

    Args:
        probs: `(examples, classes)`.
        concentration: a, `(examples,)`.
    """
    probs, total = probs.double(), concentration.double().unsqueeze(-1)
    inner = torch.digamma(total[..., 0] + 1) - (probs * torch.digamma(total * probs + 1)).sum(-1)
    return torch.special.entr(probs).sum(-1) - inner


def _normal(outputs: Tensor) -> Distribution:
    """Means and standard deviations, one after the other in the last axis."""
    mean, deviation = outputs.chunk(2, -1)
    return Normal(mean, deviation, validate_args=False)


NORMAL: Any = Likelihood.of(_normal)
