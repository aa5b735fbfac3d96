"""The origin of a prediction: a digest of all that a posterior's predictions depend on."""

from __future__ import annotations

import hashlib

from torch import Tensor, nn

from sbmc.model.parameters import ParameterSpace, named_tensors
from sbmc.storage.digests import feed_tensor


def origin_digest(
    positions: Tensor, weights: Tensor, space: ParameterSpace, model_fingerprint: str
) -> str:
    """SHA-256 of positions, weights, the names of the sampled parameters and the rest of the model.

    A confidence classifier has learned the features of one posterior. The features of another one,
    with more particles or another spread, have another meaning. The digest distinguishes them.

    Args:
        positions: `(islands, particles, dim)`.
        weights: `(islands, particles)`.
        space: the sampled parameters.
        model_fingerprint: the digest of structure, frozen weights and buffers (`fingerprint`).

    Returns:
        64 hexadecimal digits; the same on every device.
    """
    digest = hashlib.sha256(f"{model_fingerprint}{space.names}{space.shapes}".encode())
    for tensor in (positions, weights):
        digest.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
        feed_tensor(digest, tensor)
    return digest.hexdigest()


def fingerprint(model: nn.Module, space: ParameterSpace) -> str:
    """A digest of what predictions depend on besides the positions.

    These are the structure of the model, its frozen weights and its buffers. Its `forward` is
    compared by its outputs: see `sbmc.target.probe`.
    """
    digest = hashlib.sha256(repr(model).encode())
    sampled = set(space.names)
    for name, tensor in sorted(named_tensors(model).items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        # BatchNorm's count of training batches has no part in predictions.
        if name not in sampled and name.rpartition(".")[2] != "num_batches_tracked":
            feed_tensor(digest, tensor)
    return digest.hexdigest()
