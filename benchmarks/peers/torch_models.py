"""The models as functions of a flat parameter vector, in plain PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.peers.protocol import Task

Forward = Callable[[list[Tensor], Tensor, dict[str, Tensor], int], Tensor]


def _cnn(p: list[Tensor], x: Tensor, frozen: dict[str, Tensor], heads: int) -> Tensor:
    hidden = F.max_pool2d(F.relu(F.conv2d(x, p[0], p[1], padding=1)), 2)
    return F.linear(hidden.flatten(1), p[2], p[3])


def _strided(p: list[Tensor], x: Tensor, frozen: dict[str, Tensor], heads: int) -> Tensor:
    hidden = F.relu(F.conv2d(x, p[0], p[1], stride=2, padding=2))
    hidden = F.relu(F.conv2d(hidden, p[2], p[3], stride=2, padding=2))
    return F.linear(F.avg_pool2d(hidden, 2).flatten(1), p[4], p[5])


def _linear(p: list[Tensor], x: Tensor, frozen: dict[str, Tensor], heads: int) -> Tensor:
    return F.linear(x, p[0], p[1])


def _mlp(p: list[Tensor], x: Tensor, frozen: dict[str, Tensor], heads: int) -> Tensor:
    return F.linear(F.relu(F.linear(x, p[0], p[1])), p[2], p[3])


def _regression(p: list[Tensor], x: Tensor, frozen: dict[str, Tensor], heads: int) -> Tensor:
    for weight, bias in zip(p[:-2:2], p[1:-2:2], strict=True):
        x = F.relu(F.linear(x, weight, bias))
    return F.linear(x, p[-2], p[-1])


def _transformer(p: list[Tensor], x: Tensor, frozen: dict[str, Tensor], heads: int) -> Tensor:
    from benchmarks.transformer import transform

    return transform(p, x, frozen, heads)


FORWARDS: dict[str, Forward] = {
    "cnn": _cnn,
    "strided": _strided,
    "linear": _linear,
    "mlp": _mlp,
    "regression": _regression,
    "transformer": _transformer,
}


class TorchModel:
    """Log posterior of a task in whitened coordinates.

    Args:
        task: what to compute. torch's threads are set to its number.
        dtype: of all floating-point numbers.
    """

    def __init__(self, task: Task, dtype: torch.dtype = torch.float32) -> None:
        torch.set_num_threads(task.threads)
        arrays = {name: torch.from_numpy(array) for name, array in task.arrays.items()}
        tensors = {n: t.to(dtype) if t.is_floating_point() else t for n, t in arrays.items()}
        self.inputs, self.labels = tensors["inputs"], tensors["labels"]
        self.start, self._mean = tensors["start"], tensors["mean"]
        self._frozen = {name: tensors[f"frozen.{name}"] for name in task.frozen}
        self._task = task
        self._sizes = [int(np.prod(shape)) for shape in task.shapes]

    def log_likelihood(self, z: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        """Of some examples, a sum; `z` is one particle's position, `(dim,)`."""
        task = self._task
        pieces = (self._mean + task.scale * z).split(self._sizes)
        parameters = [piece.view(*shape) for piece, shape in zip(pieces, task.shapes, strict=True)]
        outputs = FORWARDS[task.kind](parameters, inputs, self._frozen, task.heads)
        if task.likelihood == "gaussian":
            mean, log_variance = outputs.split(1, dim=1)
            square = (labels - mean).square() * (-log_variance).exp()
            return -0.5 * (square + log_variance + math.log(2 * math.pi)).sum()
        return -F.cross_entropy(outputs, labels, reduction="sum")

    def log_posterior(self, z: Tensor) -> Tensor:
        """Of all examples, up to a constant."""
        return self.log_likelihood(z, self.inputs, self.labels) - z @ z / 2

    def check(self, probe: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log posterior and gradient at the probes."""
        values, gradients = [], []
        for row in torch.from_numpy(probe).to(self._mean.dtype):
            z = row.clone().requires_grad_()
            value = self.log_posterior(z)
            values.append(float(value.detach()))
            gradients.append(torch.autograd.grad(value, z)[0].numpy())
        return np.array(values), np.stack(gradients)
