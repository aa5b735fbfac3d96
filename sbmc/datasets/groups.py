"""Generated out-of-domain groups: white noise and perturbed images."""

from __future__ import annotations

import torch
from torch import Tensor

from sbmc.randomness import Stream, generator

# Each group has its own stream: a larger one does not change what is drawn for the other.
_WHITE_NOISE, _PERTURBED = 0, 1


def white_noise(count: int, shape: tuple[int, ...], seed: int) -> Tensor:
    """Images whose pixels are independent and uniform on [0, 1).

    Args:
        count: how many images.
        shape: of one image.
        seed: of the study.

    Returns:
        `(count, *shape)`, float32.
    """
    return torch.rand(count, *shape, generator=generator(seed, Stream.OUT_OF_DOMAIN, _WHITE_NOISE))


def perturbed(images: Tensor, seed: int, noise_sd: float = 0.5) -> Tensor:
    """Images plus independent Gaussian noise on each pixel.

    Pixels are not clipped: they leave [0, 1], as in the paper.

    Args:
        images: `(count, ...)`, float32; left as they are.
        seed: of the study.
        noise_sd: standard deviation of the noise; the default is the paper's.

    Returns:
        The shape of `images`.
    """
    rng = generator(seed, Stream.OUT_OF_DOMAIN, _PERTURBED)
    return images + noise_sd * torch.randn(images.shape, generator=rng)
