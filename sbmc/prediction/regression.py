"""Predictions of numbers and counts: means, variances, and questions about their mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sbmc.checks import require_choice
from sbmc.likelihoods import Custom
from sbmc.prediction.base import SPLITS, BasePrediction, as_targets, refuse_split
from sbmc.prediction.entropies import Split
from sbmc.prediction.notebook import prediction_card
from sbmc.prediction.samples import Samples
from sbmc.storage.arrays import as_tensor


@dataclass(frozen=True, eq=False, repr=False)
class RegressionPrediction(BasePrediction):
    """Mean and variance of the predictive mixture, by the law of total variance.

    With m_i(x) the mean that particle i predicts, σ_i²(x) its noise variance and w_i its weight:

        mean       m(x) = Σ_i w_i m_i(x)
        aleatoric         Σ_i w_i σ_i²(x)
        epistemic         Σ_i w_i (m_i(x) − m(x))²
        total             aleatoric + epistemic

    Attributes:
        mean: `(examples,)` or `(examples, outputs)`, float64, as are the variances.
        aleatoric: variance of the noise, the shape of `mean`.
        epistemic: variance between particles, the shape of `mean`.
        total: their sum.
        origin: digest of the posterior that predicted; None if that is not known.
        particles: what every particle predicts, computed again when it is asked for; or None.
    """

    mean: Tensor
    aleatoric: Tensor
    epistemic: Tensor
    total: Tensor
    origin: str | None = None
    particles: Samples | None = None

    @property
    def variance(self) -> Tensor:
        """The total variance, in the shape of the mean."""
        return self.total

    def split(self, by: str = "variance") -> Split:
        """Total, aleatoric and epistemic uncertainty of each output.

        Args:
            by: `"variance"`, in the squared unit of the targets; or `"entropy"`, in nats, which is
                computed from the particles (`sbmc.prediction.entropies`).

        Returns:
            The three parts, each in the shape of the mean.

        Raises:
            BadInput: another word, or the particles are not known and are needed.
        """
        require_choice("by", by, SPLITS)
        if by == "variance":
            return Split(self.total, self.aleatoric, self.epistemic)
        if by == "entropy":
            return self._need_particles().entropies()
        raise refuse_split(by, "Numbers are hardly ever hit exactly: use 'variance' or 'entropy'.")

    def log_prob(self, targets: Any) -> Tensor:
        """Log density of each example's target under the mixture, all outputs together.

            log Σ_i w_i p_i(y|x)

        Args:
            targets: in the shape of the mean, or `(examples,)` where there is one output.

        Returns:
            `(examples,)` float64.

        Raises:
            BadInput: the shape is another, or the particles are not known.
        """
        particles = self._need_particles()
        # Only a user's function knows what its targets look like.
        own = isinstance(particles.likelihood, Custom)
        values = (
            as_tensor(targets, "targets", numbers=True) if own else as_targets(targets, self.mean)
        )
        return particles.log_prob(values)

    def crps(self, targets: Any) -> Tensor:
        """The continuous ranked probability score of each output, in the unit of the targets.

            ∫ (F(x) − 1[x ≥ y])² dx,  F = Σ_i w_i F_i

        Args:
            targets: as for `log_prob`.

        Returns:
            In the shape of the mean; 0 is perfect.

        Raises:
            BadInput: as for `log_prob`.
        """
        return self._need_particles().crps(as_targets(targets, self.mean))

    def cdf(self, targets: Any) -> Tensor:
        """The probability of values up to each target, P(Y ≤ y), in the shape of the mean."""
        return self._need_particles().cdf(as_targets(targets, self.mean))

    def sample(self, n: int, *, seed: int = 0) -> Tensor:
        """Draws of the targets. Each draw takes one particle for all examples.

        So a draw is one possible set of targets, whose dependence over examples is right too.

        Args:
            n: how many.
            seed: of the draws.

        Returns:
            `(n, *shape of the mean)` float64.

        Raises:
            BadInput: the particles are not known.
        """
        return self._need_particles().draws(n, seed)

    def _require_order(self) -> None:
        """Numbers have one."""

    def _repr_html_(self) -> str:
        """HTML for a notebook: mean and standard deviations of the first examples."""
        parts = {"total": self.total, "aleatoric": self.aleatoric, "epistemic": self.epistemic}
        columns = {"mean": self.mean, **{name: part.sqrt() for name, part in parts.items()}}
        unit = "Uncertainties are standard deviations, in the unit of the targets."
        return prediction_card(f"sbmc prediction: {len(self):,} examples", columns, unit)

    def __repr__(self) -> str:
        return f"RegressionPrediction(examples={len(self)}, outputs={self.mean[:1].numel() or 1})"
