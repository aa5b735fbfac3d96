"""The models as functions of a flat parameter vector, in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.peers.protocol import Task

# Images are kept with their channels last, which XLA's convolutions on a CPU are written for.
LAYOUT = ("NHWC", "OIHW", "NHWC")


def _convolve(x: Any, weight: Any, bias: Any, stride: int, padding: int) -> Any:
    pads = [(padding, padding)] * 2
    out = lax.conv_general_dilated(x, weight, (stride, stride), pads, dimension_numbers=LAYOUT)
    return out + bias


def _flatten(x: Any) -> Any:
    """Channels first again, as the flat vector of weights has them."""
    return jnp.transpose(x, (0, 3, 1, 2)).reshape(x.shape[0], -1)


def _cnn(p: list[Any], x: Any, frozen: dict[str, Any], heads: int) -> Any:
    hidden = jax.nn.relu(_convolve(x, p[0], p[1], 1, 1))
    n, height, width, channels = hidden.shape
    # Faster on a CPU than `lax.reduce_window`.
    pooled = hidden.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))
    return _flatten(pooled) @ p[2].T + p[3]


def _strided(p: list[Any], x: Any, frozen: dict[str, Any], heads: int) -> Any:
    hidden = jax.nn.relu(_convolve(x, p[0], p[1], 2, 2))
    hidden = jax.nn.relu(_convolve(hidden, p[2], p[3], 2, 2))
    n, height, width, channels = hidden.shape
    pooled = hidden.reshape(n, height // 2, 2, width // 2, 2, channels).mean((2, 4))
    return _flatten(pooled) @ p[4].T + p[5]


def _linear(p: list[Any], x: Any, frozen: dict[str, Any], heads: int) -> Any:
    return x @ p[0].T + p[1]


def _mlp(p: list[Any], x: Any, frozen: dict[str, Any], heads: int) -> Any:
    return jax.nn.relu(x @ p[0].T + p[1]) @ p[2].T + p[3]


def _regression(p: list[Any], x: Any, frozen: dict[str, Any], heads: int) -> Any:
    for layer in range(0, len(p) - 2, 2):
        x = jax.nn.relu(x @ p[layer].T + p[layer + 1])
    return x @ p[-2].T + p[-1]


def _normalise(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)


def _transformer(p: list[Any], x: Any, frozen: dict[str, Any], heads: int) -> Any:
    hidden = frozen["tokens"][x] + frozen["places"]
    n, length, width = hidden.shape

    def split(y: Any) -> Any:
        return y.reshape(n, length, heads, width // heads).transpose(0, 2, 1, 3)

    for block in range(2):
        down_q, up_q, down_v, up_v = p[4 * block : 4 * block + 4]
        normal = _normalise(hidden)
        base = normal @ frozen[f"{block}.qkv"].T
        q, k, v = jnp.split(base, 3, -1)
        q = split(q + normal @ down_q.T @ up_q.T)
        v = split(v + normal @ down_v.T @ up_v.T)
        scores = jax.nn.softmax(q @ split(k).swapaxes(-1, -2) / (width // heads) ** 0.5, -1)
        mixed = (scores @ v).transpose(0, 2, 1, 3).reshape(n, length, width)
        hidden = hidden + mixed @ frozen[f"{block}.out"].T
        inner = jax.nn.gelu(_normalise(hidden) @ frozen[f"{block}.up"].T, approximate=False)
        hidden = hidden + inner @ frozen[f"{block}.down"].T
    return _normalise(hidden).mean(1) @ p[8].T + p[9]


FORWARDS: dict[str, Callable[[list[Any], Any, dict[str, Any], int], Any]] = {
    "cnn": _cnn,
    "strided": _strided,
    "linear": _linear,
    "mlp": _mlp,
    "regression": _regression,
    "transformer": _transformer,
}


def _cnn_patches(p: list[Any], x: Any, frozen: dict[str, Any], heads: int) -> Any:
    """From patches `(examples, pooled positions, 4, 9)`: pooling is over one axis."""
    hidden = jax.nn.relu(x @ p[0].reshape(len(p[0]), -1).T + p[1]).max(2)
    return hidden.transpose(0, 2, 1).reshape(len(x), -1) @ p[2].T + p[3]


def _strided_patches(p: list[Any], x: Any, frozen: dict[str, Any], heads: int) -> Any:
    """From patches `(examples, height, width, 75)` of the first convolution."""
    hidden = jax.nn.relu(x @ p[0].reshape(len(p[0]), -1).T + p[1])
    padded = jnp.pad(hidden, ((0, 0), (2, 2), (2, 2), (0, 0)))
    n, height, width, channels = hidden.shape
    # Slices, since `conv_general_dilated_patches` is a convolution, too.
    seen = [padded[:, i : i + height : 2, j : j + width : 2] for i in range(5) for j in range(5)]
    second = jnp.stack(seen, -1).reshape(n, height // 2, width // 2, channels * 25)
    hidden = jax.nn.relu(second @ p[2].reshape(len(p[2]), -1).T + p[3])
    n, height, width, channels = hidden.shape
    pooled = hidden.reshape(n, height // 2, 2, width // 2, 2, channels).mean((2, 4))
    return _flatten(pooled) @ p[4].T + p[5]


PATCHES = {"cnn": _cnn_patches, "strided": _strided_patches}


def _patches_of(inputs: np.ndarray, kind: str) -> np.ndarray:
    """What the first convolution sees, `(examples, height, width, channels * kernel)`."""
    size, stride = (3, 1) if kind == "cnn" else (5, 2)
    margin = size // 2
    padded = np.pad(inputs, ((0, 0), (0, 0), (margin, margin), (margin, margin)))
    n, channels, *sides = inputs.shape
    rows, columns = (side // stride for side in sides)
    seen = [
        padded[:, c, i : i + stride * rows : stride, j : j + stride * columns : stride]
        for c in range(channels)
        for i in range(size)
        for j in range(size)
    ]
    patches = np.stack(seen, -1)
    if kind == "cnn":  # the four positions that are pooled stand together
        pairs = patches.reshape(n, rows // 2, 2, columns // 2, 2, -1).transpose(0, 1, 3, 2, 4, 5)
        patches = pairs.reshape(n, rows * columns // 4, 4, -1)
    return np.ascontiguousarray(patches)


class JaxModel:
    """Log posterior of a task in whitened coordinates, as functions of position and data.

    The data are an argument everywhere: closed over, they would become constants of the program.
    XLA has as many threads as its process may use cores.

    Args:
        task: what to compute.
        by_hand: rewrite convolutions as products with patches of the inputs, prepared once.
    """

    def __init__(self, task: Task, *, by_hand: bool = False) -> None:
        self._forward = (PATCHES if by_hand else FORWARDS)[task.kind]
        inputs = task.arrays["inputs"]
        if by_hand:
            inputs = _patches_of(inputs, task.kind)
        elif inputs.ndim == 4:
            inputs = np.ascontiguousarray(inputs.transpose(0, 2, 3, 1))
        labels = task.arrays["labels"]
        self.data = {
            "inputs": jnp.asarray(inputs),
            "labels": jnp.asarray(labels, dtype=jnp.int32 if labels.ndim == 1 else jnp.float32),
            "mean": jnp.asarray(task.arrays["mean"]),
            "frozen": {name: jnp.asarray(array) for name, array in task.frozen.items()},
        }
        self.start = jnp.asarray(task.arrays["start"])
        self._task = task
        self._ends = np.cumsum([int(np.prod(shape)) for shape in task.shapes])[:-1].tolist()

    def log_likelihood(self, z: Any, data: Any) -> Any:
        """A sum over all examples; `z` is one particle's position, `(dim,)`."""
        task = self._task
        pieces = jnp.split(data["mean"] + task.scale * z, self._ends)
        parameters = [piece.reshape(shape) for piece, shape in zip(pieces, task.shapes)]  # noqa: B905
        outputs = self._forward(parameters, data["inputs"], data["frozen"], task.heads)
        if task.likelihood == "gaussian":
            mean, log_variance = outputs[:, :1], outputs[:, 1:]
            square = jnp.square(data["labels"] - mean) * jnp.exp(-log_variance)
            return -0.5 * (square + log_variance + jnp.log(2 * jnp.pi)).sum()
        chosen = jnp.take_along_axis(jax.nn.log_softmax(outputs), data["labels"][:, None], 1)
        return chosen.sum()

    def log_posterior(self, z: Any, data: Any) -> Any:
        """Up to a constant."""
        return self.log_likelihood(z, data) - z @ z / 2

    def check(self, probe: np.ndarray) -> tuple[Any, Any]:
        """Log posterior and gradient at the probes."""
        both = jax.jit(jax.value_and_grad(self.log_posterior))
        found = [both(jnp.asarray(row), self.data) for row in probe]
        return np.array([value for value, _ in found]), np.stack([g for _, g in found])
