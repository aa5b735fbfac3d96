"""Predictions of classes: probabilities, and where their uncertainty comes from.

Numbers are in `sbmc.prediction.regression`, and what both have in common is in
`sbmc.prediction.base`. Everything is computed in float64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require, require_choice, require_flag
from sbmc.prediction.base import SPLITS, BasePrediction, refuse_split
from sbmc.prediction.crps import class_crps
from sbmc.prediction.entropies import Split
from sbmc.prediction.notebook import prediction_card
from sbmc.prediction.regression import RegressionPrediction
from sbmc.prediction.samples import Samples, join_samples
from sbmc.storage.arrays import as_tensor

FEATURES = (
    "max_probability",
    "total",
    "mean_max_probability",
    "mean_margin",
    "epistemic",
    "variance_max_probability",
    "variance_margin",
)
"""The paper's seven features of a prediction, in its order; the last three are zero for a point."""


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(BasePrediction):
    """Predictive probabilities and the split of their entropy, in nats (paper, eq. `entropy`).

    With p_i(y|x) the probabilities of particle i and w_i its weight:

        probs      p(y|x)  = Σ_i w_i p_i(y|x)
        total      H_tot(x) = − Σ_y p(y|x) log p(y|x)
        aleatoric  H_al(x)  = − Σ_i w_i Σ_y p_i(y|x) log p_i(y|x)
        epistemic  H_ep(x)  = H_tot(x) − H_al(x)

    The epistemic part is the mutual information of label and parameters: zero when all particles
    agree, and at most the log of the number of classes. No part is ever negative; rounding that
    would make it so is cut off at zero.

    How sure each particle is enters through p_i,max(x) = max_y p_i(y|x) and its margin Δ_i(x), the
    difference of its two largest probabilities. Every particle has its own most probable class
    here, as the paper's y* depends on θ; that of the mixture plays no part.

    Attributes:
        probs: `(examples, classes)`, float64, rows sum to 1. Where an example has several labels,
            `(examples, *positions, classes)`, and all else has the positions too.
        total: `(examples,)`.
        aleatoric: `(examples,)`, what more data would leave.
        epistemic: `(examples,)`, what more data would remove.
        mean_max_probability: `(examples,)`, Σ_i w_i p_i,max; None if the particles are not known.
        mean_margin: `(examples,)`, Σ_i w_i Δ_i; None likewise.
        variance_max_probability: `(examples,)`, Σ_i w_i (p_i,max − its mean)²; None likewise.
        variance_margin: `(examples,)`, Σ_i w_i (Δ_i − its mean)²; None likewise.
        mean_square_probability: `(examples,)`, Σ_i w_i Σ_y p_i(y|x)²; None likewise.
        origin: digest of the posterior that predicted; None if that is not known.
        particles: what every particle predicts, computed again when it is asked for; or None.
    """

    probs: Tensor
    total: Tensor
    aleatoric: Tensor
    epistemic: Tensor
    mean_max_probability: Tensor | None = None
    mean_margin: Tensor | None = None
    variance_max_probability: Tensor | None = None
    variance_margin: Tensor | None = None
    mean_square_probability: Tensor | None = None
    origin: str | None = None
    particles: Samples | None = None

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        """The probabilities: the mean of labels as unit vectors, `(examples, classes)`."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """Of labels as unit vectors, p (1 − p), `(examples, classes)`."""
        return self.probs * (1 - self.probs)

    @property
    def labels(self) -> Tensor:
        """The most probable class of each example, `(examples,)`; the first one of equals."""
        return self.probs.argmax(dim=-1)

    @property
    def max_probability(self) -> Tensor:
        """The probability of that class in the mixture, `(examples,)`."""
        return self.probs.max(dim=-1).values

    def features(self) -> Tensor:
        """The paper's seven features of each example, from which its confidence is inferred.

            p_max, H_tot, E[p_i,max], E[Δ_i], H_ep, Var[p_i,max], Var[Δ_i]

        The last three measure disagreement between particles and are exactly zero for one particle.

        Returns:
            `(examples, 7)` float64, in the order of `FEATURES`.

        Raises:
            BadInput: if the prediction was not made from particles.

        Examples:
            >>> from sbmc.prediction.combining import classification_prediction
            >>> one = torch.tensor([[[0.7, 0.2, 0.1]]], dtype=torch.float64).log()
            >>> prediction = classification_prediction(one, torch.ones(1))
            >>> [round(value, 3) for value in prediction.features()[0].tolist()]
            [0.7, 0.802, 0.7, 0.5, 0.0, 0.0, 0.0]
        """
        columns = [getattr(self, name) for name in FEATURES]
        missing = [name for name, column in zip(FEATURES, columns, strict=True) if column is None]
        rule = "made from particles, by `predict` or `classification_prediction`, to have features"
        require(not missing, "prediction", rule, Phrase(f"one without {', '.join(missing)}"))
        return torch.stack([column.double() for column in columns], dim=1)

    def split(self, by: str = "entropy") -> Split:
        """Total, aleatoric and epistemic uncertainty, by one of three losses.

            entropy    H(p)                 log loss: how surprising the label will be, in nats
            variance   1 − Σ_y p(y)²        squared loss: the Brier score that is expected
            zero-one   1 − max_y p(y)       how often the likeliest class is wrong

        The aleatoric part is the particles' mean of the same quantity, the epistemic one the rest.

        Args:
            by: `"entropy"`, `"variance"` or `"zero-one"`.

        Returns:
            The three parts, each `(examples,)`; their sum is exact but for rounding.

        Raises:
            BadInput: another word, or the prediction was not made from particles.

        Examples:
            >>> from sbmc.prediction.combining import classification_prediction
            >>> sure_of_each = torch.eye(2).log().unsqueeze(1)
            >>> prediction = classification_prediction(sure_of_each, torch.tensor([0.5, 0.5]))
            >>> [round(prediction.split(by).epistemic.item(), 4) for by in ("variance", "zero-one")]
            [0.5, 0.5]
        """
        require_choice("by", by, SPLITS)
        if by == "entropy":
            return Split(self.total, self.aleatoric, self.epistemic)
        inner = {"variance": self.mean_square_probability, "zero-one": self.mean_max_probability}
        if by not in inner:
            raise refuse_split(by, "")
        agreement = inner[by]
        rule = "made from particles to be split"
        got = Phrase("one without them")
        require(agreement is not None, "prediction", rule, got)
        assert agreement is not None
        largest = self.probs.square().sum(-1) if by == "variance" else self.max_probability
        return Split(1 - largest, 1 - agreement, (agreement - largest).clamp(min=0.0))

    def log_prob(self, targets: Any) -> Tensor:
        """Log probability of each example's label in the mixture, log Σ_i w_i p_i(y|x).

        Where an example has several labels it is that of all of them together.

        Args:
            targets: `(examples,)` integers, or as the likelihood takes them.

        Returns:
            `(examples,)` float64; minus infinity where a label is impossible.

        Raises:
            BadInput: labels do not fit the prediction.
        """
        if self.probs.ndim == 2:
            labels = self.checked_labels(targets)
            return self.probs.gather(1, labels.unsqueeze(1)).squeeze(1).log()
        particles = self._need_particles()
        few = particles[: min(2, len(self))].outputs()[0]
        return particles.log_prob(particles.likelihood.check(as_tensor(targets, "targets"), few))

    def crps(self, targets: Any, *, ordered: bool = False) -> Tensor:
        """The counterpart of CRPS for classes: half the Brier score; see `class_crps`.

        Args:
            targets: labels, `(examples,)`.
            ordered: whether the order of the classes means something: then it is the ranked
                probability score, which is the CRPS of the labels as numbers.

        Returns:
            `(examples,)`.

        Raises:
            BadInput: labels do not fit the prediction.
        """
        require_flag("ordered", ordered)
        return class_crps(self.probs, self.checked_labels(targets), ordered=ordered)

    def sample(self, n: int, *, seed: int = 0) -> Tensor:
        """Draws of the labels. Each draw takes one particle for all examples.

        So a draw is one possible set of labels, and not only one label at a time.

        Args:
            n: how many.
            seed: of the draws.

        Returns:
            `(n, examples)` integers.

        Raises:
            BadInput: the particles are not known.
        """
        return self._need_particles().draws(n, seed).long()

    def _require_order(self) -> None:
        raise BadInput(
            "`kind` must be 'credible' for classes, which have no order, but got 'prediction'. "
            "The credible interval is that of their probabilities."
        )

    def checked_labels(self, targets: Any) -> Tensor:
        """Labels as integers, or an error if they do not fit the probabilities."""
        labels = as_tensor(targets, "targets", numbers=True).to(self.probs.device)
        shape = tuple(self.probs.shape[:-1])
        require(labels.shape == shape, "targets", f"of shape {shape}", tuple(labels.shape))
        classes = self.probs.shape[-1]
        whole = not labels.is_complex() and bool((labels == labels.long()).all())
        inside = whole and bool(((labels >= 0) & (labels < classes)).all())
        rule = f"integers from 0 to {classes - 1}"
        require(inside, "targets", rule, Phrase("others"))
        return labels.long()

    def _repr_html_(self) -> str:
        """HTML for a notebook: the labels of the first examples, and how sure they are."""
        columns = {"label": self.labels, "probability": self.max_probability}
        columns |= {"total": self.total, "aleatoric": self.aleatoric, "epistemic": self.epistemic}
        unit = "Uncertainties are entropies, in nats."
        caption = f"sbmc prediction: {len(self):,} examples, {self.probs.shape[-1]} classes"
        return prediction_card(caption, columns, unit)

    def __repr__(self) -> str:
        return f"Prediction(examples={len(self)}, classes={self.probs.shape[-1]})"


AnyPrediction = TypeVar("AnyPrediction", Prediction, RegressionPrediction)


def concatenate(predictions: Iterable[AnyPrediction]) -> AnyPrediction:
    """Join the predictions of consecutive batches into one.

    Args:
        predictions: at least one, all of the same kind.

    Returns:
        One prediction for all examples, in the order given. A part that one of the batches lacks is
        None, and so are the particles unless all of them kept their outputs.

    Raises:
        BadInput: if there is none, or they are of different kinds or of different posteriors.
    """
    batches = list(predictions)
    require(len(batches) > 0, "predictions", "at least one prediction", batches)
    kind = type(batches[0])
    kinds = sorted({type(batch).__name__ for batch in batches})
    require(len(kinds) == 1, "predictions", "all of one kind", kinds)
    return kind(
        *(_joined(field.name, [getattr(b, field.name) for b in batches]) for field in fields(kind))
    )


def _joined(name: str, parts: list[Any]) -> Any:
    if name == "origin":
        require(len(set(parts)) == 1, "predictions", "all of one posterior", Phrase("several"))
        return parts[0]
    if any(part is None for part in parts):
        return None
    return join_samples(parts) if name == "particles" else torch.cat(parts)
