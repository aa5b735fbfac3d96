"""Whose prediction it is: a digest of everything that a posterior's predictions depend on."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from sbmc.model.parameters import ParameterSpace


def origin_digest(
    positions: Tensor, weights: Tensor, space: ParameterSpace, model_fingerprint: str
) -> str:
    """SHA-256 of positions, weights, the names of the sampled parameters and the rest of the model.

    A confidence classifier has learned the features of one posterior. Those of another one, with
    more particles or another spread, mean something else: the digest tells them apart.

    Args:
        positions: `(islands, particles, dim)`.
        weights: `(islands, particles)`.
        space: the sampled parameters.
        model_fingerprint: of structure, frozen weights and buffers (`sbmc.posterior.saving`).

    Returns:
        64 hexadecimal digits; the same on every device.
    """
    digest = hashlib.sha256(f"{model_fingerprint}{space.names}{space.shapes}".encode())
    for tensor in (positions, weights):
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()
