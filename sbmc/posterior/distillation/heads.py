"""From the outputs of a student to a prediction and its parts, and how both are learned.

A student has one column of outputs for each number that describes the prediction of its teacher.
The heads say what the columns mean. They are modules without parameters, so that a student and its
heads are one network, which can be exported.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, require
from sbmc.likelihoods.noise import softened

# Added to entropies before their roots are taken, where a root has no slope at zero.
LEAST_ENTROPY = 1e-8
# Variances below this part of the targets' variance count as this part: logarithms need an end.
LEAST_VARIANCE = 1e-8


class Parts(NamedTuple):
    """A prediction: what is expected, and its uncertainty in two parts."""

    mean: Tensor  # (examples, classes) probabilities, or (examples, outputs) numbers; float64
    total: Tensor  # (examples,) entropies, or (examples, outputs) variances, as are the next two
    aleatoric: Tensor
    epistemic: Tensor


class ClassHeads(nn.Module):
    """Logits of the mean probabilities, and one of the share of their entropy that is epistemic.

        p = softmax(first K outputs),  total = H(p),  epistemic = total · σ(last output)

    The loss of a row is KL(p_teacher ‖ p) + (√epistemic − √epistemic_teacher)². Roots count small
    entropies, which decide whether a row is in the domain, as much as large ones.

    Args:
        classes: K.

    Examples:
        >>> parts = ClassHeads(2)(torch.zeros(1, 3))
        >>> [round(part.item(), 4) for part in parts[1:]]  # log 2, one half of it each
        [0.6931, 0.3466, 0.3466]
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.columns = classes + 1

    @property
    def meaning(self) -> str:
        """What the columns are, in words."""
        return f"{self.classes} logits of the classes, then one of the epistemic share"

    def forward(self, outputs: Tensor, dtype: torch.dtype = torch.float64) -> Parts:
        """The prediction of outputs `(examples, K + 1)`, in a dtype."""
        # Classes first: what goes over few classes is then done for all examples at once.
        columns = outputs.to(dtype).T.contiguous()
        log_probs = columns[:-1].log_softmax(0)
        probs = log_probs.exp()
        total = -(probs * log_probs).sum(0)
        epistemic = total * columns[-1].sigmoid()
        return Parts(probs.T.contiguous(), total, total - epistemic, epistemic)

    def lessons(self, teacher: Parts, dtype: torch.dtype) -> Tensor:
        """What is learned of each row, `(examples, K + 1)`: probabilities, and √epistemic."""
        root = teacher.epistemic.clamp(min=0.0).sqrt().unsqueeze(1)
        return torch.cat([teacher.mean, root], 1).to(dtype)

    def loss(self, outputs: Tensor, lessons: Tensor) -> Tensor:
        """The mean loss of some rows."""
        log_probs = outputs[:, :-1].log_softmax(-1)
        probs, root = lessons[:, :-1], lessons[:, -1]
        divergence = (torch.xlogy(probs, probs) - probs * log_probs).sum(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        epistemic = entropy * outputs[:, -1].sigmoid() + LEAST_ENTROPY
        return (divergence + (epistemic.sqrt() - root).square()).mean()


class NumberHeads(nn.Module):
    """Means, and the logarithms of the variances of the noise and between particles.

    Columns are in units of the teacher's means on the data: u = (y − shift) / scale. The loss of a
    row and an output, with t² the total variance of the teacher, is

        (m − m_teacher)² / 2t² + ¼ (log noise − its own)² + ¼ (log epistemic − its own)²

    which is how fast the divergence of two normal distributions grows around its minimum.

    Args:
        shift: `(outputs,)`.
        scale: `(outputs,)`, positive.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, shift: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", shift.double())
        self.register_buffer("scale", scale.double())
        self.columns = 3 * len(shift)

    @property
    def meaning(self) -> str:
        """What the columns are, in words."""
        return "for each number that is predicted: its mean, then logs of noise and of epistemic"

    def forward(self, outputs: Tensor, dtype: torch.dtype = torch.float64) -> Parts:
        """The prediction of outputs `(examples, 3 × outputs)`, in a dtype and original units."""
        means, noise, epistemic = outputs.to(dtype).chunk(3, -1)
        shift, scale = self.shift.to(dtype), self.scale.to(dtype)
        variances = (
            scale.square() * softened(noise).exp(),
            scale.square() * softened(epistemic).exp(),
        )
        return Parts(shift + scale * means, sum(variances), *variances)  # type: ignore

    def lessons(self, teacher: Parts, dtype: torch.dtype) -> Tensor:
        """What is learned of each row, `(examples, 4 × outputs)`; the last are 1 / total."""
        square = self.scale.square()
        means = (teacher.mean - self.shift) / self.scale
        noise, epistemic = (
            (part / square).clamp(min=LEAST_VARIANCE) for part in (teacher.aleatoric, teacher[3])
        )
        columns = means, noise.log(), epistemic.log(), 1 / (noise + epistemic)
        return torch.cat(columns, -1).to(dtype)

    def loss(self, outputs: Tensor, lessons: Tensor) -> Tensor:
        """The mean loss of some rows."""
        means, noise, epistemic = outputs.chunk(3, -1)
        their_means, their_noise, their_epistemic, precision = lessons.chunk(4, -1)
        error = 0.5 * precision * (means - their_means).square()
        error = error + 0.25 * (softened(noise) - their_noise).square()
        error = error + 0.25 * (softened(epistemic) - their_epistemic).square()
        return error.sum(-1).mean()


Heads = ClassHeads | NumberHeads


def number_heads(means: Tensor) -> NumberHeads:
    """Heads in the units of the means that a teacher predicts for its data, `(rows, outputs)`."""
    scale = means.double().std(0, unbiased=False)
    return NumberHeads(means.double().mean(0), torch.where(scale > 0, scale, 1.0))


def check_columns(heads: Heads, outputs: object) -> None:
    """Refuse a network of another number of outputs, and say how many it has to have.

    Args:
        heads: what the outputs will be taken for.
        outputs: of the network that was given, for a few rows.

    Raises:
        BadInput: they are not `(rows, columns)`.
    """
    rule = f"a module with {heads.columns} outputs for each row ({heads.meaning})"
    require(isinstance(outputs, Tensor), "network", rule, outputs)
    assert isinstance(outputs, Tensor)
    shape = tuple(outputs.shape)
    if len(shape) != 2 or shape[1] != heads.columns:
        raise BadInput(
            f"`network` must be {rule}, but got outputs of shape {shape}. "
            f"End it with nn.Linear(..., {heads.columns}), or leave `network` out."
        )
