"""A class for each position of a row: segmentation of pictures, tagging of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Categorical as CategoricalDistribution
from torch.distributions import Independent

from sbmc.checks import Phrase, is_whole, require, require_count
from sbmc.likelihoods.categorical import require_integers, require_labels
from sbmc.likelihoods.likelihood import Kind, Likelihood


@dataclass(frozen=True, kw_only=True)
class DenseCategorical(Likelihood):
    """One of K classes at each position, independent given the outputs.

    A row's log likelihood is the sum over its positions, since each has a label of its own.
    Predictions have probabilities `(examples, *positions, classes)`.

    Args:
        dims: how many axes the positions have: 2 for pictures, 1 for sequences.
        axis: of the classes in the outputs of a batch: 1 for `(examples, classes, *positions)`, as
            in `nn.CrossEntropyLoss`, or -1 for `(examples, *positions, classes)`.
        ignore_index: a label of positions that do not count, such as -100; None for none.

    Examples:
        >>> labels = torch.tensor([[0, 1, -100]])
        >>> tagging = DenseCategorical(dims=1, axis=-1, ignore_index=-100)
        >>> tagging.log_prob(torch.zeros(1, 1, 3, 2), labels).exp()
        tensor([[0.2500]])
    """

    dims: int = 2
    axis: int = 1
    ignore_index: int | None = None
    kind: ClassVar[Kind] = "classes"
    name: ClassVar[str] = "dense"

    def __post_init__(self) -> None:
        require_count("dims", self.dims)
        good = is_whole(self.axis) and self.axis in (1, -1)
        require(good, "axis", "1 or -1", self.axis)
        good = self.ignore_index is None or is_whole(self.ignore_index)
        require(good, "ignore_index", "an integer or None", self.ignore_index)

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Sum over the positions that count of the log probability of their label."""
        logs = self.logits(outputs).log_softmax(-1)
        labels = targets.expand(logs.shape[:-1])
        if self.ignore_index is None:
            each = logs.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        else:
            counts = labels != self.ignore_index
            named = torch.where(counts, labels, 0).unsqueeze(-1)
            each = torch.where(counts, logs.gather(-1, named).squeeze(-1), 0)
        return each.flatten(-self.dims).sum(-1)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Integer labels `(examples, *positions)` in 0 .. K-1, or the label that is ignored."""
        require_integers(targets)
        layout = "classes, *positions" if self.axis == 1 else "*positions, classes"
        shown = Phrase(f"outputs of shape {tuple(outputs.shape)}")
        rule = f"a network with outputs (examples, {layout}) and {self.dims} axes of positions"
        require(outputs.ndim == self.dims + 2, "model", rule, shown)
        classes = outputs.shape[self.axis]
        require(classes >= 2, "model", "a network with two or more classes", shown)
        positions = tuple(self.logits(outputs).shape[1:-1])
        good = tuple(targets.shape[1:]) == positions
        rule = f"of shape (examples, {', '.join(map(str, positions))})"
        require(good, "targets", rule, tuple(targets.shape))
        labels = targets.long()
        counted = labels if self.ignore_index is None else labels[labels != self.ignore_index]
        require(counted.numel() > 0, "targets", "labels that count", Phrase("ignored ones alone"))
        require_labels(counted, classes)
        return labels

    def distribution(self, outputs: Tensor) -> Independent:
        """Classes at each position; positions that are ignored in the data are predicted too."""
        each = CategoricalDistribution(logits=self.logits(outputs), validate_args=False)
        return Independent(each, self.dims, validate_args=False)

    def logits(self, outputs: Tensor) -> Tensor:
        """The outputs, with the classes last."""
        return outputs if self.axis == -1 else outputs.movedim(-self.dims - 1, -1)
